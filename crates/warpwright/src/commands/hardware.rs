//! `hardware`: what GPUs there are, and what each of them can do.

use pipeline::hardware::{Ceilings, HardwareSheet, Rate};

use crate::gpus::{self, DeviceSetting};
use crate::outcome::{Outcome, not_available};
use crate::settings::Places;
use crate::{environment, terminal, wiring};

/// Measures the chosen cards anew.
pub(crate) fn probe(places: &Places) -> anyhow::Result<Outcome> {
    let toolchain = wiring::toolchain(places)?;
    let mut measured = Vec::new();
    // Cards of several models may stand side by side here.
    for sheet in named(places)? {
        measured.extend(gpus::measure(places, &gpus::judge_of(&toolchain, vec![sheet])?)?);
    }
    told(&measured)
}

/// Says what is known without measuring.
pub(crate) fn show(places: &Places) -> anyhow::Result<Outcome> {
    told(&named(places)?)
}

/// The cards that `--device` names, all where it names none.
fn named(places: &Places) -> anyhow::Result<Vec<HardwareSheet>> {
    let sheets = match &places.device {
        DeviceSetting::Auto => Some(gpus::found(places)?),
        other => gpus::chosen(places, other)?,
    };
    let none = || not_available(format!("no GPU to look at: {}", gpus::why_none(&places.device)));
    sheets.filter(|sheets| !sheets.is_empty()).ok_or_else(none)
}

fn told(sheets: &[HardwareSheet]) -> anyhow::Result<Outcome> {
    for sheet in sheets {
        sheet_lines(sheet).iter().for_each(|line| terminal::line(line));
    }
    Ok(Outcome::done().with("gpus", serde_json::to_value(sheets)?))
}

/// A sheet for a person.
pub(crate) fn sheet_lines(sheet: &HardwareSheet) -> Vec<String> {
    let facts = &sheet.facts;
    let mut lines = vec![
        format!("{} ({}), {}", facts.model, facts.arch, sheet.uuid),
        format!("  driver {}, CUDA {}", sheet.driver, cuda_version(sheet.cuda_version)),
        format!(
            "  {} SMs, {:.1} GiB, {} MiB L2, {} KiB of shared memory per block at most",
            facts.sm_count,
            facts.memory_bytes as f64 / f64::from(1 << 30),
            facts.l2_bytes >> 20,
            facts.shared_per_block_optin >> 10
        ),
    ];
    match &sheet.ceilings {
        Some(ceilings) => lines.extend(ceiling_lines(ceilings)),
        None => lines.push(format!(
            "  not measured: `{} hardware probe` does it in some seconds",
            environment::program_name()
        )),
    }
    lines
}

fn cuda_version(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn ceiling_lines(ceilings: &Ceilings) -> Vec<String> {
    let rate = |name: &str, rate: &Rate, unit: &str| {
        format!(
            "  {name:<22} {:.2} {unit} (p10 {:.2}, p90 {:.2}, {} samples)",
            rate.median / 1e12,
            rate.low / 1e12,
            rate.high / 1e12,
            rate.samples
        )
    };
    let narrow = |name: &str, found: &Result<Rate, String>, unit: &str| match found {
        Ok(found) => rate(name, found, unit),
        Err(why) => format!("  {name:<22} not available: {why}"),
    };
    let mut lines = vec![
        rate("copy (read + write)", &ceilings.copy_bytes_per_s, "TB/s"),
        rate("read", &ceilings.read_bytes_per_s, "TB/s"),
        rate("write", &ceilings.write_bytes_per_s, "TB/s"),
        rate("read from L2", &ceilings.l2_read_bytes_per_s, "TB/s"),
        rate("fp32 multiply-add", &ceilings.fp32_flops_per_s, "TFLOP/s"),
        format!("  launch of a kernel     {:.0} ns", ceilings.launch_ns),
        format!("  pair of events         {:.0} ns", ceilings.event_pair_ns),
        format!("  SM clock               {:.0} MHz", ceilings.sm_clock_hz / 1e6),
        format!(
            "  memory between processes is {}",
            if ceilings.memory_scrubbed { "cleared by the driver" } else { "NOT cleared" }
        ),
    ];
    match &ceilings.gemm {
        Some(gemm) => lines.extend([
            rate("fp32 matrix product", &gemm.fp32, "TFLOP/s"),
            rate("TF32 matrix product", &gemm.tf32, "TFLOP/s"),
            rate("fp16 matrix product", &gemm.fp16, "TFLOP/s"),
            rate("bf16 matrix product", &gemm.bf16, "TFLOP/s"),
            narrow("int8 matrix product", &gemm.int8, "TOP/s"),
            narrow("fp8 matrix product", &gemm.fp8, "TFLOP/s"),
        ]),
        None => lines.push("  matrix products: not measured, cuBLAS was not found".to_owned()),
    }
    lines
}
