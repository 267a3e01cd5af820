//! The log's forms, as the compiler prints them.

use super::*;

fn one(log: &str) -> Diagnostic {
    let mut found = parse(log, "__global__ void a(); __global__ void b();", "");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn front_end_messages_are_read() {
    let cases = [
        ("kernel.cu(2): error: identifier \"y\" is undefined", Severity::Error, Some(2)),
        ("kernel.cu(7): error #20-D: x", Severity::Error, Some(7)),
        (
            "kernel.cu(2): catastrophic error: cannot open source file \"f.h\"",
            Severity::Error,
            Some(2),
        ),
        ("kernel.cu(3): warning #177-D: variable \"q\" is unused", Severity::Warning, Some(3)),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.13.0.", Severity::Error, None),
        ("<cuda>/mma.h(9): error: a (b): c", Severity::Error, Some(9)),
    ];
    for (log, severity, line) in cases {
        let found = one(log);
        assert_eq!((found.severity, found.line), (severity, line), "{log}");
    }
}

#[test]
fn the_excerpt_is_what_follows_until_an_empty_line() {
    let found =
        one("kernel.cu(2): error: no\n  x = y;\n      ^\n\n1 error detected in the compilation.");
    assert_eq!(found.excerpt, "  x = y;\n      ^");
}

#[test]
fn assembler_errors_are_traced_to_the_source() {
    let ptx = ".entry k()\n{\n.loc\t1 7 2\n\nwgmma.bogus;\n}\n.file\t1 \"kernel.cu\"\n";
    let log = "ptxas application ptx input, line 5; error   : Unknown modifier '.bogus'\n\
               ptxas fatal   : Ptx assembly aborted due to errors\n";
    let found = parse(log, "", ptx);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].file.as_str(), found[0].line), ("kernel.cu", Some(7)));
    assert_eq!(found[0].message, "ptxas: Unknown modifier '.bogus'");
    assert_eq!(found[0].excerpt, "wgmma.bogus;");
    let unplaced = parse("ptxas error   : Entry function 'k' uses too much shared data", "", "");
    assert_eq!(unplaced[0].line, None);
    assert!(parse("ptxas info    : 0 bytes gmem", "", "").is_empty());
}

#[test]
fn a_name_without_a_kernel_is_one_diagnostic() {
    let log = "__nv_name_map(3): error: identifier \"nope\" is undefined\n  \
               #pragma nv_mangled_name nope\n                          ^\n\n\
               __nv_name_map(3): error: Error in parsing name expression\n  \
               #pragma nv_mangled_name nope\n                          ^\n";
    assert_eq!(one(log).message, "no kernel `nope`; the source defines a, b");
}

#[test]
fn errors_are_kept_before_warnings_and_repetitions_are_dropped() {
    let mut log = String::new();
    for line in 0..100 {
        log += &format!("kernel.cu({line}): warning #1-D: w\n\n");
    }
    log += "kernel.cu(5): error: e\n\nkernel.cu(5): error: e\n";
    let found = parse(&log, "", "");
    assert_eq!(found.len(), DIAGNOSTICS_MAX);
    assert_eq!(found.iter().filter(|each| each.severity == Severity::Error).count(), 1);
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn paths_of_the_toolchain_are_made_short_and_timings_removed() {
    let folders = [PathBuf::from("/c/include"), PathBuf::from("/c/include/cccl")];
    let log = "/c/include/cccl/cub/a.cuh(1): error: x\n/c/include/mma.h(2): error: y\n\
               /dev/null/kernel.cu(3): error: z\nptxas info    : Compile time = 1.5 ms";
    let expected =
        "<cuda>/cub/a.cuh(1): error: x\n<cuda>/mma.h(2): error: y\nkernel.cu(3): error: z";
    assert_eq!(tidy(log, &folders), expected);
}

#[test]
fn nothing_is_quoted_of_other_files() {
    let folders = [PathBuf::from("/c/include")];
    let other = |file: &str| format!("{file}(1): error: expected a \";\"\n      secret = 1\n\n");
    for file in ["/etc/passwd", "/c/include/../../etc/passwd", "../etc/passwd", "/c/other.h"] {
        // Errors that come first, and more of them than are kept, hide nothing.
        let own: String =
            (0..DIAGNOSTICS_MAX + 8).map(|i| format!("kernel.cu({i}): error: {i}\n")).collect();
        let log = tidy(&format!("{own}{}kernel.cu(9): error: last", other(file)), &folders);
        assert!(!log.contains("secret") && !log.contains("passwd"), "{file}: {log}");
        assert!(log.ends_with(&format!("error: {OTHER_FILE}\nkernel.cu(9): error: last")), "{log}");
    }
    let kept = "kernel.cu(2): error: no\n  x = y;\n      ^\n\n1 error detected";
    assert_eq!(tidy(kept, &folders), kept);
}

/// Why a file could not be opened would tell whether it is there.
#[test]
fn a_closed_file_is_told_like_a_missing_one() {
    let said = |rest: &str| {
        let line = format!("kernel.cu(1): catastrophic error: {rest}");
        tidy(&format!("{line}\n  #include \"/etc/shadow\"\n  ^\n"), &[])
    };
    let missing = said("cannot open source file \"/etc/shadow\"");
    assert!(missing.contains("cannot open source file \"/etc/shadow\"\n  #include"), "{missing}");
    for rest in [
        "cannot open source file \"/etc/shadow\": Permission denied",
        "cannot open source file \"/etc/shadow\" (no directories in search list)",
        "could not open source file \"/etc/shadow\": Is a directory",
        "could not open source file \"/etc/shadow\"",
    ] {
        assert_eq!(said(rest), missing, "{rest}");
    }
    // Only what is a message of the compiler's: a source may write the same words.
    let own = "  // cannot open source file \"x\": Permission denied";
    assert_eq!(tidy(own, &[]), own);
}

#[test]
fn a_failure_without_a_message_gets_one() {
    let greedy = KernelResources {
        kernel: "k".to_owned(),
        static_shared_bytes: 400_000,
        ..KernelResources::default()
    };
    let mut found = Vec::new();
    explain_silence(&mut found, &[greedy]);
    assert!(found[0].message.contains("400000 bytes of static shared memory"));
    explain_silence(&mut found, &[]);
    assert_eq!(found.len(), 1);
}
