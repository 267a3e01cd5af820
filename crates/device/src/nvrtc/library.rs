//! Loads NVRTC by absolute path and asks it who it is; all that is unsafe about that is here.
#![allow(unsafe_code, reason = "loading a library and calling into it")]

use std::path::Path;

use cudarc::nvrtc::sys;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::NvrtcError;
use crate::limits::ARCHITECTURES_MAX;
use crate::toolchain::Toolchain;

const PROBE_SYMBOL: &[u8] = b"nvrtcVersion\0";

/// Loads the builtins, then NVRTC, so that later look-ups by bare name find these very files.
///
/// NVRTC opens its builtins by bare name and has no search path of its own, which is why the
/// builtins come first.
pub(super) fn preload(toolchain: &Toolchain) -> Result<(), NvrtcError> {
    let builtins = open(&toolchain.builtins)?;
    let nvrtc = open(&toolchain.nvrtc)?;
    let other = || NvrtcError::OtherLibrary { path: toolchain.nvrtc.clone() };
    // SAFETY: the call only tries to open libraries by name.
    if !unsafe { sys::is_culib_present() } {
        return Err(other());
    }
    // SAFETY: both symbols are only compared as addresses and never called.
    let (ours, bound) = unsafe {
        let ours = nvrtc.get::<*const ()>(PROBE_SYMBOL).ok().map(|symbol| symbol.as_raw_ptr());
        let bound = sys::culib().get::<*const ()>(PROBE_SYMBOL).ok();
        (ours, bound.map(|symbol| symbol.try_as_raw_ptr()))
    };
    if ours.is_none() || bound.flatten() != ours {
        return Err(other());
    }
    // The code stays mapped for good: pointers into it are cached by the bindings.
    std::mem::forget((builtins, nvrtc));
    Ok(())
}

fn open(path: &Path) -> Result<Library, NvrtcError> {
    // SAFETY: the file is NVIDIA's library of the toolchain; its initialisers are trusted.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
        .map_err(|error| NvrtcError::Load { path: path.to_owned(), reason: error.to_string() })
}

/// Major and minor version.
pub(super) fn version() -> Result<(i32, i32), NvrtcError> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are valid for one write.
    let code = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    check("nvrtcVersion", code)?;
    Ok((major, minor))
}

/// Architectures that the library compiles for.
pub(super) fn architectures() -> Result<Vec<i32>, NvrtcError> {
    let mut count = 0;
    // SAFETY: the pointer is valid for one write.
    check("nvrtcGetNumSupportedArchs", unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) })?;
    let count = usize::try_from(count).unwrap_or(0);
    if count > ARCHITECTURES_MAX {
        return Err(NvrtcError::TooLarge { what: "list of architectures", bytes: count });
    }
    let mut found = vec![0; count];
    // SAFETY: the vector has room for as many values as the library just announced.
    let code = unsafe { sys::nvrtcGetSupportedArchs(found.as_mut_ptr()) };
    check("nvrtcGetSupportedArchs", code)?;
    Ok(found)
}

/// Turns a result code into an error that names the call.
pub(super) fn check(call: &'static str, code: sys::nvrtcResult) -> Result<(), NvrtcError> {
    code.result().map_err(|error| NvrtcError::Call {
        call,
        code: error.to_string(),
        log: String::new(),
    })
}
