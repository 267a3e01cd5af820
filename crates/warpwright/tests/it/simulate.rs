//! `simulate`: kernels of a person, right and wrong, with what is said of them and the exit code.

use crate::program::{Ended, Program};

/// One kernel with its flags, blanks between them, and what must come out.
struct Row {
    name: &'static str,
    source: &'static str,
    flags: &'static str,
    code: i32,
    parts: &'static [&'static str],
}

const ADD: &str = "\
__global__ void add(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
";

const ADD_FLAGS: &str = "--grid 4 --block 256 --arg x=f32[n]:iota --arg y=f32[n]:iota \
                         --arg z=out:f32[n] --arg n=1000";

const PLAIN: [Row; 9] = [
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
        parts: &["y[:3] = -74 -76 -78", "barriers                                4"],
    },
    Row {
        name: "printf",
        source: "#include <cstdio>
        __global__ void say(const int* x) {
            if (threadIdx.x % 2) printf(\"%d: %s %5.2f %llx\\n\", x[threadIdx.x], \"odd\", 1.5, 255ull);
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
        name: "an instruction that is lacking",
        source: "__global__ void copy(const float* x, float* y) {
            __shared__ float s[4];
            asm volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\" ::
                \"r\"((unsigned)__cvta_generic_to_shared(s)), \"l\"(x));
            y[0] = s[0];
        }",
        flags: "--grid 1 --block 1 --arg x=f32[4] --arg y=out:f32[1]",
        code: 4,
        parts: &["the simulator lacks something", "cp.async.ca.shared.global", "test.cu:3", "3 |"],
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

const WRONG: [Row; 11] = [
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
            "OUT OF BOUNDS: read of 4 bytes 3488 bytes past the end of `x` (512 bytes) at test.cu:4",
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
            y[0] = ((const float4*)(x + 1))[threadIdx.x].x;
        }",
        flags: "--grid 1 --block 1 --arg x=f32[64] --arg y=out:f32[1]",
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

const MISFITS: [Row; 14] = [
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
        source: "__global__ void a(int n) {} extern \"C\" __global__ void b(float v) {}
                 template <int N> __global__ void c() {}",
        flags: "",
        code: 2,
        parts: &["2 kernels", "--kernel a ", "--kernel b ", "c is a template <int N>"],
    },
    Row {
        name: "several kernels and none named",
        source: "__global__ void a(int n) {} extern \"C\" __global__ void b(float v) {}",
        flags: "--grid 1 --block 1 --arg n=1",
        code: 2,
        parts: &["name one with --kernel"],
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

/// Runs a row in a fresh folder with `test.cu`.
fn simulate(program: &Program, source: &str, flags: &str) -> Ended {
    std::fs::write(program.path("test.cu"), source).unwrap();
    let mut arguments = vec!["simulate", "test.cu", "--json"];
    arguments.extend(flags.split_whitespace());
    program.call(&arguments)
}

fn check(rows: &[Row]) {
    let program = Program::new();
    for row in rows {
        let ended = simulate(&program, row.source, row.flags);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(row.code), "{}: {all}", row.name);
        for part in row.parts {
            assert!(all.contains(part), "{}: {part} not in {all}", row.name);
        }
        assert_eq!(ended.closing()["exit"], row.code, "{}", row.name);
    }
    assert!(!program.ledger().exists(), "a checker must not make a ledger");
}

#[test]
fn plain_kernels_run_or_name_what_is_lacking() {
    check(&PLAIN);
}

#[test]
fn wrong_kernels_are_found_out_with_their_lines() {
    check(&WRONG);
}

#[test]
fn what_does_not_fit_is_told_with_a_command_line_that_does() {
    check(&MISFITS);
}

/// Two launches, a memset, a workspace and a tunable.
#[test]
fn a_plan_runs_with_declared_tensors() {
    let program = Program::new();
    std::fs::write(
        program.path("plan.toml"),
        "plan = 1\nprecision = \"fp32\"\n[tunables]\nBLOCK_X = [64, 128]\n\
         [[workspace]]\nname = \"part\"\ndtype = \"f32\"\nlen = \"rows\"\n\
         [[step]]\nmemset = \"y\"\n\
         [[step]]\nkernel = \"sums\"\ngrid = [\"ceil_div(rows, BLOCK_X)\"]\nblock = [\"BLOCK_X\"]\n\
         args = [\"x\", \"part\", \"rows\", \"cols\"]\n\
         [[step]]\nkernel = \"scale\"\ngrid = [\"1\"]\nblock = [\"rows\"]\n\
         args = [\"part\", \"y\", \"factor\"]\n",
    )
    .unwrap();
    let source = "\
        __global__ void sums(const float* x, float* part, int rows, int cols) {
            int row = blockIdx.x * BLOCK_X + threadIdx.x;
            if (row >= rows) return;
            float total = 0;
            for (int c = 0; c < cols; ++c) total += x[row * cols + c];
            part[row] = total;
        }
        __global__ void scale(const float* part, float* y, float factor) {
            y[threadIdx.x] += factor * part[threadIdx.x];
        }";
    let flags = "--plan plan.toml --dim rows=37 --dim cols=4 --arg x=f32[rows,cols]:iota \
                 --arg y=out:f32[rows] --arg factor=0.5 -D BLOCK_X=128 --print y:2";
    let ended = simulate(&program, source, flags);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for part in ["sums <<<(1,1,1), (128,1,1), 0>>>", "y[:2] = 3 11"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let wrong = simulate(&program, source, "--plan plan.toml --dim rows=37");
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("plan.toml: step 1: memset of `y`"), "{}", wrong.stderr);
}

#[test]
fn files_of_numpy_come_in_and_go_out() {
    let program = Program::new();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    let mut file = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..]].concat();
    file.extend(header.as_bytes());
    file.extend([1.5f32, 2.0, -3.0, 4.0, 5.0, 6.25].iter().flat_map(|v| v.to_le_bytes()));
    std::fs::write(program.path("x.npy"), &file).unwrap();
    let source = "__global__ void twice(const float* x, float* y, int n) {
        if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
    }";
    let flags = "--arg n=6 --grid 1 --block 32 --out y=y.npy --out y=y.bin --print y";
    let cases = [
        ("--arg x=@x.npy --arg y=out:f32[2,3]", 0, "y[:6] = 3 4 -6 8 10 12.5"),
        ("--arg x=f32[6]@x.npy --arg y=out:f32[6]", 0, "y[:6] = 3 4 -6"),
        ("--arg x=f16[6]@x.npy --arg y=out:f32[6]", 2, "holds <f4, not f16"),
        ("--arg x=f32[7]@x.npy --arg y=out:f32[6]", 2, "has the shape [2, 3], not [7]"),
        ("--arg x=f32[6]@y.bin --arg y=out:f32[2,3]", 0, "y[:6] = 6 8 -12"),
        ("--arg x=f32[5]@y.bin --arg y=out:f32[6]", 2, "24 bytes of data; 20 are needed"),
        ("--arg x=@y.bin --arg y=out:f32[6]", 2, "only a .npy file tells its type"),
    ];
    for (tensors, code, part) in cases {
        let ended = simulate(&program, source, &format!("{tensors} {flags}"));
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(code), "{tensors}: {all}");
        assert!(all.contains(part), "{tensors}: {part} not in {all}");
    }
    let written = std::fs::read(program.path("y.npy")).unwrap();
    assert!(written.starts_with(b"\x93NUMPY") && (written.len() - 24).is_multiple_of(64), "{written:?}");
}

#[test]
fn the_closing_line_holds_everything() {
    let ended = simulate(&Program::new(), ADD, &format!("{ADD_FLAGS} --seed 7"));
    let closing = ended.closing();
    assert_eq!(closing["kind"], "done", "{}", ended.stdout);
    assert_eq!(closing["simulation"]["end"], "Completed");
    assert_eq!(closing["simulation"]["outputs"][0]["never_written"], 0);
    assert_eq!(closing["simulation"]["counters"]["load_requests"], 64.0);
    assert_eq!(closing["build"]["entries"][0]["params"].as_array().unwrap().len(), 4);
    assert_eq!(closing["errors"].as_array().unwrap().len(), 0);
}
