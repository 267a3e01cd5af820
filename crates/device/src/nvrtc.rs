//! Compiles CUDA C++ to PTX and CUBIN with NVRTC, and reads what the compiler says.
//!
//! A kernel that does not compile is a value: [`Compiled`] without an output, with diagnostics.
//! An [`NvrtcError`] means that the compiler, the toolchain or the request is broken. The source is
//! foreign and may include any file that this process can read, so compile in a confined child.
//! Needs no GPU. Start at [`Nvrtc::load`] and [`Nvrtc::compile`].

mod diagnostics;
mod headers;
mod kernels;
mod library;
mod program;
mod request;
mod resources;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::{LOG_BYTES_MAX, head};
use crate::toolchain::Toolchain;
use program::Program;

pub(crate) use program::SOURCE_FOLDER;

pub use headers::PRELUDE_NAME;
pub use kernels::{KernelDeclaration, declared_kernels, kernel_declarations};

/// What a log of the compiler says of a source and its PTX, with the resources of its kernels:
/// capped, whatever the log holds.
#[must_use]
pub fn read_log(log: &str, source: &str, ptx: &str) -> (Vec<Diagnostic>, Vec<KernelResources>) {
    let log = diagnostics::tidy(log, &[]);
    (diagnostics::parse(&log, source, ptx), resources::parse(&log))
}

/// A loaded compiler.
#[derive(Debug)]
pub struct Nvrtc {
    version: (i32, i32),
    architectures: Vec<i32>,
    include_dirs: Vec<PathBuf>,
}

/// One compile.
#[derive(Clone, Copy, Debug)]
pub struct CompileRequest<'a> {
    /// The CUDA C++ source.
    pub source: &'a str,
    /// The name that diagnostics use for the source, such as `kernel.cu`; letters, digits, `._-`.
    pub file_name: &'a str,
    /// Real architecture, such as `sm_90a`.
    pub arch: &'a str,
    /// Macros with integer values, handed over as `-DNAME=VALUE`.
    pub defines: &'a [(String, i64)],
    /// Kernels whose mangled names are wanted; templates are instantiated by being named.
    pub name_expressions: &'a [String],
}

/// What one compile gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The code; none if the source does not compile.
    pub output: Option<CompiledImage>,
    /// The compiler's log without timings, paths made short, capped.
    pub log: String,
    /// Errors, then warnings and notes; capped, without repetitions.
    pub diagnostics: Vec<Diagnostic>,
    /// What each kernel uses, in the order of the log.
    pub resources: Vec<KernelResources>,
}

/// The code of a source that compiles.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledImage {
    /// PTX text, header paths made machine-independent.
    pub ptx: String,
    /// The ELF image for one architecture.
    pub cubin: Vec<u8>,
    /// Each requested name expression with its mangled name.
    pub lowered_names: Vec<(String, String)>,
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The source does not compile.
    Error,
    /// It compiles, and something is odd.
    Warning,
    /// Additional information.
    Note,
}

/// One message of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file; headers of the toolchain as `<cuda>/…`; empty if the compiler names none.
    pub file: String,
    /// The line in the file, from 1.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// The source line with the caret below it, and the context that the compiler gives.
    pub excerpt: String,
}

/// What one kernel uses, as the assembler reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelResources {
    /// Mangled name.
    pub kernel: String,
    /// Registers of one thread.
    pub registers: u32,
    /// Bytes stored to local memory for want of registers, counted in the code.
    pub spill_store_bytes: u32,
    /// Bytes loaded again from there.
    pub spill_load_bytes: u32,
    /// Stack of one thread, functions that are called included.
    pub stack_bytes: u32,
    /// Static shared memory of one block.
    pub static_shared_bytes: u32,
    /// Named barriers.
    pub barriers: u32,
}

/// Our own breakage; never a kernel that does not compile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// A library of the toolchain cannot be loaded.
    #[error(
        "cannot load {path}: {reason}; run `warpwright toolchain install`, and see that \
         libstdc++ is installed"
    )]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's words.
        reason: String,
    },
    /// Another NVRTC is in the process already.
    #[error(
        "{path} is not the NVRTC that this process uses; load one toolchain per \
         process, and unset LD_LIBRARY_PATH"
    )]
    OtherLibrary {
        /// The library that was wanted.
        path: PathBuf,
    },
    /// The compiler does not know the architecture.
    #[error("architecture {arch} is not known to NVRTC {version}, which knows sm_{known:?}")]
    UnknownArchitecture {
        /// The one asked for.
        arch: String,
        /// The compiler's version.
        version: String,
        /// Those it knows.
        known: Vec<i32>,
    },
    /// The request cannot be handed to the compiler.
    #[error("the compile request is not valid: {reason}")]
    BadRequest {
        /// What is wrong.
        reason: String,
    },
    /// A call of the library failed.
    #[error("{call} failed with {code}: {log}; see that the toolchain is complete")]
    Call {
        /// The function.
        call: &'static str,
        /// NVRTC's name of the failure.
        code: String,
        /// What the compiler said, if anything.
        log: String,
    },
    /// The compiler returned more than is accepted.
    #[error("the {what} has {bytes} bytes, more than is accepted")]
    TooLarge {
        /// PTX or CUBIN.
        what: &'static str,
        /// Its size.
        bytes: usize,
    },
}

impl Nvrtc {
    /// Loads the compiler of a toolchain into this process, where it stays until the end.
    ///
    /// # Errors
    ///
    /// A library that is missing or does not load, or another NVRTC that is loaded already.
    pub fn load(toolchain: &Toolchain) -> Result<Nvrtc, NvrtcError> {
        library::preload(toolchain)?;
        let version = library::version()?;
        let architectures = library::architectures()?;
        Ok(Nvrtc { version, architectures, include_dirs: toolchain.include_dirs.clone() })
    }

    /// Compiles with the header folders under other names, for a process in which files have these.
    #[must_use]
    pub fn with_header_folders(self, names: impl IntoIterator<Item = PathBuf>) -> Nvrtc {
        Nvrtc { include_dirs: names.into_iter().collect(), ..self }
    }

    /// Major and minor version, as the library says.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Architectures that it compiles for, such as 90 for `sm_90`.
    pub fn architectures(&self) -> &[i32] {
        &self.architectures
    }

    /// Compiles one source. Takes 0.03 to 2 s; to bound it, kill the process.
    ///
    /// # Errors
    ///
    /// A request that cannot be handed over, or a compiler that breaks; a source that does not
    /// compile is an `Ok` without output.
    pub fn compile(&self, request: &CompileRequest<'_>) -> Result<Compiled, NvrtcError> {
        request::check(request, self)?;
        let options = request::options(request, &self.include_dirs);
        let mut program = Program::new(request.source, request.file_name)?;
        for name in request.name_expressions {
            program.add_name(name)?;
        }
        let built = program.compile(&options)?;
        let log = diagnostics::tidy(&program.log()?, &self.include_dirs);
        let ptx = self.shorten_file_lines(&program.ptx()?);
        let resources = resources::parse(&log);
        let output = match built {
            true => Some(CompiledImage {
                ptx: ptx.clone(),
                cubin: program.cubin()?,
                lowered_names: program.lowered_names()?,
            }),
            false => None,
        };
        let mut diagnostics = diagnostics::parse(&log, request.source, &ptx);
        if !built {
            diagnostics::explain_silence(&mut diagnostics, &resources);
        }
        Ok(Compiled { output, log: head(&log, LOG_BYTES_MAX), diagnostics, resources })
    }

    /// PTX names header files by path; the same kernel must give the same PTX everywhere.
    fn shorten_file_lines(&self, ptx: &str) -> String {
        if self.include_dirs.is_empty() {
            return ptx.to_owned();
        }
        ptx.split_inclusive('\n')
            .map(|line| match line.trim_start().starts_with(".file") {
                true => diagnostics::shorten_paths(line, &self.include_dirs),
                false => line.to_owned(),
            })
            .collect()
    }
}
