//! Checks a request and turns it into compiler options.

use std::path::PathBuf;

use super::{CompileRequest, Nvrtc, NvrtcError, PRELUDE_NAME};
use crate::limits::{DEFINES_MAX, NAME_EXPRESSIONS_MAX, SOURCE_BYTES_MAX};

/// The options of every compile, apart from architecture, headers and macros.
const OPTIONS: [&str; 7] = [
    "-std=c++17",
    "-default-device",
    "-lineinfo",
    "--fmad=true",
    "--device-int128",
    "--ptxas-options=-v",
    // Without it, names with internal linkage carry the time of the compile in seconds.
    "--frandom-seed=warpwright",
];

/// Refuses what cannot be handed to the compiler.
pub(super) fn check(request: &CompileRequest<'_>, nvrtc: &Nvrtc) -> Result<(), NvrtcError> {
    let bad = |reason: String| Err(NvrtcError::BadRequest { reason });
    if request.source.len() > SOURCE_BYTES_MAX {
        let bytes = request.source.len();
        return bad(format!("the source has {bytes} bytes, {SOURCE_BYTES_MAX} are accepted"));
    }
    if !is_file_name(request.file_name) {
        return bad(format!("`{}` is not a plain file name", request.file_name));
    }
    if request.name_expressions.len() > NAME_EXPRESSIONS_MAX {
        return bad(format!("more than {NAME_EXPRESSIONS_MAX} kernels are named"));
    }
    if request.defines.len() > DEFINES_MAX {
        return bad(format!("more than {DEFINES_MAX} macros are defined"));
    }
    if let Some((name, _)) = request.defines.iter().find(|(name, _)| !is_identifier(name)) {
        return bad(format!("`{name}` is not the name of a macro"));
    }
    if let Some(name) = request.name_expressions.iter().find(|name| !is_one_line(name)) {
        return bad(format!("`{name}` is not the name of a kernel"));
    }
    check_architecture(request.arch, nvrtc)
}

fn check_architecture(arch: &str, nvrtc: &Nvrtc) -> Result<(), NvrtcError> {
    let digits = arch.strip_prefix("sm_").map(|rest| rest.trim_end_matches(['a', 'f']));
    let number = digits.and_then(|digits| digits.parse::<i32>().ok());
    if number.is_some_and(|number| nvrtc.architectures.contains(&number)) {
        return Ok(());
    }
    let (major, minor) = nvrtc.version;
    Err(NvrtcError::UnknownArchitecture {
        arch: arch.to_owned(),
        version: format!("{major}.{minor}"),
        known: nvrtc.architectures.clone(),
    })
}

/// All options of one compile, in a fixed order.
pub(super) fn options(request: &CompileRequest<'_>, include_dirs: &[PathBuf]) -> Vec<String> {
    let mut options = vec![format!("--gpu-architecture={}", request.arch)];
    options.extend(OPTIONS.map(str::to_owned));
    options.push(format!("--pre-include={PRELUDE_NAME}"));
    options.extend(include_dirs.iter().map(|folder| format!("-I{}", folder.display())));
    options.extend(request.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

fn is_identifier(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_')
}

fn is_file_name(name: &str) -> bool {
    let plain = |each: char| each.is_ascii_alphanumeric() || "._-".contains(each);
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(plain)
}

fn is_one_line(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains(['\n', '\r', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nvrtc() -> Nvrtc {
        Nvrtc { version: (13, 0), architectures: vec![75, 90, 100], include_dirs: Vec::new() }
    }

    fn request<'a>() -> CompileRequest<'a> {
        CompileRequest {
            source: "",
            file_name: "kernel.cu",
            arch: "sm_90a",
            defines: &[],
            name_expressions: &[],
        }
    }

    #[test]
    fn options_are_the_fixed_ones_and_the_requests_own() {
        let defines = [("COUNT".to_owned(), -3)];
        let request = CompileRequest { defines: &defines, ..request() };
        let options = options(&request, &[PathBuf::from("/cuda/include")]);
        assert_eq!(
            options.join(" "),
            concat!(
                "--gpu-architecture=sm_90a -std=c++17 -default-device -lineinfo --fmad=true ",
                "--device-int128 --ptxas-options=-v --frandom-seed=warpwright ",
                "--pre-include=ww_prelude.h -I/cuda/include -DCOUNT=-3"
            )
        );
    }

    #[test]
    fn requests_that_cannot_be_handed_over_are_refused() {
        let long = "x".repeat(SOURCE_BYTES_MAX + 1);
        let macros = [("A=1 -I/".to_owned(), 1)];
        let names = ["k\n#include \"x\"".to_owned()];
        let cases = [
            (CompileRequest { source: &long, ..request() }, "accepted"),
            (CompileRequest { file_name: "../kernel.cu", ..request() }, "plain file name"),
            (CompileRequest { file_name: "", ..request() }, "plain file name"),
            (CompileRequest { defines: &macros, ..request() }, "name of a macro"),
            (CompileRequest { name_expressions: &names, ..request() }, "name of a kernel"),
            (CompileRequest { arch: "sm_91", ..request() }, "sm_91 is not known"),
            (CompileRequest { arch: "compute_90a", ..request() }, "not known"),
        ];
        for (case, expected) in cases {
            let error = check(&case, &nvrtc()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(check(&request(), &nvrtc()).is_ok());
    }
}
