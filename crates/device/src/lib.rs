//! Runs a compiled kernel: NVRTC, the toolchain, and the devices that execute what it builds.
