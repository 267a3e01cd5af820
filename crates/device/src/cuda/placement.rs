//! Where a buffer lies inside its mapping; arithmetic only.

/// Alignment of every buffer, and what its length is padded to, in bytes.
const ALIGNMENT: u64 = 256;

/// Which end of its mapping a buffer is pushed against; the pages behind both are unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Against the end: running past the padding faults.
    Upper,
    /// At the start: running before the buffer faults.
    Lower,
}

impl Placement {
    /// What fills the mapping outside of the buffer: NaNs above, a finite pattern below.
    pub(super) fn slack_byte(self) -> u8 {
        match self {
            Self::Upper => 0xff,
            Self::Lower => 0xa5,
        }
    }
}

/// A buffer's place; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Size of the mapping, a multiple of the granularity.
    pub(super) mapped: u64,
    /// From the mapping's start to the buffer's.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Layout {
    /// The layout of a buffer, or none when its size overflows.
    pub(super) fn new(bytes: u64, granularity: u64, placement: Placement) -> Option<Layout> {
        let padded = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let mapped = padded.checked_next_multiple_of(granularity.max(ALIGNMENT))?;
        let offset = match placement {
            Placement::Upper => mapped - padded,
            Placement::Lower => 0,
        };
        Some(Layout { mapped, offset, bytes })
    }

    /// Start and length of what lies before and behind the buffer, from the mapping's start.
    pub(super) fn slack(&self) -> [(u64, u64); 2] {
        let end = self.offset + self.bytes;
        [(0, self.offset), (end, self.mapped - end)]
    }
}

/// Where the first changed byte of a slack is, and how many are changed.
pub(super) fn changed(slack: &[u8], expected: u8) -> Option<(u64, u64)> {
    let first = slack.iter().position(|byte| *byte != expected)?;
    let count = slack[first..].iter().filter(|byte| **byte != expected).count();
    Some((first as u64, count as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 2 << 20;

    #[test]
    fn buffers_touch_the_end_they_are_pushed_against() {
        for bytes in [0, 1, 255, 256, 257, 4096, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE + 77] {
            let upper = Layout::new(bytes, PAGE, Placement::Upper).unwrap();
            let lower = Layout::new(bytes, PAGE, Placement::Lower).unwrap();
            assert_eq!(lower.offset, 0);
            assert_eq!(upper.offset % ALIGNMENT, 0);
            assert!(upper.mapped - upper.offset - bytes <= ALIGNMENT, "{bytes}");
            for layout in [upper, lower] {
                assert_eq!(layout.mapped % PAGE, 0);
                let slack: u64 = layout.slack().iter().map(|(_, len)| len).sum();
                assert_eq!(slack + bytes, layout.mapped);
                assert!(slack <= PAGE);
            }
        }
        assert_eq!(Layout::new(u64::MAX, PAGE, Placement::Upper), None);
    }

    #[test]
    fn changes_are_counted_from_the_first() {
        assert_eq!(changed(&[7; 8], 7), None);
        assert_eq!(changed(&[], 7), None);
        assert_eq!(changed(&[7, 7, 1, 7, 2], 7), Some((2, 2)));
    }
}
