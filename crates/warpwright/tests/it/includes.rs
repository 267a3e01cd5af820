//! A source opens and finds no file but CUDA's headers, whatever the compiler's process could read
//! before it saw the source: with the gate of files alone, and with Landlock below it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use judge::{Build, ConfinementConfig, Judge, JudgeConfig};
use pipeline::confinement::{LEVEL_MAX, Layer};
use pipeline::verdict::Reason;
use tempfile::TempDir;

use crate::catalogue::compiled;
use crate::hostile::{KERNEL, PLAN, reply};
use crate::program::{Program, cache};
use crate::task_files::judge;

const OWN_KERNEL: &str = "extern \"C\" __global__ void k(float* y) { y[0] = 1.0f; }\n";
const QUOTING: &str = "#define TEXT(...) #__VA_ARGS__\n#define QUOTED(...) TEXT(__VA_ARGS__)\n";
const MARKER: &str = "marker_5d0c1f";
/// Everything, and the highest level without Landlock.
const LEVELS: [u8; 2] = [LEVEL_MAX, 1];

/// A folder that the compiler's process may read when it starts, with a file that says the marker.
fn readable_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("marker.h"), format!("{MARKER}\n")).unwrap();
    folder
}

fn judge_at(level_max: u8, readable: &TempDir) -> Judge {
    let config = judge().config().clone();
    let mut toolchain_folders = config.confinement.toolchain_folders.clone();
    toolchain_folders.push(readable.path().to_owned());
    let confinement =
        ConfinementConfig { level_max, toolchain_folders, ..ConfinementConfig::default() };
    Judge::new(JudgeConfig { confinement, ..config })
}

fn of_host(readable: &TempDir) -> Vec<String> {
    let marker = readable.path().join("marker.h").display().to_string();
    let first = cache().join("toolchain").canonicalize().unwrap().display().to_string();
    let climbing = "../../../../../../../../../../../../usr/lib/os-release";
    [&marker, "/usr/lib/os-release", "/etc/passwd", "/etc/ld.so.cache", climbing, &first]
        .map(str::to_owned)
        .to_vec()
}

/// Everything that a build says.
fn said(build: &Build) -> String {
    let (ptx, cubin) = (String::from_utf8_lossy(&build.ptx), String::from_utf8_lossy(&build.cubin));
    format!("{:?} {} {:?} {ptx} {cubin}", build.verdict, build.log, build.diagnostics)
}

/// Ways to have the text of a file quoted by a diagnostic of the source, or compiled into it.
fn quoting(path: &str) -> [String; 6] {
    let include = format!("#include \"{path}\"");
    [
        format!("{QUOTING}__device__ const char text[] = QUOTED(\n{include}\n);\n{OWN_KERNEL}"),
        format!("{QUOTING}static_assert(false, QUOTED(\n{include}\n));\n{OWN_KERNEL}"),
        format!("#define PATH <{path}>\n#include PATH\n{OWN_KERNEL}"),
        format!("namespace n {{\n%:include \"{path}\"\n}}\n{OWN_KERNEL}"),
        format!("int marker_5d0c1f;\n__device__ int n = (\n{include}\n)(1);\n{OWN_KERNEL}"),
        format!("#inc\\\nlude \"{path}\"\n{OWN_KERNEL}"),
    ]
}

#[test]
fn no_text_of_the_host_is_quoted_or_compiled() {
    let readable = readable_folder();
    let release = fs::read_to_string("/usr/lib/os-release").unwrap_or_default();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let lines = release.lines().next().into_iter().chain(passwd.lines().next());
    let texts: Vec<_> = lines.chain(["/bin/", "libstdc++.so.6 ("]).collect();
    for level in LEVELS {
        let judge = judge_at(level, &readable);
        for path in of_host(&readable) {
            for source in quoting(&path) {
                let build = compiled(&judge, &source);
                let reason = build.verdict.as_ref().and_then(|verdict| verdict.reason);
                assert_eq!(reason, Some(Reason::Compile), "{level}: {source}");
                let said = said(&build);
                assert!(said.contains("cannot open source file"), "{level}: {source}\n{said}");
                // What it says of itself is the source's own.
                let foreign = said.replace(&path, "").replace("int marker_5d0c1f;", "");
                assert!(!foreign.contains(MARKER), "{level}: {source}\n{foreign}");
                for text in &texts {
                    assert!(!foreign.contains(text), "{level}: {source}\n{foreign}");
                }
            }
        }
        let held = judge.confinements();
        assert!(held[0].has(Layer::Seccomp), "{held:?}");
        assert!(level > 1 || !held[0].has(Layer::Landlock), "{held:?}");
    }
}

#[test]
fn whether_a_file_is_there_is_not_told() {
    let readable = readable_folder();
    let asked = |path: &str| {
        let quoted = format!("#if __has_include(\"{path}\")\n#error there\n#endif\n");
        let bracketed = format!("#if __has_include(<{path}>)\n#error there\n#endif\n");
        if path.contains('>') { quoted } else { quoted + &bracketed }
    };
    let mut paths = of_host(&readable);
    let headers = judge().config().confinement.toolchain_folders.clone();
    paths.extend(headers.iter().map(|it| it.join("cuda_fp16.h").display().to_string()));
    let others = ["/", ".", "..", "/usr/lib", "/proc/self/maps", "/dev/null", "/tmp", "a/../.."];
    paths.extend(others.map(str::to_owned));
    paths
        .extend(["<cuda>/../lib", "<cuda>/../../../toolchain"].map(|it| format!("/dev/null/{it}")));
    let asking: String = paths.iter().map(|path| asked(path)).collect();
    for level in LEVELS {
        let judge = judge_at(level, &readable);
        let build = compiled(&judge, &format!("{asking}{OWN_KERNEL}"));
        assert_eq!(build.verdict, None, "{level}: {}", build.log);
        // The same question finds what is for everybody.
        let build = compiled(&judge, &format!("{}{OWN_KERNEL}", asked("cuda_fp16.h")));
        assert!(said(&build).contains("there"), "{level}: {}", build.log);
    }
}

/// A header tells its own name to whoever redefines a word that it uses.
#[test]
fn headers_do_not_tell_where_they_are() {
    let readable = readable_folder();
    // The compiler's own header has it already.
    let again = "#undef __LIBRARY_TYPES_H__\nnamespace again {\n#include <library_types.h>\n}\n\
        #undef typedef\n";
    let compiled_in = "#define PASTED(a, b) a##b\n#define NAMED(a, b) PASTED(a, b)\n\
        #define typedef __device__ char NAMED(leak, __LINE__)[] = __FILE__; typedef\n";
    let quoted = "#define typedef static_assert(sizeof(__FILE__) == 0, __FILE__); typedef\n";
    let own = cache().canonicalize().unwrap().display().to_string();
    for level in LEVELS {
        let judge = judge_at(level, &readable);
        let build = compiled(&judge, &format!("{compiled_in}{again}{OWN_KERNEL}"));
        assert_eq!(build.verdict, None, "{level}: {}", build.log);
        let cubin = String::from_utf8_lossy(&build.cubin).into_owned();
        assert!(cubin.contains("/dev/null/<cuda>/library_types.h"), "{level}: no name at all");
        let failed = compiled(&judge, &format!("{quoted}{again}{OWN_KERNEL}"));
        assert!(said(&failed).contains("<cuda>/library_types.h"), "{level}: {}", failed.log);
        for build in [build, failed] {
            let said = said(&build);
            assert!(!said.contains(&own) && !said.contains("toolchain/"), "{level}: {said}");
        }
    }
}

#[test]
fn the_headers_of_the_toolchain_are_found() {
    let readable = readable_folder();
    let headers = [
        "cuda_fp16.h",
        "cuda_bf16.h",
        "cuda_fp8.h",
        "mma.h",
        "cooperative_groups.h",
        "cooperative_groups/reduce.h",
        "cooperative_groups/memcpy_async.h",
        "cuda_pipeline.h",
        "cuda/barrier",
        "cuda/std/array",
        "cub/block/block_reduce.cuh",
    ];
    for level in [LEVEL_MAX, 1, 0] {
        let judge = judge_at(level, &readable);
        for header in headers {
            let source = format!("#include <{header}>\n{OWN_KERNEL}");
            let build = compiled(&judge, &source);
            assert_eq!(build.verdict, None, "{header} at {level}: {}", build.log);
            assert!(!said(&build).contains(readable.path().to_str().unwrap()));
        }
    }
}

/// Through the whole program: nothing of it in a log, a prompt or the ledger.
#[test]
fn no_text_of_the_host_reaches_a_record() {
    let program = Program::new();
    let path = ["/usr/lib/os-release", "/etc/passwd"];
    let kernels = path.iter().flat_map(|path| quoting(path));
    let replies: Vec<_> = kernels.map(|it| reply(&it.replace(OWN_KERNEL, KERNEL), PLAN)).collect();
    let (model, attempts) = (program.transcript(&replies), replies.len().to_string());
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", &attempts];
    let ended = program.call_with(&run, &[("WARPWRIGHT_REPLAY_JOURNAL", "asked.jsonl")]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let release = fs::read_to_string("/usr/lib/os-release").unwrap_or_default();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let values = release.lines().filter_map(|line| line.split('"').nth(1));
    let texts: Vec<_> = passwd.lines().chain(values).filter(|text| text.len() > 8).collect();
    assert!(!texts.is_empty());
    let mut told = vec![ended.stdout, ended.stderr];
    told.push(fs::read_to_string(program.path("asked.jsonl")).unwrap());
    for seq in 1..=replies.len() {
        told.push(program.call(&["show", &format!("@last:{seq}"), "--json"]).stdout);
    }
    for text in texts {
        assert!(told.iter().all(|it| !it.contains(text)), "`{text}` is told");
    }
    assert!(program.verdicts().iter().all(|it| it.starts_with("BuildFailed/COMPILE")));
}

/// Without any layer the same sources learn what they want to: the tests above show something.
#[test]
fn at_level_0_all_of_it_works() {
    let readable = readable_folder();
    let judge = judge_at(0, &readable);
    let marker = readable.path().join("marker.h").display().to_string();
    let build = compiled(&judge, &quoting(&marker)[0]);
    assert_eq!(build.verdict, None, "{}", build.log);
    assert!(said(&build).contains(MARKER), "nothing is compiled in");
    let quoted = compiled(&judge, &quoting(&marker)[1]);
    assert!(quoted.log.contains(MARKER), "nothing is quoted: {}", quoted.log);
    let asked = format!("#if __has_include(\"{marker}\")\n#error there\n#endif\n{OWN_KERNEL}");
    assert!(said(&compiled(&judge, &asked)).contains("there"), "nothing is found");
}
