//! Kernels that run, that do not compile, or that need what the simulator lacks.

use super::{ADD, Row};

pub(super) const PLAIN: [Row; 10] = [
    Row {
        name: "a right kernel",
        source: ADD,
        flags: "--grid ceil_div(n,256) --block 256 --arg x=f32[n]:iota --arg y=float[n]:1.5 \
                --arg z=out:f32[n] --arg n=1000 --print z[:4]",
        code: 0,
        parts: &[
            "z[:4] = 1.5 2.5 3.5 4.5",
            "`z`: 1000 elements, finite, the same in both runs",
            "counts, never times",
            "global load requests                   64",
            "Clean",
        ],
    },
    Row {
        name: "another architecture, and an integer for a float",
        source: "__global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }",
        flags: "--grid 1 --block 32 --sm 75 --arg x=inout:f32[32]:2 --arg a=3 --print x:2",
        code: 0,
        parts: &["(sm_75)", "x[:2] = 6 6"],
    },
    Row {
        name: "an instance of a template, a macro, shared memory, negative integers",
        source: "template <int N, typename T> __global__ void turn(T* y, int by) {
            extern __shared__ int s[];
            s[threadIdx.x] = threadIdx.x * STEP + by;
            __syncthreads();
            y[threadIdx.x] = s[N - 1 - threadIdx.x];
        }",
        flags: "--kernel turn<64,short> --grid 1 --block 64 --shared-bytes 64*4 -D STEP=2 \
                --arg y=out:i16[64] --arg by=-200 --print y:3",
        code: 0,
        parts: &["y[:3] = -74 -76 -78", "barriers                                2"],
    },
    Row {
        name: "printf",
        source: "#include <cstdio>
        __global__ void say(const int* x) {
            if (threadIdx.x % 2)
                printf(\"%d: %s %5.2f %llx\\n\", x[threadIdx.x], \"odd\", 1.5, 255ull);
        }",
        flags: "--grid 1 --block 4 --arg x=i32[4]:iota",
        code: 0,
        parts: &["Printed:\n  1: odd  1.50 ff\n  3: odd  1.50 ff\n"],
    },
    Row {
        name: "rounding of atomics on floats",
        source: "__global__ void sum(const float* x, float* y) { atomicAdd(y, x[blockIdx.x]); }",
        flags: "--grid 100 --block 1 --arg x=f32[100] --arg y=inout:f32[1]:zeros",
        code: 0,
        parts: &["warning: `y`: 1 of 1 elements depend on the order", "as atomics on floats do"],
    },
    Row {
        name: "a copy that nobody waits for",
        source: "__global__ void copy(const float* x, float* y) {
            __shared__ float s[4];
            asm volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\" ::
                \"r\"((unsigned)__cvta_generic_to_shared(s)), \"l\"(x));
            y[0] = s[0];
        }",
        flags: "--grid 1 --block 1 --arg x=f32[4] --arg y=out:f32[1]",
        code: 3,
        parts: &["error: `y`: 1 of 1 elements depend on what memory held before"],
    },
    Row {
        name: "an instruction that is lacking",
        source: "__global__ void wait(float* y) {
            __shared__ unsigned long long b;
            asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" ::
                \"r\"((unsigned)__cvta_generic_to_shared(&b)));
            y[0] = 1.0f;
        }",
        flags: "--grid 1 --block 1 --arg y=out:f32[1]",
        code: 4,
        parts: &["the simulator lacks something", "mbarrier.init.shared.b64", "test.cu:4", "4 |"],
    },
    Row {
        name: "an unknown call",
        source: "__global__ void grow(int* y) { int* p = (int*)malloc(64); y[0] = p != 0; }",
        flags: "--grid 1 --block 1 --arg y=out:i32[1]",
        code: 4,
        parts: &["malloc", "test.cu:1"],
    },
    Row {
        name: "a source that does not compile",
        source: "__global__ void k(float* y) {\n    y[0] = undefined_name;\n}\nint main() {}\n",
        flags: "--grid 1 --block 1 --arg y=out:f32[1]",
        code: 3,
        parts: &["error: test.cu:2: ", "undefined_name", "it did not compile", "host code"],
    },
    Row {
        name: "a launch that is not possible",
        source: ADD,
        flags: "--grid 4 --block 256 --shared-bytes 400000 --arg x=f32[8] --arg y=f32[8] \
                --arg z=inout:f32[8] --arg n=8",
        code: 3,
        parts: &["the launch was refused", "400000 bytes dynamic"],
    },
];
