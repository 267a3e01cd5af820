//! Every cap of this crate in one place; what is cut says how much was cut.

use std::time::Duration;

/// Longest kernel source that is compiled, in bytes.
pub(crate) const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Longest compiler log that is kept, in bytes; the head is kept.
pub(crate) const LOG_BYTES_MAX: usize = 64 << 10;
/// Longest PTX, CUBIN or log that is read from the compiler, in bytes.
pub(crate) const IMAGE_BYTES_MAX: usize = 64 << 20;
/// Diagnostics kept of one compile; errors are kept before warnings.
pub(crate) const DIAGNOSTICS_MAX: usize = 32;
/// Diagnostics read from a log before the rest is ignored.
pub(crate) const DIAGNOSTICS_SCANNED_MAX: usize = 4096;
/// Longest message of one diagnostic, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2 << 10;
/// Longest excerpt of one diagnostic, in bytes.
pub(crate) const EXCERPT_BYTES_MAX: usize = 1 << 10;
/// Kernels whose resources are listed.
pub(crate) const KERNELS_MAX: usize = 256;
/// Name expressions of one compile.
pub(crate) const NAME_EXPRESSIONS_MAX: usize = 256;
/// Kernel names listed as a hint when a name is not found.
pub(crate) const NAMES_HINTED_MAX: usize = 16;
/// Macro definitions of one compile.
pub(crate) const DEFINES_MAX: usize = 256;
/// Architectures that a compiler may list.
pub(crate) const ARCHITECTURES_MAX: usize = 256;
/// What is kept of an installer's error output, in bytes; the tail is kept.
pub(crate) const INSTALLER_ERROR_BYTES_MAX: usize = 4 << 10;
/// Longest file unpacked from a wheel, in bytes.
pub(crate) const UNPACKED_FILE_BYTES_MAX: u64 = 1 << 30;
/// Longest manifest or version file that is read, in bytes.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Files of one unpacked toolchain.
pub(crate) const UNPACKED_FILES_MAX: usize = 20_000;

/// Parameters of one kernel.
pub(crate) const PARAMETERS_MAX: usize = 4096;
/// How long waiting for the GPU only spins.
pub(crate) const POLL_SPIN: Duration = Duration::from_micros(200);
/// Shortest sleep between two questions to the GPU.
pub(crate) const POLL_SLEEP_MIN: Duration = Duration::from_micros(20);
/// Longest sleep between two questions to the GPU.
pub(crate) const POLL_SLEEP_MAX: Duration = Duration::from_millis(1);
/// Hashes that wait to be read.
pub(crate) const HASHES_MAX: u64 = 4096;
/// The gate opens by itself after this, whatever the host does.
pub(crate) const GATE_TIMEOUT: Duration = Duration::from_millis(100);
/// How long a timer that goes away waits for what it queued before it leaves everything behind.
pub(crate) const TIMER_DROP_WAIT: Duration = Duration::from_secs(2);
/// The gate holds at least this long, so that the clock that it measures is exact to 1 %.
pub(crate) const GATE_MINIMUM: Duration = Duration::from_micros(200);
/// Longest wait for the kernels of a measurement of ceilings or a check of health.
pub(crate) const HARNESS_DEADLINE: Duration = Duration::from_secs(30);
/// Device memory that a pattern, or the search for one, leaves to the driver, in bytes.
pub(crate) const PATTERN_SPARE_BYTES: u64 = 1 << 30;
/// Smallest piece of memory that is worth a pattern, in bytes.
pub(crate) const PATTERN_PIECE_BYTES_MIN: u64 = 64 << 20;
/// Processes of one GPU that are listed.
pub(crate) const PROCESSES_MAX: usize = 1024;

/// Cuts `text` to at most about `bytes_max` bytes from its head and says how much was cut.
pub(crate) fn head(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{}\n[{} bytes cut]", &text[..end], text.len() - end)
}

/// Cuts `text` to at most about `bytes_max` bytes from its tail and says how much was cut.
pub(crate) fn tail(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let start = text.ceil_char_boundary(text.len() - bytes_max);
    format!("[{start} bytes cut]\n{}", &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_say_how_much_and_respect_characters() {
        assert_eq!(head("abc", 3), "abc");
        assert_eq!(head("abcdef", 3), "abc\n[3 bytes cut]");
        assert_eq!(tail("abcdef", 2), "[4 bytes cut]\nef");
        assert_eq!(head("éé", 3), "é\n[2 bytes cut]");
        assert_eq!(tail("éé", 3), "[2 bytes cut]\né");
    }
}
