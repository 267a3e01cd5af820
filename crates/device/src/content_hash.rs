//! The 128-bit keyed hash by which a buffer's content is compared without copying it out.
//!
//! It is made to be computed in any order by many threads, and with a key that the kernels never
//! see; it is no cryptographic hash. The timing harness has the same on the device.

/// Bytes of a word of the hash.
pub const HASH_WORD_BYTES: usize = 8;

/// The finaliser of splitmix64.
fn mix(mut word: u64) -> u64 {
    word ^= word >> 30;
    word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 27;
    word = word.wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Hashes bytes, read as little-endian words of 8 bytes with zeros behind the end.
#[must_use]
pub fn hash_bytes(key: [u64; 2], bytes: &[u8]) -> [u64; 2] {
    hash_part(key, 0, bytes)
}

/// What a part that begins at word `first` adds to the hash of the whole: the hash is the sum over
/// parts of whole words.
#[must_use]
pub fn hash_part(key: [u64; 2], first: u64, bytes: &[u8]) -> [u64; 2] {
    let mut sums = [0u64; 2];
    for (index, chunk) in (first..).zip(bytes.chunks(HASH_WORD_BYTES)) {
        let mut word = [0; HASH_WORD_BYTES];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        for (sum, key) in sums.iter_mut().zip(key) {
            *sum = sum.wrapping_add(mix(word ^ mix(index ^ key)));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_place_and_key_all_matter() {
        let key = [7, 11];
        let hash = hash_bytes(key, b"warps and wefts, 24 byte");
        assert_ne!(hash, hash_bytes([7, 12], b"warps and wefts, 24 byte"));
        assert_ne!(hash, hash_bytes(key, b"and wefts, 24 bytewarps "));
        assert_ne!(hash, hash_bytes(key, b"warps and wefts, 24 bytE"));
        let bytes = b"warps and wefts, 24 byte";
        let parts = [hash_part(key, 0, &bytes[..8]), hash_part(key, 1, &bytes[8..])];
        assert_eq!(hash, [0, 1].map(|at| parts[0][at].wrapping_add(parts[1][at])));
        assert_eq!(hash_bytes(key, b""), [0, 0]);
        assert_eq!(hash_bytes(key, b"tail"), hash_bytes(key, b"tail\0\0\0\0"));
    }

    #[test]
    fn the_finaliser_is_that_of_splitmix64() {
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }
}
