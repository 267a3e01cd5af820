//! The bytes of one buffer, readable and writable from several threads at once.
//!
//! A racy kernel must give racy bytes, never undefined behaviour of this program: all device
//! accesses are relaxed atomics on 32-bit words. The byte views for the host are the only `unsafe`.
#![allow(unsafe_code, reason = "byte views of a buffer that no launch is using")]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes of one buffer in units of 32-bit little-endian words.
#[derive(Debug)]
pub(crate) struct Words(Box<[AtomicU32]>);

impl Words {
    /// Zeroed words that hold at least that many bytes.
    pub(crate) fn zeroed(bytes: usize) -> Words {
        let words: Vec<u32> = vec![0; bytes.div_ceil(4)];
        Words(words.into_iter().map(AtomicU32::new).collect())
    }

    /// The bytes, for the host.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the pointer and length cover exactly the boxed words, `u8` has no alignment and
        // any bit pattern is valid. Only `store` and its kin change words through `&self`; the
        // executor calls them under `&mut Machine`, which excludes this borrow.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len() * 4) }
    }

    /// The bytes, for the host to change.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes this the only access.
        unsafe {
            std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u8>(), self.0.len() * 4)
        }
    }

    /// A naturally aligned value of 1, 2, 4 or 8 bytes; 0 outside the buffer.
    #[inline(always)]
    pub(crate) fn load(&self, offset: u64, bytes: u8) -> u64 {
        let index = (offset >> 2) as usize;
        let low = self.word(index);
        match bytes {
            4 => u64::from(low),
            8 => u64::from(low) | u64::from(self.word(index + 1)) << 32,
            2 => u64::from(low >> ((offset & 2) * 8) & 0xffff),
            _ => u64::from(low >> ((offset & 3) * 8) & 0xff),
        }
    }

    /// Stores a naturally aligned value of 1, 2, 4 or 8 bytes; nothing outside the buffer.
    #[inline(always)]
    pub(crate) fn store(&self, offset: u64, bytes: u8, value: u64) {
        let index = (offset >> 2) as usize;
        match bytes {
            4 => self.set_word(index, value as u32),
            8 => {
                self.set_word(index, value as u32);
                self.set_word(index + 1, (value >> 32) as u32);
            }
            2 => self.merge(index, 0xffff, value as u32, (offset & 2) * 8),
            _ => self.merge(index, 0xff, value as u32, (offset & 3) * 8),
        }
    }

    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u32 {
        self.0.get(index).map_or(0, |w| w.load(Relaxed))
    }

    #[inline(always)]
    fn set_word(&self, index: usize, value: u32) {
        if let Some(word) = self.0.get(index) {
            word.store(value, Relaxed);
        }
    }

    /// The words from an index on.
    #[inline(always)]
    pub(crate) fn run(&self, index: usize, len: usize) -> Option<&[AtomicU32]> {
        self.0.get(index..index.checked_add(len)?)
    }

    /// Replaces part of a word without disturbing its neighbours, also under other threads.
    fn merge(&self, index: usize, mask: u32, value: u32, shift: u64) {
        if let Some(word) = self.0.get(index) {
            let part = (value & mask) << shift;
            let _ = word.fetch_update(Relaxed, Relaxed, |w| Some(w & !(mask << shift) | part));
        }
    }
}
