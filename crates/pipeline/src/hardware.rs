//! What is known about one GPU: the facts that its driver reports and the ceilings measured on it.
//!
//! A sheet belongs to one card under one driver. It gives each result its [`Floor`]: the time below
//! which no kernel for the task can go on that card. Nothing here measures; the probe child does.

use serde::{Deserialize, Serialize};

use crate::device_facts::DeviceFacts;
use crate::expression::Expression;
use crate::scope::Scope;
use crate::task::spec::{Case, Precision, TaskSpec};

/// Version of the sheet's form, and of the way in which its ceilings are measured.
pub const SHEET_VERSION: u32 = 3;

/// Share of the shortest possible time below which a time is not believed.
const BELIEVED_SHARE_MIN: f64 = 0.95;
/// Products of a narrower type that make one of fp32.
const SPLIT_PRODUCTS: f64 = 3.0;
/// Samples that a rate needs, and how far its 10th and 90th percentile may be apart, as a share.
const RATE_SAMPLES_MIN: u32 = 10;
const RATE_SPREAD_MAX: f64 = 0.1;

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareSheet {
    pub version: u32,
    /// As NVIDIA's tools print it: `GPU-` and a UUID.
    pub uuid: String,
    /// Version of the driver, such as `580.159.04`.
    pub driver: String,
    /// The newest CUDA that the driver serves, as 1000 × major + 10 × minor.
    pub cuda_version: i32,
    pub facts: DeviceFacts,
    /// `None` until it was measured.
    pub ceilings: Option<Ceilings>,
}

/// What a card reached when it did nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceilings {
    /// DRAM to DRAM, bytes read plus bytes written per second.
    pub copy_bytes_per_s: Rate,
    pub read_bytes_per_s: Rate,
    pub write_bytes_per_s: Rate,
    /// Reads that the L2 cache serves.
    pub l2_read_bytes_per_s: Rate,
    /// fp32 fused multiply-adds on the plain cores, two operations each.
    pub fp32_flops_per_s: Rate,
    /// An empty kernel between two events, less the events, in nanoseconds.
    pub launch_ns: f64,
    /// Two events with nothing between them, in nanoseconds.
    pub event_pair_ns: f64,
    /// SM clock while they were measured, in Hz.
    pub sm_clock_hz: f64,
    /// True when a new process found nothing of what another one had left in memory.
    pub memory_scrubbed: bool,
    /// Matrix products of the vendor's library; `None` where there is none.
    pub gemm: Option<GemmRates>,
}

/// Operations per second of large matrix products, a multiply-add counting as two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmRates {
    pub fp32: Rate,
    pub tf32: Rate,
    pub fp16: Rate,
    pub bf16: Rate,
    /// int8 operands summed in int32, and fp8 (e4m3) operands summed in fp32; why there is none,
    /// where the libraries do not do it on this card.
    #[serde(default = "not_measured")]
    pub int8: Result<Rate, String>,
    #[serde(default = "not_measured")]
    pub fp8: Result<Rate, String>,
}

/// What older sheets say of products that they do not have.
fn not_measured() -> Result<Rate, String> {
    Err("it was not measured".to_owned())
}

/// A measured rate: the median of some repetitions, and the 10th and 90th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub samples: u32,
}

/// The time below which a task cannot be done on a card, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    pub ns: f64,
    pub limit: FloorLimit,
    /// Bytes that must move: each distinct one once.
    pub bytes: f64,
    /// Operations that the task counts, in the class of the kernel; 0 where it counts none.
    pub flops: f64,
    /// The peak that they are held against; 0 where none is known, and in older records.
    #[serde(default)]
    pub flops_per_s: f64,
}

/// The resource that gives the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FloorLimit {
    Bandwidth,
    Arithmetic,
}

impl Ceilings {
    /// The fastest that memory was seen to move, reading or copying, in bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.copy_bytes_per_s.median.max(self.read_bytes_per_s.median)
    }

    /// The shortest time, in nanoseconds, that is believed for work with this floor: memory at its
    /// fastest in any direction, with as much of the outputs still in the cache as fits there.
    #[must_use]
    pub fn believable_ns(&self, floor: &Floor, output_bytes: u64, l2_bytes: i64) -> f64 {
        let cached = output_bytes.min(l2_bytes.unsigned_abs()) as f64;
        let fastest = self.bandwidth().max(self.write_bytes_per_s.median);
        let memory_ns = 1e9 * (floor.bytes - cached).max(0.0) / fastest;
        let arithmetic_ns = arithmetic_ns(floor.flops, floor.flops_per_s);
        BELIEVED_SHARE_MIN * memory_ns.max(arithmetic_ns)
    }

    /// The peak for kernels of a class with these matrix instructions, in operations per second;
    /// `None` where it is not known.
    ///
    /// fp32 may be made of several products of a narrower type (3×TF32): then the peak of that type
    /// counts by a third.
    #[must_use]
    pub fn peak(&self, class: Precision, mma_types: &[String]) -> Option<f64> {
        let of = |rate: fn(&GemmRates) -> Rate| self.gemm.as_ref().map(|gemm| rate(gemm).high);
        let narrow = |rate: fn(&GemmRates) -> &Result<Rate, String>| {
            let rate = self.gemm.as_ref().map(rate)?.as_ref().ok()?;
            Some(rate.high)
        };
        let known = |peak: &f64| *peak > 0.0;
        let peak = match class {
            Precision::Fp32 => {
                let narrow = mma_types.iter().filter_map(|types| match types {
                    types if types.contains("tf32") => of(|gemm| gemm.tf32),
                    types if types.contains("bf16") => of(|gemm| gemm.bf16),
                    types if types.contains("f16") => of(|gemm| gemm.fp16),
                    _ => None,
                });
                let split = narrow.map(|peak| peak / SPLIT_PRODUCTS);
                Some(split.fold(self.fp32_flops_per_s.median, f64::max))
            }
            Precision::Tf32 => of(|gemm| gemm.tf32),
            Precision::Fp16 => of(|gemm| gemm.fp16),
            Precision::Bf16 => of(|gemm| gemm.bf16),
            Precision::Int8 => narrow(|gemm| &gemm.int8),
            Precision::Fp8 => narrow(|gemm| &gemm.fp8),
            Precision::Exact => None,
        };
        peak.filter(known)
    }

    /// Why these cannot be what the card can do: too few samples, or samples too far apart.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let rates = [
            ("copy", &self.copy_bytes_per_s),
            ("read", &self.read_bytes_per_s),
            ("write", &self.write_bytes_per_s),
            ("L2 read", &self.l2_read_bytes_per_s),
            ("multiply-add", &self.fp32_flops_per_s),
        ];
        let steady = |rate: &Rate| {
            let wide = rate.high - rate.low > RATE_SPREAD_MAX * rate.median;
            rate.samples >= RATE_SAMPLES_MIN && rate.median > 0.0 && !wide
        };
        let (name, rate) = rates.into_iter().find(|(_, rate)| !steady(rate))?;
        Some(format!(
            "the {name} rate was {:.3e} to {:.3e} in {} samples",
            rate.low, rate.high, rate.samples
        ))
    }
}

impl HardwareSheet {
    /// The floor of a task at one shape for kernels of a precision class, whose matrix instructions
    /// are of these types; `None` without ceilings. Arithmetic counts where its peak is known.
    #[must_use]
    pub fn floor(
        &self,
        spec: &TaskSpec,
        case: &Case,
        class: Precision,
        mma_types: &[String],
    ) -> Option<Floor> {
        let ceilings = self.ceilings.as_ref()?;
        let bytes = roofline_value(spec, case, &spec.roofline.bytes)?;
        let peak = ceilings.peak(class, mma_types);
        let flops = spec.roofline.flops.get(&class).filter(|_| peak.is_some());
        let flops = flops.map_or(Some(0.0), |text| roofline_value(spec, case, text))?;
        let flops_per_s = peak.unwrap_or(0.0);
        let memory_ns = 1e9 * bytes / ceilings.bandwidth();
        let arithmetic_ns = arithmetic_ns(flops, flops_per_s);
        let limit =
            if arithmetic_ns > memory_ns { FloorLimit::Arithmetic } else { FloorLimit::Bandwidth };
        Some(Floor { ns: memory_ns.max(arithmetic_ns), limit, bytes, flops, flops_per_s })
    }
}

/// The shortest time of so many operations; 0 where their peak is not known.
fn arithmetic_ns(flops: f64, flops_per_s: f64) -> f64 {
    if flops_per_s > 0.0 { 1e9 * flops / flops_per_s } else { 0.0 }
}

impl Floor {
    /// What a time means in the floor's own unit: `3.46 TB/s` or `41.2 TFLOP/s`.
    #[must_use]
    pub fn rate(&self, ns: f64) -> String {
        let (amount, unit) = match self.limit {
            FloorLimit::Bandwidth => (self.bytes, "B/s"),
            FloorLimit::Arithmetic => (self.flops, "FLOP/s"),
        };
        let per_ns = amount / ns.max(1.0);
        if per_ns >= 1e3 {
            format!("{:.2} T{unit}", per_ns / 1e3)
        } else {
            format!("{per_ns:.1} G{unit}")
        }
    }
}

/// Value of a roofline expression of a task at a shape.
fn roofline_value(spec: &TaskSpec, case: &Case, text: &str) -> Option<f64> {
    let parsed = Expression::parse(text, &spec.dim_names()).ok()?;
    parsed.integer(&Scope::of_dims(&case.dims)).ok().map(|value| value as f64)
}

#[cfg(test)]
mod tests {
    use super::{Ceilings, Floor, FloorLimit, GemmRates, HardwareSheet, Rate, SHEET_VERSION};
    use crate::device_facts::DeviceFacts;
    use crate::task::spec::Precision;

    fn sheet() -> HardwareSheet {
        let rate = |median| Rate { median, low: median, high: median, samples: 9 };
        HardwareSheet {
            version: SHEET_VERSION,
            uuid: "GPU-1".to_owned(),
            driver: "580.1".to_owned(),
            cuda_version: 13000,
            facts: DeviceFacts::simulated_h200(),
            ceilings: Some(Ceilings {
                copy_bytes_per_s: rate(4e12),
                read_bytes_per_s: rate(3.9e12),
                write_bytes_per_s: rate(5e12),
                l2_read_bytes_per_s: rate(8e12),
                fp32_flops_per_s: rate(60e12),
                launch_ns: 2e3,
                event_pair_ns: 1e3,
                sm_clock_hz: 1.9e9,
                memory_scrubbed: true,
                gemm: Some(GemmRates {
                    fp32: rate(50e12),
                    tf32: rate(400e12),
                    fp16: rate(700e12),
                    bf16: rate(600e12),
                    int8: Ok(rate(1400e12)),
                    fp8: Err("cublasLt was not found".to_owned()),
                }),
            }),
        }
    }

    #[test]
    fn the_floor_is_the_slower_of_memory_and_arithmetic() {
        let task = crate::task::tests::softmax();
        let headline = task.spec.headline().unwrap();
        let floor = sheet().floor(&task.spec, headline, Precision::Fp32, &[]).unwrap();
        let [rows, cols] = ["rows", "cols"].map(|dim| headline.dims[dim] as f64);
        assert_eq!(floor.limit, FloorLimit::Bandwidth);
        assert_eq!(floor.bytes, 8.0 * rows * cols);
        assert!((floor.ns - floor.bytes / 4e3).abs() < 1e-6 * floor.ns);
        let unmeasured = HardwareSheet { ceilings: None, ..sheet() };
        assert_eq!(unmeasured.floor(&task.spec, headline, Precision::Fp32, &[]), None);
        let mut heavy = task.spec.clone();
        heavy.roofline.flops.insert(Precision::Fp32, "1000 * rows * cols".to_owned());
        let floor = sheet().floor(&heavy, headline, Precision::Fp32, &[]).unwrap();
        assert_eq!(floor.limit, FloorLimit::Arithmetic);
        assert!((floor.ns - floor.flops / 60e3).abs() < 1e-6 * floor.ns);
    }

    #[test]
    fn each_class_has_the_peak_of_its_own_arithmetic() {
        let ceilings = sheet().ceilings.unwrap();
        let peak = |class, types: &[&str]| {
            let types: Vec<String> = types.iter().map(|text| (*text).to_owned()).collect();
            ceilings.peak(class, &types).map(|peak| peak / 1e12)
        };
        for (class, types, expected) in [
            (Precision::Fp32, &[][..], Some(60.0)),
            (Precision::Fp32, &["mma f32.tf32.tf32.f32"][..], Some(400.0 / 3.0)),
            (Precision::Fp32, &["wgmma f32.bf16.bf16"][..], Some(200.0)),
            (Precision::Fp32, &["wmma f32.f16.f16.f32", "mma f64.f64"][..], Some(700.0 / 3.0)),
            (Precision::Fp32, &["mma f64.f64"][..], Some(60.0)),
            (Precision::Tf32, &[][..], Some(400.0)),
            (Precision::Bf16, &[][..], Some(600.0)),
            (Precision::Int8, &[][..], Some(1400.0)),
            (Precision::Fp8, &[][..], None),
            (Precision::Exact, &[][..], None),
        ] {
            let found = peak(class, types);
            let close = found.zip(expected).is_none_or(|(found, it)| (found - it).abs() < 1e-6);
            assert!(
                found.is_some() == expected.is_some() && close,
                "{class:?} {types:?} {found:?}"
            );
        }
        let older = serde_json::to_value(ceilings.gemm.as_ref().unwrap()).unwrap();
        let mut older = older.as_object().unwrap().clone();
        older.retain(|name, _| name != "int8" && name != "fp8");
        let older: GemmRates = serde_json::from_value(older.into()).unwrap();
        assert!(older.int8.is_err() && older.fp8.is_err());
        let without = Ceilings { gemm: None, ..ceilings };
        assert_eq!(without.peak(Precision::Tf32, &[]), None);
        assert_eq!(without.peak(Precision::Fp32, &["mma f32.tf32".to_owned()]), Some(60e12));
        let headline = crate::task::tests::softmax();
        let case = headline.spec.headline().unwrap();
        let bare = HardwareSheet { ceilings: Some(without), ..sheet() };
        let floor = bare.floor(&headline.spec, case, Precision::Tf32, &[]).unwrap();
        assert_eq!((floor.limit, floor.flops), (FloorLimit::Bandwidth, 0.0));
    }

    #[test]
    fn what_the_cache_can_hold_back_is_believed() {
        let ceilings = sheet().ceilings.unwrap();
        let floor = Floor {
            ns: 0.0,
            limit: FloorLimit::Bandwidth,
            bytes: 200e6,
            flops: 0.0,
            flops_per_s: 0.0,
        };
        let at = |outputs, l2| ceilings.believable_ns(&floor, outputs, l2);
        // At the write rate of 5e12, the fastest of all.
        assert!((at(100_000_000, 0) - 0.95 * 40_000.0).abs() < 1.0);
        assert!((at(100_000_000, 50_000_000) - 0.95 * 30_000.0).abs() < 1.0);
        assert!((at(10_000_000, 50_000_000) - 0.95 * 38_000.0).abs() < 1.0);
        let heavy = Floor { flops: 6e9, flops_per_s: 60e12, ..floor };
        assert!((ceilings.believable_ns(&heavy, 0, 0) - 0.95 * 100_000.0).abs() < 1.0);
    }

    #[test]
    fn disturbed_ceilings_are_told() {
        let mut ceilings = sheet().ceilings.unwrap();
        ceilings.read_bytes_per_s.samples = 25;
        let steady = |rate: Rate| Rate { samples: 25, ..rate };
        ceilings.copy_bytes_per_s = steady(ceilings.copy_bytes_per_s);
        ceilings.write_bytes_per_s = steady(ceilings.write_bytes_per_s);
        ceilings.l2_read_bytes_per_s = steady(ceilings.l2_read_bytes_per_s);
        ceilings.fp32_flops_per_s = steady(ceilings.fp32_flops_per_s);
        assert_eq!(ceilings.flaw(), None);
        let mut wide = ceilings.clone();
        wide.copy_bytes_per_s.low = 3e12;
        assert!(wide.flaw().unwrap().contains("copy rate"));
        let mut few = ceilings;
        few.fp32_flops_per_s.samples = 3;
        assert!(few.flaw().unwrap().contains("multiply-add"));
    }

    #[test]
    fn rates_are_in_the_unit_of_the_floor() {
        let floor = Floor {
            ns: 1.0,
            limit: FloorLimit::Bandwidth,
            bytes: 268_435_456.0,
            flops: 0.0,
            flops_per_s: 0.0,
        };
        assert_eq!(floor.rate(77_500.0), "3.46 TB/s");
        assert_eq!(floor.rate(1_000_000.0), "268.4 GB/s");
        let floor = Floor { limit: FloorLimit::Arithmetic, flops: 1.37e11, ..floor };
        assert_eq!(floor.rate(3_325_242.0), "41.20 TFLOP/s");
    }
}
