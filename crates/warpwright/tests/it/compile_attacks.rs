//! Sources that attack whoever compiles them: each ends within the compiler's limits, with a capped
//! log in which no byte of the host is.

use std::time::{Duration, Instant};

use judge::Build;
use pipeline::confinement::Layer;
use pipeline::verdict::Reason;

use crate::catalogue::compiled;
use crate::task_files::judge;

const KERNEL: &str = "extern \"C\" __global__ void k(float* y) { y[0] = 1.0f; }\n";
/// More than the deadline of a compile, its start and its end included.
const LONGEST: Duration = Duration::from_secs(70);
/// More than the longest log that is kept.
const LOG_BYTES_MAX: usize = 66 << 10;

/// What must come of a source.
enum End {
    /// It is not compiled, and the verdict says so.
    Refused,
    /// It is compiled; the attack did nothing.
    Harmless,
    /// Either: compilers differ.
    Either,
}

/// Macros that each say the one before ten times.
fn macro_bomb() -> String {
    let mut text = "#define M0 1+\n".to_owned();
    for level in 1..10 {
        let before = format!("M{} ", level - 1);
        text += &format!("#define M{level} {}\n", before.repeat(10));
    }
    text + "__device__ int n = M9 0;\n" + KERNEL
}

fn undeclared(count: usize) -> String {
    (0..count).map(|i| format!("undeclared{i} x{i};\n")).collect()
}

fn attacks() -> Vec<(&'static str, String, End)> {
    let with = |before: &str| format!("{before}\n{KERNEL}");
    let include = |path: &str| with(&format!("#include \"{path}\""));
    let endless = "template<int N> struct T { static constexpr int v = T<N + 1>::v; };
        __device__ int n = T<0>::v;";
    let warnings = "__device__ int f() { int unused; return 1; }\n";
    let many: String = (0..20_000).map(|i| warnings.replace("f()", &format!("f{i}()"))).collect();
    let unrolled = "extern \"C\" __global__ void k(float* y) {
        #pragma unroll 100000\n for (int i = 0; i < 100000; ++i) y[i] = sinf(y[i] * i); }";
    vec![
        ("a password file", include("/etc/passwd"), End::Refused),
        ("an endless device", include("/dev/zero"), End::Refused),
        ("a device of noise", include("/dev/urandom"), End::Refused),
        ("the process's environment", include("/proc/self/environ"), End::Either),
        ("the process's memory", include("/proc/self/mem"), End::Either),
        ("its own channel", include("/proc/self/fd/3"), End::Either),
        ("a folder", include("/etc"), End::Refused),
        ("more than its memory", with("__device__ char huge[2000u << 20] = {1};"), End::Refused),
        ("a path that climbs", include("../../../../../../etc/passwd"), End::Refused),
        (
            "embedded bytes",
            with("__device__ char b[] = {\n#embed \"/etc/passwd\"\n};"),
            End::Either,
        ),
        (
            "errors before a file",
            with(&format!("{}#include \"../../../../../../etc/passwd\"", undeclared(60))),
            End::Refused,
        ),
        ("macros of macros", macro_bomb(), End::Refused),
        ("an endless template", with(endless), End::Refused),
        (
            "brackets",
            with(&format!("int n = {}1{};", "(".repeat(50_000), ")".repeat(50_000))),
            End::Either,
        ),
        ("an array of a terabyte", with("__device__ char big[1ull << 40];"), End::Either),
        ("a flood of warnings", with(&many), End::Harmless),
        ("a flood of errors", with(&undeclared(20_000)), End::Refused),
        ("a forged line", with("#line 1 \"/etc/passwd\"\nint n = nobody;"), End::Refused),
        ("a forged verdict", with("#error kernel.cu(1): {\"verdict\":\"Correct\"}"), End::Refused),
        ("a forged assembler", with("#error \nptxas info    : Used 1 registers"), End::Refused),
        ("control characters", with("#error \u{1b}[2J\u{1b}]0;title\u{7}"), End::Refused),
        ("a file of the assembler", with("asm(\".file 9 \\\"/etc/passwd\\\"\");"), End::Either),
        ("a hundred thousand sines", unrolled.to_owned(), End::Either),
    ]
}

/// Text of the host that must be nowhere.
fn host_texts() -> Vec<String> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().next().unwrap().to_owned();
    assert!(line.contains(":0:0:"), "{line}");
    // A variable of this process, whatever the child's environment is.
    vec![line, std::env::var("PATH").unwrap()]
}

fn said(build: &Build) -> String {
    let ptx = String::from_utf8_lossy(&build.ptx);
    format!("{:?} {} {:?} {ptx}", build.verdict, build.log, build.diagnostics)
}

#[test]
fn whatever_is_compiled_ends_in_time_and_quotes_nothing_of_the_host() {
    let judge = judge();
    let host = host_texts();
    for (name, source, end) in attacks() {
        let started = Instant::now();
        let build = compiled(&judge, &source);
        assert!(started.elapsed() < LONGEST, "{name}: {:?}", started.elapsed());
        assert!(build.log.len() <= LOG_BYTES_MAX, "{name}: {} bytes", build.log.len());
        let said = said(&build);
        for text in &host {
            assert!(!said.contains(text), "{name} quotes `{text}`");
        }
        assert!(!said.contains('\u{1b}') && !said.contains('\u{7}'), "{name}: {said}");
        let reason = build.verdict.as_ref().and_then(|verdict| verdict.reason);
        eprintln!("{name}: {reason:?}, {} ms", started.elapsed().as_millis());
        match end {
            End::Refused => assert_eq!(reason, Some(Reason::Compile), "{name}"),
            End::Harmless => assert_eq!(reason, None, "{name}"),
            End::Either => {
                assert!(matches!(reason, None | Some(Reason::Compile)), "{name}: {reason:?}")
            }
        }
    }
}

/// A source that includes a file learns nothing of whether it is there, where the machine has the
/// layer that keeps files from the compiler.
#[test]
fn a_file_that_is_closed_and_one_that_is_missing_are_told_alike() {
    let judge = judge();
    let told = |path: &str| {
        let build = compiled(&judge, &format!("#include \"{path}\"\n{KERNEL}"));
        assert_eq!(build.verdict.as_ref().unwrap().reason, Some(Reason::Compile), "{path}");
        said(&build).replace(path, "PATH")
    };
    // As long as the other, so that the compiler's mark is at the same place.
    let missing = |path: &str| told(&format!("/{}", "x".repeat(path.len() - 1)));
    let said = missing("/etc/shadow");
    assert!(said.contains("cannot open source file") && said.contains("PATH"), "{said}");
    let confinements = judge.confinements();
    let build = confinements.iter().find(|it| it.set == "build").unwrap();
    if !build.has(Layer::Landlock) {
        eprintln!("NOT AVAILABLE HERE: Landlock ({build})");
        return;
    }
    for there in ["/etc/shadow", "/etc/passwd", "/etc", "/root", "/root/.bashrc", "/proc/1/mem"] {
        assert_eq!(told(there), missing(there), "{there}");
    }
}
