//! Sources that do not compile: the right place, the right words, and a bounded amount of them.

use device::nvrtc::{Compiled, Diagnostic, Severity};

use crate::compile;

const LOG_BYTES_MAX: usize = (64 << 10) + 64;

fn first_error(compiled: &Compiled) -> &Diagnostic {
    assert!(compiled.output.is_none());
    let first = compiled.diagnostics.first().unwrap();
    assert_eq!(first.severity, Severity::Error);
    first
}

#[test]
fn lines_are_those_of_the_source_with_and_without_includes() {
    let body = "extern \"C\" __global__ void k(float* x) {\n  x[0] = missing;\n}\n";
    for (include, line) in
        [("", 2), ("#include <mma.h>\n#include <stdint.h>\n", 4), ("#include <reference.cuh>\n", 3)]
    {
        let compiled = compile(&format!("{include}{body}"), &["k"]);
        let error = first_error(&compiled);
        assert_eq!((error.file.as_str(), error.line), ("kernel.cu", Some(line)));
        assert_eq!(error.message, "identifier \"missing\" is undefined");
        assert!(error.excerpt.contains("x[0] = missing;"), "{}", error.excerpt);
    }
}

#[test]
fn an_error_inside_a_header_names_the_header_shortly() {
    let source = "#include <cub/block/block_reduce.cuh>
extern \"C\" __global__ void k() { cub::BlockReduce<float, 0>::no_such_name(); }";
    let compiled = compile(source, &["k"]);
    first_error(&compiled);
    assert!(!compiled.log.contains("/include/"), "{}", compiled.log);
    let missing = compile("#include <no_such_header.h>\n", &[]);
    assert!(first_error(&missing).message.contains("no_such_header.h"));
}

#[test]
fn assembler_errors_name_the_line_of_the_source() {
    let source = "extern \"C\" __global__ void k(float* x) {
  x[0] = 1;
  asm volatile(\"bogus.f32 a, b;\");
}";
    let compiled = compile(source, &["k"]);
    let error = first_error(&compiled);
    assert_eq!((error.file.as_str(), error.line), ("kernel.cu", Some(3)), "{error:?}");
    assert!(error.message.starts_with("ptxas: "), "{error:?}");
    assert!(error.excerpt.contains("bogus.f32"), "{error:?}");
}

#[test]
fn a_name_that_names_no_kernel_says_which_there_are() {
    let source = "extern \"C\" __global__ void first(float* x) {}
                  template <int N> __global__ void second(float* x) {}";
    let compiled = compile(source, &["absent", "first"]);
    assert_eq!(compiled.diagnostics.len(), 1, "{:?}", compiled.diagnostics);
    let error = first_error(&compiled);
    assert_eq!(error.message, "no kernel `absent`; the source defines first, second");

    let compiled = compile(source, &["second<float>"]);
    let error = first_error(&compiled);
    assert_eq!(compiled.diagnostics.len(), 1, "{:?}", compiled.diagnostics);
    assert!(error.message.starts_with("no kernel `second<float>`"), "{}", error.message);
}

#[test]
fn too_much_shared_memory_is_said() {
    let source = "extern \"C\" __global__ void k(float* x) {
        __shared__ float a[100000];
        a[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = a[threadIdx.x ^ 1];
    }";
    let compiled = compile(source, &["k"]);
    assert!(first_error(&compiled).message.contains("shared"), "{:?}", compiled.diagnostics);
}

#[test]
fn a_flood_of_messages_is_cut_and_errors_come_first() {
    let mut source = String::from("extern \"C\" __global__ void k() {\n");
    for index in 0..3000 {
        source += &format!("  int unused_variable_with_a_long_name_{index};\n");
    }
    source += "  undefined_name();\n}\n";
    let compiled = compile(&source, &["k"]);
    assert_eq!(first_error(&compiled).line, Some(3002));
    assert!(compiled.diagnostics.len() <= 32);
    assert!(compiled.log.len() <= LOG_BYTES_MAX);
    assert!(compiled.log.ends_with("bytes cut]"));
}

#[test]
fn a_log_beyond_reading_is_a_value() {
    // Each message repeats the whole line.
    let mut source = String::from("extern \"C\" __global__ void k() {");
    for index in 0..2000 {
        source += &format!(" int unused_variable_{index};");
    }
    let failed = compile(&format!("{source} undefined_name(); }}"), &["k"]);
    assert!(first_error(&failed).message.contains("break long lines"), "{}", failed.log);
    assert!(compile(&format!("{source} }}"), &["k"]).output.is_some());
}

#[test]
fn host_code_is_refused_with_a_message() {
    let source = "__global__ void k() {}\nvoid launch() { k<<<1, 1>>>(); }";
    first_error(&compile(source, &["k"]));
    first_error(&compile("#include <torch/extension.h>\n", &[]));
}

#[test]
fn junk_is_a_value() {
    for source in ["", "\u{fffd}\u{1F980}", "#error no\n", "}}}}", "#include \"kernel.cu\"\n"] {
        let compiled = compile(source, &["k"]);
        assert!(compiled.output.is_none(), "{source}");
        assert!(!compiled.diagnostics.is_empty(), "{source}");
    }
}
