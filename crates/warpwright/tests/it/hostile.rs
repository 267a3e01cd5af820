//! Replies that are wrong in every way a model or an enemy can think of: each becomes a verdict.

use crate::program::{Program, demo_replies};

pub(crate) const KERNEL: &str =
    "extern \"C\" __global__ void k(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float m = -INFINITY, t = 0.0f;
    for (int c = 0; c < cols; ++c) m = fmaxf(m, x[row * cols + c]);
    for (int c = 0; c < cols; ++c) t += expf(x[row * cols + c] - m);
    for (int c = 0; c < cols; ++c) y[row * cols + c] = expf(x[row * cols + c] - m) / t;
}";

pub(crate) const PLAN: &str = "plan = 1
precision = \"fp32\"
[[step]]
kernel = \"k\"
grid = [\"ceil_div(rows, 64)\"]
block = [\"64\"]
args = [\"x\", \"y\", \"rows\", \"cols\"]";

pub(crate) fn reply(source: &str, plan: &str) -> String {
    format!("```cuda\n{source}\n```\n\n```toml\n{plan}\n```\n")
}

/// A right reply with one thing of the plan changed.
fn plan(from: &str, to: &str) -> String {
    assert!(PLAN.contains(from), "{from}");
    reply(KERNEL, &PLAN.replacen(from, to, 1))
}

/// A right reply with one thing of the kernel changed.
pub(crate) fn kernel(from: &str, to: &str) -> String {
    assert!(KERNEL.contains(from), "{from}");
    reply(&KERNEL.replacen(from, to, 1), PLAN)
}

fn table() -> Vec<(String, &'static str)> {
    [malformed_replies(), bad_plans(), bad_arguments(), bad_kernels()].concat()
}

fn malformed_replies() -> Vec<(String, &'static str)> {
    vec![
        (String::new(), "Malformed/REPLY the reply is empty"),
        ("```cuda\nx\n```\n".repeat(13_000), "Malformed/REPLY the reply has 13000 ```cuda fences"),
        ("```".repeat(70_000), "Malformed/REPLY the reply has no ```cuda fence"),
        ("A".repeat(600_000), "Malformed/REPLY the reply is 600000 bytes"),
        (
            reply(KERNEL, PLAN).trim_end().trim_end_matches('`').to_owned(),
            "Malformed/REPLY the last fence",
        ),
        (reply("", PLAN), "Malformed/REPLY the CUDA source is empty"),
    ]
}

fn bad_plans() -> Vec<(String, &'static str)> {
    vec![
        (reply(KERNEL, "plan = "), "Malformed/PLAN the plan is not valid TOML"),
        (plan("plan = 1", "plan = 9"), "Malformed/PLAN `plan = 9`"),
        (plan("64)", "0)"), "Malformed/PLAN at the public case"),
        (
            plan("\"64\"]", "\"0\"]"),
            "Malformed/PLAN at the public case `headline`: step 1 (`k`), block: `0` is 0",
        ),
        (
            plan("\"64\"]", "\"-64\"]"),
            "Malformed/PLAN at the public case `headline`: step 1 (`k`), block: `-64` is -64",
        ),
        (
            plan("\"64\"]", "\"4096\"]"),
            "Malformed/PLAN at the public case `headline`: step 1 (`k`), block",
        ),
        (
            plan("ceil_div(rows, 64)", "rows * 9223372036854775807"),
            "Malformed/PLAN at the public case",
        ),
        (
            plan("ceil_div(rows, 64)", "blocks"),
            "Malformed/PLAN step 1 (`k`), grid: expression `blocks` uses the unknown name",
        ),
        (
            plan("ceil_div(rows, 64)", "rows / 64"),
            "Malformed/PLAN step 1 (`k`), grid: expression `rows / 64` contains `/`",
        ),
    ]
}

fn bad_arguments() -> Vec<(String, &'static str)> {
    vec![
        (
            plan("\"x\", ", ""),
            "Malformed/PLAN kernel step 1 (`k`): the kernel has 4 parameters, the plan gives 3",
        ),
        (plan("\"x\", \"y\"", "\"rows\", \"y\""), "Faulted/GUARD"),
        (
            plan("\"rows\", \"cols\"", "\"x\", \"cols\""),
            "Malformed/PLAN kernel step 1 (`k`), argument 3: the kernel takes a 32-bit integer",
        ),
        (
            plan("\"rows\", \"cols\"", "\"rows\", \"cols * 4294967296\""),
            "Malformed/PLAN at the public case `headline`: kernel `k`, argument 4",
        ),
        (
            plan("\"rows\", \"cols\"", "\"rows\", \"z\""),
            "Malformed/PLAN step 1 (`k`), argument 4: `z` is unknown",
        ),
        (
            kernel("int cols) {", "float width) {\n    int cols = (int)width;"),
            "Malformed/PLAN kernel step 1 (`k`), argument 4: the kernel takes a 32-bit float",
        ),
        (plan("\"k\"", "\"absent\""), "Malformed/PLAN no kernel `absent`; the source defines k"),
        (plan("\"k\"", "\"k); evil(\""), "Malformed/PLAN step 1: `k); evil(` is no kernel name"),
        (plan("\"k\"", "\"k<int>\""), "Malformed/PLAN no kernel `k<int>`"),
    ]
}

fn bad_kernels() -> Vec<(String, &'static str)> {
    vec![
        (
            kernel("extern \"C\" __global__", "#include \"/etc/passwd\"\nextern \"C\" __global__"),
            "BuildFailed/COMPILE",
        ),
        (
            kernel("int row =", "int row = row2 +"),
            "BuildFailed/COMPILE kernel.cu:2: identifier \"row2\" is undefined",
        ),
        (
            kernel(
                "if (row >= rows) return;",
                "if (row >= rows) return; __shared__ volatile char big[300000]; big[row] = 1;",
            ),
            "BuildFailed/COMPILE",
        ),
        (
            kernel("if (row >= rows) return;", "printf(\"hello\");"),
            "Rejected/STATIC the module calls vprintf",
        ),
        (
            kernel("extern \"C\"", "extern \"C\" __global__ void ghost() {}\nextern \"C\""),
            "Rejected/STATIC the module has the entry `ghost`",
        ),
        (kernel("if (row >= rows) return;", "asm volatile(\"trap;\");"), "Faulted/CRASH"),
        (kernel("return;", "while (true) { if (y[0] == 12345.0f) break; }"), "Hung/TIMEOUT"),
        (kernel("y[row * cols + c] =", "y[(row - 1) * cols + c] ="), "Faulted/GUARD"),
        (
            kernel("const float* x", "float* x")
                .replace("y[row * cols + c] =", "x[row * cols + c] ="),
            "Wrong/INPUT",
        ),
        (reply(KERNEL, PLAN), "Correct"),
    ]
}

#[test]
fn every_hostile_reply_becomes_a_verdict() {
    let program = Program::new();
    let table = table();
    let replies: Vec<String> = table.iter().map(|(reply, _)| reply.clone()).collect();
    let attempts = replies.len().to_string();
    let model = program.transcript(&replies);
    let model = ["--model", &model, "--attempts", &attempts, "--plateau", "0"];
    let ended = program.call(&[&["run", "softmax_rows"], &model[..]].concat());
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let verdicts = program.verdicts();
    assert_eq!(verdicts.len(), table.len());
    for (index, (verdict, (reply, expected))) in verdicts.iter().zip(&table).enumerate() {
        let shown: String = reply.chars().take(1200).collect();
        assert!(
            verdict.starts_with(expected),
            "#{}: {verdict}\nwanted {expected}\n{shown}",
            index + 1
        );
    }
}

#[test]
fn a_program_that_hung_is_never_run_again_and_an_equal_one_is_not_judged_twice() {
    let program = Program::new();
    let endless = kernel("return;", "while (true) { if (y[0] == 12345.0f) break; }");
    let renamed = endless.replace("if (row", "/* again */ if (row");
    let right = demo_replies().pop().unwrap();
    let model = program.transcript(&[endless, renamed, right.clone(), right]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "4"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let verdicts = program.verdicts();
    assert_eq!(verdicts[0], verdicts[1]);
    assert_eq!(verdicts[2..], ["Correct ", "Correct "]);
    let report = program.report();
    assert_eq!(report["attempts"][2]["report"], report["attempts"][3]["report"]);
}

/// Verdicts that depend on what the plan declares are not served to a plan that declares less.
#[test]
fn a_cached_verdict_is_only_for_an_equal_plan() {
    let program = Program::new();
    let no_tail = kernel("c < cols; ++c) y", "c < cols / 4 * 4; ++c) y");
    let narrow =
        no_tail.replacen("plan = 1", "plan = 1\ndomain = [\"cols % 4 == 0 or cols < 8\"]", 1);
    let impossible = plan("plan = 1", "plan = 1\nconstraints = [\"1 > 2\"]");
    let replies =
        [narrow.replace("cols < 8", "cols < 0"), no_tail, impossible, reply(KERNEL, PLAN)];
    let model = program.transcript(&replies);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "4"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let verdicts = program.verdicts();
    for (verdict, part) in verdicts.iter().zip([
        "Correct",
        "Wrong/POISON case `ragged`",
        "Malformed/PLAN at the public case `headline`: the constraint `1 > 2`",
        "Correct",
    ]) {
        assert!(verdict.starts_with(part), "{verdict}");
    }
    let notes = program.report()["attempts"][0]["report"]["notes"].to_string();
    assert!(notes.contains("the case `ragged` is outside the domain"), "{notes}");
}

/// The headline shape runs on a sample of its blocks: a fault there is a fault.
#[test]
fn the_headline_is_looked_at_too() {
    let program = Program::new();
    let table = [
        (
            kernel("return;", "return;\n    if (cols == 8192) asm volatile(\"trap;\");"),
            "Faulted/CRASH case `headline`",
        ),
        (
            kernel(
                "return;",
                "return;\n    if (cols == 8192) y[(size_t)rows * cols + 9999] = 1.0f;",
            ),
            "Faulted/GUARD case `headline`",
        ),
        (
            plan("\"rows\", \"cols\"", "\"rows * 1000000\", \"cols\""),
            "Malformed/PLAN at the public case `headline`: kernel `k`, argument 3",
        ),
        (
            kernel("return;", "return;\n    while (cols == 8192 && y[0] != 5.0f) __nanosleep(9);"),
            "Correct",
        ),
    ];
    let replies: Vec<String> = table.iter().map(|(reply, _)| reply.clone()).collect();
    let model = program.transcript(&replies);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "4"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for (verdict, (_, expected)) in program.verdicts().iter().zip(&table) {
        assert!(verdict.starts_with(expected), "{verdict}\nwanted {expected}");
    }
    let last = &program.report()["attempts"][3]["report"];
    assert!(last["notes"].to_string().contains("could not be counted here"), "{last}");
    assert_eq!(last["score"], "None");
}

fn lacking() -> Vec<(String, &'static str)> {
    let map = "[[tensor_map]]\nname = \"tm\"\ntensor = \"x\"\ndims = [\"cols\", \"rows\"]\n\
               strides = [\"cols * 4\"]\nbox = [\"4\", \"4\"]\n[[step]]";
    let mapped = kernel("const float* x", "const __grid_constant__ CUtensorMap tm, const float* x")
        .replacen("[[step]]", map, 1)
        .replacen("\"x\", \"y\"", "\"tm\", \"x\", \"y\"", 1)
        .replacen("extern", "#include <cuda.h>\nextern", 1);
    let asm = |text: &str| kernel("return;", &format!("return;\n    asm volatile(\"{text}\");"));
    let long_name = "n".repeat(60_000);
    let long = reply(&KERNEL.replace("void k(", &format!("void {long_name}(")), PLAN);
    let huge = plan(
        "[[step]]",
        "[[workspace]]\nname = \"w\"\ndtype = \"f32\"\nlen = \"3000000000\"\n[[step]]",
    );
    vec![
        (mapped, "Unsimulatable/UNSUPPORTED tensor map `tm`: tensor maps are not simulated"),
        (
            asm("wgmma.fence.sync.aligned;"),
            "Unsimulatable/UNSUPPORTED kernel `k` uses `wgmma.fence",
        ),
        (asm("{ .reg .u32 r; mov.u32 r, WARP_SZ; }"), "Unsimulatable/UNSUPPORTED"),
        (asm("{ .reg .u64 a; mov.u64 a, 1 == 1 ? 5 : 6; }"), "Unsimulatable/UNSUPPORTED"),
        (huge, "Unsimulatable/UNSUPPORTED"),
        (long, "Malformed/PLAN"),
        (reply(KERNEL, PLAN), "Correct"),
    ]
}

/// What this machine lacks ends the attempt, never the run.
#[test]
fn what_this_machine_lacks_is_neither_pass_nor_fail() {
    let program = Program::new();
    let table = lacking();
    let replies: Vec<String> = table.iter().map(|(reply, _)| reply.clone()).collect();
    let model = program.transcript(&replies);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "7"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for (verdict, (_, expected)) in program.verdicts().iter().zip(&table) {
        assert!(verdict.starts_with(expected), "{verdict}\nwanted {expected}");
    }
}

#[test]
fn a_source_that_never_compiles_ends_at_its_limit_and_the_run_goes_on() {
    let program = Program::new();
    let bomb = kernel(
        "extern \"C\"",
        "template <int N, int D> struct Tree {
            static constexpr int value = Tree<2 * N, D - 1>::value + Tree<2 * N + 1, D - 1>::value;
        };
        template <int N> struct Tree<N, 0> { static constexpr int value = N & 1; };
        static_assert(Tree<1, 24>::value > 0);
        extern \"C\"",
    );
    let flood = kernel("extern \"C\"", &format!("{}extern \"C\"", "#warning x\n".repeat(4_000)));
    let model = program.transcript(&[bomb, flood, demo_replies().pop().unwrap()]);
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", "3"];
    assert_eq!(program.call(&run).code, Some(0));
    let verdicts = program.verdicts();
    let ends = ["BuildTimeout", "was busy", "out of memory"];
    assert!(ends.iter().any(|end| verdicts[0].contains(end)), "{verdicts:?}");
    assert_eq!(verdicts[1..], ["Correct ", "Correct "]);
}

/// Warps and blocks run in opposite orders in the two runs: what depends on an order shows.
#[test]
fn results_may_not_depend_on_the_order_of_warps_or_blocks() {
    let program = Program::new();
    let neighbours = reply(
        "extern \"C\" __global__ void k(const float* x, float* y, float* stats, int rows,
                               int cols) {
    int row = blockIdx.x % rows;
    const float* in = x + (size_t)row * cols;
    if (blockIdx.x < rows) {
        float m = -INFINITY, t = 0.0f;
        for (int c = 0; c < cols; ++c) m = fmaxf(m, in[c]);
        for (int c = 0; c < cols; ++c) t += expf(in[c] - m);
        stats[2 * row] = m;
        stats[2 * row + 1] = t;
        return;
    }
    for (int c = 0; c < cols; ++c)
        y[(size_t)row * cols + c] = expf(in[c] - stats[2 * row]) / stats[2 * row + 1];
}",
        "plan = 1\nprecision = \"fp32\"\n[[workspace]]\nname = \"w\"\ndtype = \"f32\"\n\
         len = \"rows * 2\"\n[[step]]\nkernel = \"k\"\ngrid = [\"rows * 2\"]\nblock = [\"1\"]\n\
         args = [\"x\", \"y\", \"w\", \"rows\", \"cols\"]",
    );
    let no_barrier = reply(
        "extern \"C\" __global__ void k(const float* x, float* y, int rows, int cols) {
    __shared__ float m[64], t[64];
    int row = blockIdx.x, i = threadIdx.x;
    const float* in = x + (size_t)row * cols;
    if (i < 32) {
        float largest = -INFINITY, total = 0.0f;
        for (int c = 0; c < cols; ++c) largest = fmaxf(largest, in[c]);
        for (int c = 0; c < cols; ++c) total += expf(in[c] - largest);
        m[0] = largest;
        t[0] = total;
    }
    for (int c = i; c < cols; c += 64) y[(size_t)row * cols + c] = expf(in[c] - m[0]) / t[0];
}",
        "plan = 1\nprecision = \"fp32\"\n[[step]]\nkernel = \"k\"\ngrid = [\"rows\"]\n\
         block = [\"64\"]\n\
         args = [\"x\", \"y\", \"rows\", \"cols\"]",
    );
    let model = program.transcript(&[neighbours, no_barrier]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for verdict in program.verdicts() {
        assert!(verdict.starts_with("Wrong/"), "{verdict}");
    }
}

/// Declared sizes whose products do not fit a word are the kernel's fault and not our breakage.
#[test]
fn absurd_declared_sizes_do_not_end_the_run() {
    let program = Program::new();
    let absurd = kernel("__global__ void", "__block_size__((65536, 65536, 1)) __global__ void");
    let bounds = kernel("__global__ void", "__launch_bounds__(2147483647, 1) __global__ void");
    let model = program.transcript(&[absurd, bounds, reply(KERNEL, PLAN)]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "3"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let verdicts = program.verdicts();
    assert!(verdicts[0].starts_with("Unsimulatable/UNSUPPORTED"), "{verdicts:?}");
    assert_eq!(verdicts[2], "Correct ");
}

/// The compiler's own messages about a file of this machine reach neither ledger nor output.
#[test]
fn an_included_file_is_not_quoted() {
    let program = Program::new();
    let secret = program.path("secret.txt");
    std::fs::write(&secret, "MYSECRET token = 42;\n").unwrap();
    let include = format!("#include \"{}\"\nextern \"C\" __global__", secret.display());
    let leaking = kernel("extern \"C\" __global__", &include);
    let model = program.transcript(&[leaking, reply(KERNEL, PLAN)]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(program.verdicts()[0].starts_with("BuildFailed/COMPILE"), "{:?}", program.verdicts());
    for arguments in [["show", "@last:1"], ["show", "@last:2"], ["report", "@last"]] {
        let shown = program.call(&arguments).stdout;
        assert!(!shown.contains("MYSECRET") && !shown.contains("secret.txt:1"), "{shown}");
    }
}
