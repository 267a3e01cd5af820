//! Runs a compiled kernel: NVRTC, the toolchain, and the devices that execute what it builds.
//!
//! Start at [`toolchain`], which finds or installs the pinned compiler, then at [`nvrtc`], which
//! drives it. Nothing here decides whether a kernel is right: a kernel that does not compile is a
//! value, and only a broken compiler, file or request is an error.

pub mod content_hash;
pub mod cuda;
pub mod execute;
mod limits;
pub mod nvrtc;
pub mod sim;
pub mod toolchain;
