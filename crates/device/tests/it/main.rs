//! The real compiler: the pinned toolchain is installed if it is missing, and drives every test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod compile;
mod cuda;
mod diagnostics;
mod harness;
mod sim;
mod toolchain;

use std::path::PathBuf;
use std::sync::OnceLock;

use device::nvrtc::{CompileRequest, Compiled, Nvrtc};
use device::toolchain::Toolchain;

/// The cache of the tests: the user's own if named, else one in the build folder.
fn cache_dir() -> PathBuf {
    match std::env::var_os("WARPWRIGHT_CACHE") {
        Some(path) => path.into(),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("warpwright-cache"),
    }
}

fn pinned() -> &'static Toolchain {
    static TOOLCHAIN: OnceLock<Toolchain> = OnceLock::new();
    TOOLCHAIN.get_or_init(|| device::toolchain::install(&cache_dir(), &mut |_| {}).unwrap())
}

fn nvrtc() -> &'static Nvrtc {
    static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
    NVRTC.get_or_init(|| Nvrtc::load(pinned()).unwrap())
}

fn compile(source: &str, names: &[&str]) -> Compiled {
    compile_with(source, names, &[])
}

fn compile_with(source: &str, names: &[&str], defines: &[(String, i64)]) -> Compiled {
    compile_for("sm_90a", source, names, defines)
}

fn compile_for(arch: &str, source: &str, names: &[&str], defines: &[(String, i64)]) -> Compiled {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let request =
        CompileRequest { source, file_name: "kernel.cu", arch, defines, name_expressions: &names };
    nvrtc().compile(&request).unwrap()
}
