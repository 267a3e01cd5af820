//! Number formats and their arithmetic, one scalar at a time, bit for bit as NVIDIA GPUs do it.
//!
//! No registers, no memory. Where a result depends on nothing but IEEE rounding it is exact; the
//! `.approx` functions are computed in double precision and rounded once.

pub(crate) mod convert;
pub(crate) mod double;
pub(crate) mod fp8;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod printf;
pub(crate) mod round;
pub(crate) mod single;
