//! The build child: source in, PTX, cubin and facts out.

use device::nvrtc::{
    CompileRequest, Compiled, CompiledImage, KernelResources, Nvrtc, NvrtcError, Severity,
};
use device::toolchain::Toolchain;
use pipeline::build::{
    BuildFacts, Diagnostic, EntryFacts, ParamFacts, ParamKind, Severity as Level, SpecialRegister,
};
use pipeline::digest::Digest;
use pipeline::limits::{DIAGNOSTICS_MAX, MESSAGE_BYTES_MAX, capped};
use pipeline::visible::visible;
use ptx_sim::facts::{self, ModuleFacts};
use sandbox::inside::Inside;
use sandbox::wire::{BuildReport, BuildRequest, BuildSource};

use crate::RunnerError;
use crate::bulk::{Maps, Rooms};
use crate::limits::{FACTS_BYTES_MAX, FILE_NAME_BYTES_MAX, LOG_BYTES_MAX};

/// Name under which the candidate's source appears in diagnostics.
const SOURCE_NAME: &str = "kernel.cu";

pub(crate) fn serve(inside: &mut Inside) -> Result<BuildReport, RunnerError> {
    let request: BuildRequest = inside.read_request()?;
    let toolchain: Toolchain = serde_json::from_value(request.toolchain.clone())
        .map_err(|error| RunnerError::Request(format!("toolchain: {error}")))?;
    let nvrtc = load(inside, &toolchain).map_err(RunnerError::NotAvailable)?;
    let given = match request.source {
        BuildSource::Given(slice) => Some(slice),
        BuildSource::Harness => None,
    };
    let maps = Maps::read(inside, given.into_iter())?;
    let source = match given {
        None => device::cuda::HARNESS_SOURCE,
        Some(slice) => std::str::from_utf8(maps.get(slice)?)
            .map_err(|error| RunnerError::Request(format!("source: {error}")))?,
    };
    let defines: Vec<(String, i64)> = request.defines.clone().into_iter().collect();
    let compiled = nvrtc
        .compile(&CompileRequest {
            source,
            file_name: SOURCE_NAME,
            arch: &request.arch,
            defines: &defines,
            name_expressions: &request.kernel_names,
        })
        .map_err(|error| match error {
            NvrtcError::UnknownArchitecture { .. } => RunnerError::NotAvailable(error.to_string()),
            other => RunnerError::Request(visible(&other.to_string())),
        })?;
    report(inside, &request, compiled)
}

/// The compiler, and from here on no file but its headers: a source may name any.
fn load(inside: &Inside, toolchain: &Toolchain) -> Result<Nvrtc, String> {
    let nvrtc = Nvrtc::load(toolchain).map_err(|error| error.to_string())?;
    let headers = toolchain.named_include_dirs();
    let renamed = inside.leave_folders(&headers).map_err(|error| error.to_string())?;
    let names = headers.into_iter().map(|(_, name)| name);
    Ok(if renamed { nvrtc.with_header_folders(names) } else { nvrtc })
}

fn report(
    inside: &Inside,
    request: &BuildRequest,
    compiled: Compiled,
) -> Result<BuildReport, RunnerError> {
    let mut report = BuildReport {
        facts: None,
        diagnostics: compiled.diagnostics.iter().take(DIAGNOSTICS_MAX).map(diagnostic).collect(),
        log: shown(&compiled.log, LOG_BYTES_MAX),
        ptx_bytes: 0,
        cubin_bytes: 0,
        too_large: false,
        unreadable: None,
    };
    let Some(image) = compiled.output else { return Ok(report) };
    report.ptx_bytes = image.ptx.len() as u64;
    report.cubin_bytes = image.cubin.len() as u64;
    report.too_large =
        report.ptx_bytes > request.ptx_room.bytes || report.cubin_bytes > request.cubin_room.bytes;
    if !report.too_large {
        let mut rooms = Rooms::default();
        rooms.write(inside, request.ptx_room, image.ptx.as_bytes())?;
        rooms.write(inside, request.cubin_room, &image.cubin)?;
        match build_facts(&image, &compiled.resources) {
            Ok(facts) => report.facts = Some(facts),
            Err(error) => report.unreadable = Some(capped(&error.to_string(), MESSAGE_BYTES_MAX)),
        }
    }
    let facts_bytes = serde_json::to_vec(&report.facts).map_or(usize::MAX, |json| json.len());
    if facts_bytes > FACTS_BYTES_MAX {
        report.facts = None;
        report.too_large = true;
    }
    Ok(report)
}

/// What the compiler quotes is a stranger's: cut after what hides in it is written out.
fn shown(text: &str, bytes_max: usize) -> String {
    capped(&visible(text), bytes_max)
}

fn diagnostic(found: &device::nvrtc::Diagnostic) -> Diagnostic {
    Diagnostic {
        severity: match found.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Note => Level::Note,
        },
        file: shown(&found.file, FILE_NAME_BYTES_MAX),
        line: found.line,
        message: shown(&found.message, MESSAGE_BYTES_MAX),
        excerpt: shown(&found.excerpt, MESSAGE_BYTES_MAX),
    }
}

fn build_facts(
    image: &CompiledImage,
    resources: &[KernelResources],
) -> Result<BuildFacts, ptx_sim::syntax::ParseError> {
    let module = ptx_sim::syntax::parse(&image.ptx)?;
    let found = ModuleFacts::of(&module);
    let registers = found.special_registers.iter();
    Ok(BuildFacts {
        entries: found.entries.iter().map(|entry| entry_facts(entry, resources)).collect(),
        lowered_names: image.lowered_names.clone(),
        externs: found.extern_functions.clone(),
        static_bytes: found.global_static_bytes.saturating_add(found.const_static_bytes),
        special_registers: registers
            .map(|(name, origin)| SpecialRegister { name: name.clone(), origin: origin.clone() })
            .collect(),
        mma_types: found.mma_types.into_iter().collect(),
        cache_hints: found.cache_hints.into_iter().collect(),
        ptx_hash: Digest::of_bytes(facts::normalised_text(&image.ptx).as_bytes()).to_string(),
        cubin_hash: Digest::of_bytes(&image.cubin).to_string(),
    })
}

fn entry_facts(entry: &facts::EntryFacts, resources: &[KernelResources]) -> EntryFacts {
    let found = resources.iter().find(|found| found.kernel == entry.name);
    let threads = |extents: [u32; 3]| extents.into_iter().fold(1, u32::saturating_mul);
    EntryFacts {
        name: entry.name.clone(),
        params: entry.params.iter().map(param_facts).collect(),
        registers: found.map_or(0, |found| found.registers),
        spill_bytes: found.map_or(0, |found| found.spill_store_bytes + found.spill_load_bytes),
        static_shared_bytes: found
            .map_or(u32::try_from(entry.static_shared_bytes).unwrap_or(u32::MAX), |found| {
                found.static_shared_bytes
            }),
        max_threads: entry.maxntid.or(entry.reqntid).map(threads),
    }
}

fn param_facts(param: &facts::ParamFacts) -> ParamFacts {
    use facts::ParamKind as Ptx;
    let kind = match param.kind {
        Ptx::U8 | Ptx::S8 | Ptx::B8 | Ptx::U16 | Ptx::S16 | Ptx::B16 => ParamKind::Integer,
        Ptx::U32 | Ptx::S32 | Ptx::B32 | Ptx::U64 | Ptx::S64 | Ptx::B64 => ParamKind::Integer,
        Ptx::F32 | Ptx::F64 => ParamKind::Float,
        Ptx::Bytes(_) => ParamKind::Bytes { align: param.align },
    };
    ParamFacts { width: param.bytes, kind }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES_MAX, diagnostic};

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let log =
            "kernel.cu(1): error: \u{1b}[2J\u{7}\ta\u{202e}b\u{feff}ä\u{e0041}\r\n  x\u{200b}\r\n";
        let (found, _) = device::nvrtc::read_log(log, "x", "");
        let shown = diagnostic(&found[0]);
        let message = r"\u{1b}[2J\u{7}".to_owned() + "\t" + r"a\u{202e}b\u{feff}ä\u{e0041}";
        assert_eq!((shown.message.as_str(), shown.excerpt.as_str()), (&*message, r"  x\u{200b}"));
        let trailing = "kernel.cu(1): error: x\r";
        let (found, _) = device::nvrtc::read_log(trailing, "x", "");
        assert_eq!(diagnostic(&found[0]).message, r"x\u{d}");
        // What grows is cut last.
        let long = format!("kernel.cu(1): error: {}", "\u{1b}".repeat(900));
        let (found, _) = device::nvrtc::read_log(&long, "x", "");
        assert!(diagnostic(&found[0]).message.len() < MESSAGE_BYTES_MAX + 40);
    }
}
