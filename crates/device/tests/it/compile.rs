//! Sources that compile: what comes out, and what it says it uses.

use device::nvrtc::{CompileRequest, Nvrtc, NvrtcError, Severity};
use device::toolchain::Toolchain;

use crate::{compile, compile_with, nvrtc, pinned};

const ELF_MAGIC: &[u8] = b"\x7fELF";

#[test]
fn the_loaded_library_is_the_pinned_one() {
    assert_eq!(nvrtc().version(), (13, 0));
    assert!(nvrtc().architectures().contains(&90));
}

#[test]
fn common_kernels_compile_out_of_the_box() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("vector_load", include_str!("../cu/vector_load.cu"), &["scale"]),
        ("softmax", include_str!("../cu/softmax.cu"), &["softmax"]),
        ("wmma", include_str!("../cu/wmma.cu"), &["product<half>", "product<__nv_bfloat16>"]),
        ("tensor_map", include_str!("../cu/tensor_map.cu"), &["load_tile"]),
        ("warpgroup", include_str!("../cu/warpgroup.cu"), &["warpgroup"]),
        ("cub_reduce", include_str!("../cu/cub_reduce.cu"), &["sum"]),
        ("pipeline", include_str!("../cu/pipeline.cu"), &["widen"]),
        (
            "reference_sum",
            include_str!("../cu/reference_sum.cu"),
            &[
                "reference_dot<double>",
                "reference_dot<float>",
                "reference_dot<half>",
                "reference_dot<__nv_bfloat16>",
                "reference_dot<__nv_fp8_e4m3>",
                "reference_dot<__nv_fp8_e5m2>",
                "reference_dot<int8_t>",
                "reference_dot<uint8_t>",
                "reference_dot<int32_t>",
                "reference_dot<int64_t>",
                "reference_dot<bool>",
            ],
        ),
    ];
    for (label, source, names) in cases {
        let compiled = compile(source, names);
        let output = compiled.output.unwrap_or_else(|| panic!("{label}: {}", compiled.log));
        assert!(output.cubin.starts_with(ELF_MAGIC), "{label}");
        assert!(output.ptx.contains(".target sm_90a"), "{label}");
        assert_eq!(output.lowered_names.len(), names.len(), "{label}");
        assert_eq!(compiled.resources.len(), names.len(), "{label}: {:?}", compiled.resources);
        assert_eq!(compiled.diagnostics, [], "{label}");
    }
}

#[test]
fn templates_are_instantiated_by_their_names() {
    let source = "template <int N, class T> __global__ void tk(T* x) { x[0] = N; }
                  extern \"C\" __global__ void plain(float* x) {}
                  __global__ void mangled(float* x) {}";
    let compiled = compile(source, &["tk<64, float>", "plain", "mangled"]);
    let output = compiled.output.unwrap();
    let names: Vec<(&str, &str)> =
        output.lowered_names.iter().map(|(name, low)| (name.as_str(), low.as_str())).collect();
    let expected =
        [("tk<64, float>", "_Z2tkILi64EfEvPT0_"), ("plain", "plain"), ("mangled", "_Z7mangledPf")];
    assert_eq!(names, expected);
    assert!(output.ptx.contains(".entry _Z2tkILi64EfEvPT0_("));
}

#[test]
fn resources_are_those_of_each_kernel() {
    let compiled = compile(include_str!("../cu/spills.cu"), &["spilling", "small"]);
    let of = |name: &str| compiled.resources.iter().find(|each| each.kernel == name).unwrap();
    let spilling = of("spilling");
    assert_eq!(spilling.registers, 32);
    assert_eq!(spilling.static_shared_bytes, 4096);
    assert_eq!(spilling.barriers, 1);
    assert!(spilling.spill_store_bytes > 0 && spilling.spill_load_bytes > 0, "{spilling:?}");
    assert!(spilling.stack_bytes > 0);
    let small = of("small");
    assert_eq!((small.spill_store_bytes, small.stack_bytes, small.static_shared_bytes), (0, 0, 0));
    assert!(compiled.log.contains("ptxas info"), "the log is there on success too");
    assert!(!compiled.log.contains("Compile time"));
}

#[test]
fn macros_have_the_values_of_the_request() {
    let source = "extern \"C\" __global__ void k(int* x) { x[0] = WIDTH; x[1] = SHIFT; }
                  static_assert(WIDTH == 4096 && SHIFT == -3, \"\");";
    let defines = [("WIDTH".to_owned(), 4096), ("SHIFT".to_owned(), -3)];
    assert!(compile_with(source, &["k"], &defines).output.is_some());
    assert!(compile(source, &["k"]).output.is_none());
}

/// Also in another second, in which the compiler would otherwise name internal functions anew.
#[test]
fn the_same_source_gives_the_same_bytes() {
    let source = include_str!("../cu/wmma.cu");
    let first = compile(source, &["product<half>"]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let second = compile(source, &["product<half>"]);
    assert!(first == second, "the compiler's output depends on the time");
    let ptx = first.output.unwrap().ptx;
    assert!(ptx.contains("\"kernel.cu\""), "no folder of this machine in the PTX");
    assert!(!ptx.contains(&*pinned().include_dirs[0].to_string_lossy()));
}

#[test]
fn asserts_trap_and_call_no_host() {
    let source =
        "#include <cassert>\nextern \"C\" __global__ void k(int* x) { assert(x[0] == 1); }";
    let ptx = compile(source, &["k"]).output.unwrap().ptx;
    assert!(ptx.contains("trap;") && !ptx.contains("__assertfail"), "{ptx}");
}

#[test]
fn many_compiles_leave_nothing_behind() {
    let source = "extern \"C\" __global__ void k(float* x) { x[0] = 1; }";
    let broken = "extern \"C\" __global__ void k(float* x) { x[0] = y; }";
    for _ in 0..5 {
        compile(source, &["k"]);
    }
    let (files, bytes) = (open_files(), resident_bytes());
    for _ in 0..50 {
        assert!(compile(source, &["k"]).output.is_some());
        assert!(compile(broken, &["k", "none"]).output.is_none());
    }
    assert!(open_files() <= files + 8, "other tests may hold a few");
    assert!(resident_bytes() < bytes + (512 << 20));
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn an_unknown_architecture_is_our_error() {
    let request = CompileRequest {
        source: "",
        file_name: "kernel.cu",
        arch: "sm_30",
        defines: &[],
        name_expressions: &[],
    };
    let error = nvrtc().compile(&request).unwrap_err();
    assert!(matches!(error, NvrtcError::UnknownArchitecture { .. }), "{error}");
}

#[test]
fn a_missing_library_is_an_error_and_no_panic() {
    let broken = Toolchain { builtins: "/nonexistent/builtins.so".into(), ..pinned().clone() };
    let error = Nvrtc::load(&broken).unwrap_err();
    assert!(matches!(&error, NvrtcError::Load { .. }), "{error}");
}

#[test]
fn warnings_come_with_success() {
    let compiled = compile("extern \"C\" __global__ void k() {\n  int unused;\n}", &["k"]);
    assert!(compiled.output.is_some());
    assert_eq!(compiled.diagnostics.len(), 1);
    let warning = &compiled.diagnostics[0];
    assert_eq!((warning.severity, warning.line), (Severity::Warning, Some(2)));
}
