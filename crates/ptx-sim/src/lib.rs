//! Runs PTX on the CPU: PTX text and bytes in; bytes, counters or a trap out.
