//! Kernels that are wrong, or suspicious.

use super::Row;

pub(super) const WRONG: [Row; 12] = [
    Row {
        name: "a read out of bounds",
        source: "__global__ void shift(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] =
        x[i + n];
}",
        flags: "--grid 4 --block 32 --arg x=f32[128] --arg y=out:f32[128] --arg n=1000",
        code: 3,
        parts: &[
            "OUT OF BOUNDS: read of 4 bytes 3488 bytes past the end of `x` (512 bytes)",
            "at test.cu:4",
            "4 |         x[i + n];",
            "element 1000 of `x`, which has 128; block (0,0,0), thread (0,0,0)",
        ],
    },
    Row {
        name: "a read that only padding hides, and elements that are never written",
        source: "__global__ void shift(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + 1];
}",
        flags: "--grid 4 --block 256 --arg x=f32[1000] --arg y=out:f32[1024] --arg n=1000",
        code: 3,
        parts: &[
            "error: read of 4 bytes at byte 4000, past the end of `x`",
            "3 |     if (i < n) y[i] = x[i + 1];",
            "block (3,0,0), thread (231,0,0)",
            "`y`: 24 of 1024 elements are never written, first 1000, 1001",
        ],
    },
    Row {
        name: "a write to an input",
        source: "__global__ void k(float* x) { x[threadIdx.x] = 1; }",
        flags: "--grid 1 --block 32 --arg x=f32[32]",
        code: 3,
        parts: &["WRITE TO AN INPUT", "declare x as inout: or out:"],
    },
    Row {
        name: "a misaligned access",
        source: "__global__ void k(const float* x, float* y) {
            *(float4*)y = *(const float4*)(x + 1);
        }",
        flags: "--grid 1 --block 1 --arg x=f32[64] --arg y=out:f32[4]",
        code: 3,
        parts: &["FAULT: read of 16 bytes at byte 4 of `x` is not aligned", "test.cu:2"],
    },
    Row {
        name: "a failed assertion",
        source: "#include <assert.h>
__global__ void k(const int* x) {
    assert(x[threadIdx.x] < 3);
}",
        flags: "--grid 1 --block 8 --arg x=i32[8]:iota",
        code: 3,
        parts: &["FAULT: trap", "3 |     assert(x[threadIdx.x] < 3);", "thread (3,0,0)"],
    },
    Row {
        name: "an assertion as the runtime has it",
        source: "extern \"C\" __device__ void __assertfail(const char*, const char*, unsigned,
                                                       const char*, size_t);
__global__ void k(const int* x) { if (x[0]) __assertfail(\"x[0] == 0\", \"k.cu\", 3, \"k\", 1); }",
        flags: "--grid 1 --block 8 --arg x=inout:i32[8]:ones --out x=x.bin",
        code: 3,
        parts: &["the assertion `x[0] == 0` failed", "x is not shown: the runs did not complete"],
    },
    Row {
        name: "an endless loop",
        source: "__global__ void k(volatile int* x) { while (x[0] == 0) {} }",
        flags: "--grid 1 --block 32 --budget 10000 --arg x=inout:i32[1]:zeros",
        code: 3,
        parts: &["HANG: the instruction budget ran out", "--budget and --deadline allow more"],
    },
    Row {
        name: "a barrier that some threads never reach",
        source: "__global__ void k(int* x) {
            if (threadIdx.x < 32) { while (((volatile int*)x)[0] == 0) {} }
            __syncthreads();
        }",
        flags: "--grid 1 --block 64 --budget 100000 --arg x=inout:i32[1]:zeros",
        code: 3,
        parts: &["HANG"],
    },
    Row {
        name: "a value that is read before it is written",
        source: "__global__ void k(float* y) { y[threadIdx.x] += 1.0f; }",
        flags: "--grid 1 --block 32 --arg y=out:f32[32]",
        code: 3,
        parts: &["`y`: 32 of 32 elements depend on what memory held before the kernel wrote it"],
    },
    Row {
        name: "shared memory that is read before it is written",
        source: "__global__ void k(int* y) {
            __shared__ int s[32];
            if (threadIdx.x) s[threadIdx.x] = 1;
            __syncthreads();
            y[threadIdx.x] = s[threadIdx.x];
        }",
        flags: "--grid 1 --block 32 --arg y=out:i32[32]",
        code: 3,
        parts: &["`y`: 1 of 32 elements depend on what memory held before"],
    },
    Row {
        name: "a race between blocks",
        source: "__global__ void k(int* y) { y[0] = blockIdx.x; }",
        flags: "--grid 8 --block 1 --arg y=out:i32[1]",
        code: 3,
        parts: &["depend on the order in which warps and blocks run, y[0] is 7 or 0"],
    },
    Row {
        name: "NaN",
        source: "__global__ void k(const float* x, float* y) { y[threadIdx.x] = sqrtf(-x[0]); }",
        flags: "--grid 1 --block 4 --arg x=f32[1]:ones --arg y=out:f32[4]",
        code: 0,
        parts: &["warning: `y`: 4 of 4 elements are NaN, 0 infinite"],
    },
];
