//! Owns one NVRTC program: created, compiled, read, and destroyed when dropped, on errors too.
#![allow(unsafe_code, reason = "calls into NVRTC")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use cudarc::nvrtc::sys::{self, nvrtcResult};

use super::NvrtcError;
use super::headers::HEADERS;
use super::library::check;
use crate::limits::{IMAGE_BYTES_MAX, LOG_BYTES_MAX, head};

/// A folder that exists nowhere, since that is no folder, and out of which no path climbs: an
/// absolute name keeps the working directory out of the output.
pub(crate) const SOURCE_FOLDER: &str = "/dev/null/";

/// One program; the handle is never null.
#[derive(Debug)]
pub(super) struct Program {
    handle: sys::nvrtcProgram,
    names: Vec<CString>,
    // The library may keep pointers to these until the program is destroyed.
    _source: CString,
    _file_name: CString,
}

type SizeCall = unsafe fn(sys::nvrtcProgram, *mut usize) -> nvrtcResult;
type ReadCall = unsafe fn(sys::nvrtcProgram, *mut c_char) -> nvrtcResult;

impl Program {
    /// Creates a program with our headers in memory.
    pub(super) fn new(source: &str, file_name: &str) -> Result<Program, NvrtcError> {
        let source = text("source", source)?;
        let file_name = text("file name", &format!("{SOURCE_FOLDER}{file_name}"))?;
        let headers: Vec<*const c_char> = HEADERS.iter().map(|(_, text)| text.as_ptr()).collect();
        let names: Vec<*const c_char> = HEADERS.iter().map(|(name, _)| name.as_ptr()).collect();
        let count = c_int::try_from(HEADERS.len()).unwrap_or(c_int::MAX);
        let mut handle: sys::nvrtcProgram = ptr::null_mut();
        // SAFETY: all strings end in NUL and outlive the program; both arrays have `count` entries.
        let code = unsafe {
            sys::nvrtcCreateProgram(
                &mut handle,
                source.as_ptr(),
                file_name.as_ptr(),
                count,
                headers.as_ptr(),
                names.as_ptr(),
            )
        };
        check("nvrtcCreateProgram", code)?;
        Ok(Program { handle, names: Vec::new(), _source: source, _file_name: file_name })
    }

    /// Asks for the mangled name of a kernel; before [`Program::compile`].
    pub(super) fn add_name(&mut self, name: &str) -> Result<(), NvrtcError> {
        let name = text("name expression", name)?;
        // SAFETY: the program is alive and the name ends in NUL.
        let code = unsafe { sys::nvrtcAddNameExpression(self.handle, name.as_ptr()) };
        check("nvrtcAddNameExpression", code)?;
        self.names.push(name);
        Ok(())
    }

    /// Compiles; false if the source does not compile.
    pub(super) fn compile(&mut self, options: &[String]) -> Result<bool, NvrtcError> {
        let options: Vec<CString> =
            options.iter().map(|option| text("option", option)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        // SAFETY: the program is alive; the array holds `count` strings that end in NUL.
        let code = unsafe { sys::nvrtcCompileProgram(self.handle, count, pointers.as_ptr()) };
        match code {
            nvrtcResult::NVRTC_SUCCESS => Ok(true),
            // A source that crashes the compiler is as bad as one with an error in it.
            nvrtcResult::NVRTC_ERROR_COMPILATION | nvrtcResult::NVRTC_ERROR_INTERNAL_ERROR => {
                Ok(false)
            }
            code => Err(NvrtcError::Call {
                call: "nvrtcCompileProgram",
                code: format!("{code:?}"),
                log: head(&self.log().unwrap_or_default(), LOG_BYTES_MAX),
            }),
        }
    }

    /// The whole log, unless it is too long to be read.
    ///
    /// The compiler repeats a source line for each message about it, so a small source with one
    /// long line makes a log of any length. That is the source's fault and no error of ours.
    pub(super) fn log(&self) -> Result<String, NvrtcError> {
        match self.read("log", sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog) {
            Ok(bytes) => Ok(until_nul(&bytes)),
            Err(NvrtcError::TooLarge { bytes, .. }) => Ok(format!(
                "error: the compiler's log has {bytes} bytes and was not read: break long lines"
            )),
            Err(error) => Err(error),
        }
    }

    /// The PTX; present also when only the assembler failed, else empty.
    pub(super) fn ptx(&self) -> Result<String, NvrtcError> {
        let bytes = self.read("PTX", sys::nvrtcGetPTXSize, sys::nvrtcGetPTX)?;
        Ok(until_nul(&bytes))
    }

    /// The ELF image.
    pub(super) fn cubin(&self) -> Result<Vec<u8>, NvrtcError> {
        self.read("CUBIN", sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)
    }

    /// Each requested name with its mangled form.
    pub(super) fn lowered_names(&self) -> Result<Vec<(String, String)>, NvrtcError> {
        self.names.iter().map(|name| self.lowered_name(name)).collect()
    }

    fn lowered_name(&self, name: &CStr) -> Result<(String, String), NvrtcError> {
        let mut lowered: *const c_char = ptr::null();
        // SAFETY: the program is alive, compiled, and was given this name before.
        let code = unsafe { sys::nvrtcGetLoweredName(self.handle, name.as_ptr(), &mut lowered) };
        check("nvrtcGetLoweredName", code)?;
        if lowered.is_null() {
            let log = name.to_string_lossy().into_owned();
            let code = "a null name".to_owned();
            return Err(NvrtcError::Call { call: "nvrtcGetLoweredName", code, log });
        }
        // SAFETY: on success the library returns a string that lives as long as the program.
        let lowered = unsafe { CStr::from_ptr(lowered) };
        Ok((name.to_string_lossy().into_owned(), lowered.to_string_lossy().into_owned()))
    }

    fn read(
        &self,
        what: &'static str,
        size_call: SizeCall,
        read_call: ReadCall,
    ) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0_usize;
        // SAFETY: the program is alive and the pointer is valid for one write.
        check(what, unsafe { size_call(self.handle, &mut bytes) })?;
        if bytes > IMAGE_BYTES_MAX {
            return Err(NvrtcError::TooLarge { what, bytes });
        }
        let mut buffer = vec![0_u8; bytes];
        if bytes > 0 {
            // SAFETY: the buffer has as many bytes as the library just announced.
            check(what, unsafe { read_call(self.handle, buffer.as_mut_ptr().cast()) })?;
        }
        Ok(buffer)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the handle came from nvrtcCreateProgram and is destroyed once, here.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.handle) };
    }
}

fn text(what: &str, value: &str) -> Result<CString, NvrtcError> {
    CString::new(value)
        .map_err(|_| NvrtcError::BadRequest { reason: format!("the {what} holds a NUL byte") })
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
