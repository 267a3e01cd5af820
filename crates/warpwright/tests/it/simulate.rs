//! `simulate`: kernels of a person, right and wrong, with what is said of them and the exit code.

mod misfits;
mod plain;
mod wrong;

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
    check(&plain::PLAIN);
}

#[test]
fn wrong_kernels_are_found_out_with_their_lines() {
    check(&wrong::WRONG);
}

#[test]
fn what_does_not_fit_is_told_with_a_command_line_that_does() {
    check(&misfits::MISFITS);
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
    assert!(
        written.starts_with(b"\x93NUMPY") && (written.len() - 24).is_multiple_of(64),
        "{written:?}"
    );
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
