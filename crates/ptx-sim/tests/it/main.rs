//! Integration tests: PTX in, bytes and reports out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod async_copy;
mod faults;
mod fixtures;
mod fp8;
mod fuzz;
mod gpu;
mod kernels;
mod matrix;
mod opcodes;
mod schedule;
mod text;
mod wmma;
