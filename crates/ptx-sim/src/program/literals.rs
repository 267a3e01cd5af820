//! Operands that stand for a value: immediates and special registers.

use super::builder::{Decoded, Reject};
use super::ir::Special;
use crate::syntax::Immediate;

/// The bits of an immediate in a 32-bit or narrower place.
pub(super) fn immediate32(number: Immediate) -> u64 {
    match number {
        Immediate::Int(value) => u64::from(value as u32),
        Immediate::F32(bits) => u64::from(bits),
        Immediate::F64(bits) => u64::from((f64::from_bits(bits) as f32).to_bits()),
    }
}

/// The bits of an immediate in a 64-bit place.
pub(super) fn immediate64(number: Immediate) -> u64 {
    match number {
        Immediate::Int(value) => value as u64,
        Immediate::F32(bits) => f64::from(f32::from_bits(bits)).to_bits(),
        Immediate::F64(bits) => bits,
    }
}

/// A special register with a fixed value; the clocks are not among them.
pub(super) fn special(name: &str) -> Decoded<Option<Special>> {
    if !crate::facts::is_special_register(name) {
        return Ok(None);
    }
    let axis = match name.rsplit_once('.') {
        Some((_, "x")) => 0,
        Some((_, "y")) => 1,
        Some((_, "z")) => 2,
        _ => 3,
    };
    let found = match name.split('.').next().unwrap_or_default() {
        "%tid" if axis < 3 => Special::Tid(axis),
        "%ntid" if axis < 3 => Special::Ntid(axis),
        "%ctaid" | "%clusterid" if axis < 3 => Special::Ctaid(axis),
        "%nctaid" | "%nclusterid" if axis < 3 => Special::Nctaid(axis),
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::WarpCount,
        "%smid" => Special::SmId,
        "%nsmid" => Special::SmCount,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" => Special::TotalShared,
        _ => return Err(Reject::Unsupported),
    };
    Ok(Some(found))
}
