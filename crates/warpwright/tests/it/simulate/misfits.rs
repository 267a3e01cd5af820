//! Command lines and files that do not fit.

use super::{ADD, Row};

pub(super) const MISFITS: [Row; 16] = [
    Row {
        name: "no launch at all",
        source: ADD,
        flags: "",
        code: 2,
        parts: &[
            "say how to launch the kernel of test.cu",
            "1  const float* x                   a pointer or a 64-bit integer",
            "4  int n                            a 32-bit integer",
            "--kernel add --grid 4 --block 256 --arg 'x=f32[1024]' --arg 'y=f32[1024]' \
             --arg 'z=out:f32[1024]' --arg n=1024",
        ],
    },
    Row {
        name: "several kernels",
        source: "namespace o { __global__ void a(int n) {} }
                 extern \"C\" __global__ void b(float v) {}
                 template <int N> __global__ void c() {}",
        flags: "",
        code: 2,
        parts: &["2 kernels", "--kernel o::a ", "--kernel b ", "c is a template <int N>"],
    },
    Row {
        name: "several kernels and none named",
        source: "__global__ void a(int n) {} extern \"C\" __global__ void b(float v) {}",
        flags: "--grid 1 --block 1 --arg n=1",
        code: 2,
        parts: &["name one with --kernel"],
    },
    Row {
        name: "a name that no kernel can have",
        source: ADD,
        flags: "--kernel add;x --grid 1 --block 1",
        code: 2,
        parts: &["`add;x` is no kernel name"],
    },
    Row {
        name: "a source that is no text",
        source: "__global__ void k() {}\0",
        flags: "--grid 1 --block 1",
        code: 2,
        parts: &["test.cu holds a NUL byte"],
    },
    Row {
        name: "no kernel",
        source: "__device__ int f() { return 1; }",
        flags: "--grid 1 --block 1",
        code: 2,
        parts: &["defines no kernel"],
    },
    Row {
        name: "too few arguments",
        source: ADD,
        flags: "--grid 4 --block 256 --arg x=f32[8] --arg n=8",
        code: 2,
        parts: &["`add` takes 4 parameters, but 2 --arg are given", "3  float* z", "--arg n=1024"],
    },
    Row {
        name: "an integer for a buffer",
        source: ADD,
        flags: "--grid 4 --block 256 --arg x=f32[8] --arg y=f32[8] --arg n=8 --arg z=8",
        code: 2,
        parts: &["argument 3 of `add` is `float* z`, a buffer, but n=8 is an integer"],
    },
    Row {
        name: "a buffer for an integer",
        source: ADD,
        flags: "--grid 4 --block 256 --arg x=f32[8] --arg y=f32[8] --arg z=out:f32[8] \
                --arg n=f32[8]",
        code: 2,
        parts: &["argument 4: the kernel takes a 32-bit integer"],
    },
    Row {
        name: "an integer that does not fit",
        source: ADD,
        flags: "--grid 4 --block 256 --arg x=f32[8] --arg y=f32[8] --arg z=out:f32[8] \
                --arg n=4294967296",
        code: 2,
        parts: &["argument 4: 4294967296 does not fit a 32-bit integer"],
    },
    Row {
        name: "a struct by value",
        source: "struct S { float* p; int n; }; __global__ void k(S s) {}",
        flags: "--grid 1 --block 1 --arg s=1",
        code: 2,
        parts: &["parameter 1 of `k` is a struct of 16 bytes"],
    },
    Row {
        name: "no block",
        source: ADD,
        flags: "--grid 4 --arg x=f32[8] --arg y=f32[8] --arg z=out:f32[8] --arg n=8",
        code: 2,
        parts: &["--grid and --block say"],
    },
    Row {
        name: "too large a block",
        source: ADD,
        flags: "--grid 4 --block 64,32 --arg x=f32[8] --arg y=f32[8] --arg z=out:f32[8] --arg n=8",
        code: 2,
        parts: &["a block of 2048 threads"],
    },
    Row {
        name: "an unknown architecture",
        source: ADD,
        flags: "--sm 91",
        code: 2,
        parts: &["`--sm 91`: the simulator knows 75, 80"],
    },
    Row {
        name: "values of an input",
        source: ADD,
        flags: "--print x --arg x=f32[8]",
        code: 2,
        parts: &["`x` is no buffer that the kernel writes"],
    },
    Row {
        name: "a file that is not there",
        source: ADD,
        flags: "--grid 4 --block 256 --arg x=f32[8]@absent.bin --arg y=f32[8] --arg z=out:f32[8] \
                --arg n=8",
        code: 2,
        parts: &["absent.bin"],
    },
];
