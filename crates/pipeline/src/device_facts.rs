//! Facts about a device that expressions may name and that estimates use.

use serde::{Deserialize, Serialize};

/// What is known about the device that a candidate is built for and run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// Model name; two devices of one model have equal facts.
    pub model: String,
    /// Compile target, e.g. `sm_90a`.
    pub arch: String,
    /// True when the numbers come from a simulator: times are then never printed.
    pub simulated: bool,
    pub sm_count: i64,
    pub warp_size: i64,
    pub max_threads_per_block: i64,
    pub max_threads_per_sm: i64,
    pub shared_per_block: i64,
    pub shared_per_block_optin: i64,
    pub shared_per_sm: i64,
    pub registers_per_sm: i64,
    pub l2_bytes: i64,
    pub memory_bytes: i64,
    /// DRAM bandwidth in bytes per second: a data-sheet value on a simulated device.
    pub bandwidth_bytes_per_s: f64,
    /// fp32 peak in flop per second.
    pub fp32_flops_per_s: f64,
    /// SM clock in Hz.
    pub clock_hz: f64,
}

/// Names of the facts that an expression may use.
pub const FACT_NAMES: [&str; 10] = [
    "sm_count",
    "warp_size",
    "max_threads_per_block",
    "max_threads_per_sm",
    "shared_per_block",
    "shared_per_block_optin",
    "shared_per_sm",
    "registers_per_sm",
    "l2_bytes",
    "memory_bytes",
];

impl DeviceFacts {
    /// The facts with their names, in the order of [`FACT_NAMES`].
    #[must_use]
    pub fn named(&self) -> [(&'static str, i64); 10] {
        let values = [
            self.sm_count,
            self.warp_size,
            self.max_threads_per_block,
            self.max_threads_per_sm,
            self.shared_per_block,
            self.shared_per_block_optin,
            self.shared_per_sm,
            self.registers_per_sm,
            self.l2_bytes,
            self.memory_bytes,
        ];
        std::array::from_fn(|index| (FACT_NAMES[index], values[index]))
    }

    /// The simulator's device: the limits and data-sheet peaks of an H200 (sm_90a).
    ///
    /// Source: NVIDIA's H200 data sheet (4.8 TB/s, 67 TFLOP/s fp32, 1.98 GHz) and the attributes
    /// that the driver reports for it. They only scale estimates; no time is ever printed.
    #[must_use]
    pub fn simulated_h200() -> Self {
        Self {
            model: "sim-h200".to_owned(),
            arch: "sm_90a".to_owned(),
            simulated: true,
            sm_count: 132,
            warp_size: 32,
            max_threads_per_block: 1024,
            max_threads_per_sm: 2048,
            shared_per_block: 49_152,
            shared_per_block_optin: 232_448,
            shared_per_sm: 233_472,
            registers_per_sm: 65_536,
            l2_bytes: 62_914_560,
            memory_bytes: 150_754_820_096,
            bandwidth_bytes_per_s: 4.8e12,
            fp32_flops_per_s: 67e12,
            clock_hz: 1.98e9,
        }
    }
}
