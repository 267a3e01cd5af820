//! The build stage: compile in a child, then the static gate.

use std::collections::BTreeMap;

use pipeline::build::{BuildFacts, Diagnostic, Severity};
use pipeline::candidate::{Candidate, build_id};
use pipeline::confinement::Confinement;
use pipeline::defence::Defence;
use pipeline::digest::Digest;
use pipeline::gate::gate;
use pipeline::task::Task;
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{BuildReport, BuildRequest, BuildSource, Slice};
use sandbox::{CancelFlag, ChildKind, Memfd, TimeLimit};

use crate::children::{ABORT, ChildEnd, broken_here, killed_by};
use crate::gpu::sealed;
use crate::limits::{BUILD_LIMITS, BUSY_TRIES_MAX, IMAGE_BYTES_MAX};
use crate::{Judge, JudgeError};

/// A compiled candidate, or the verdict that says why it may not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Build {
    pub id: Digest,
    /// `None` when it did not compile.
    pub facts: Option<BuildFacts>,
    pub diagnostics: Vec<Diagnostic>,
    pub log: String,
    pub ptx: Vec<u8>,
    pub cubin: Vec<u8>,
    /// `None` when it may run.
    pub verdict: Option<Verdict>,
    /// What held the compiler; `None` where it was compiled elsewhere or before this was kept.
    pub held: Option<Confinement>,
}

impl Judge {
    /// Compiles one variant of a candidate and applies the static gate.
    ///
    /// # Errors
    /// A broken toolchain, child or machine; never the source.
    pub fn build(
        &self,
        task: &Task,
        candidate: &Candidate,
        tunables: &BTreeMap<String, i64>,
        cancel: &CancelFlag,
    ) -> Result<Build, JudgeError> {
        let names = candidate.plan.kernel_names();
        let mut build = self.compile(&candidate.source, tunables, &names, cancel)?;
        if let Some(facts) = &build.facts {
            let rejections = gate(facts, &candidate.plan, task);
            let gated = self.config.policy.has(Defence::E);
            let mut counts = rejections.iter().filter(|it| gated || it.reason != Reason::Static);
            build.verdict = counts.next().map(|first| first.verdict());
        }
        Ok(build)
    }

    /// Compiles a source, without any gate.
    ///
    /// # Errors
    /// As [`Judge::build`].
    pub fn compile(
        &self,
        source: &str,
        tunables: &BTreeMap<String, i64>,
        kernel_names: &[String],
        cancel: &CancelFlag,
    ) -> Result<Build, JudgeError> {
        let arch = &self.config.device.arch;
        let id = build_id(source, tunables, kernel_names, arch, &self.config.toolchain_id);
        let source_memfd = sealed("source", source.as_bytes())?;
        let slice = Slice { bulk: 0, offset: 0, bytes: source.len() as u64 };
        let source = BuildSource::Given(slice);
        let build =
            self.compile_source(id, source, &source_memfd, tunables, kernel_names, cancel)?;
        Ok(Build { held: self.confinement_of(ChildKind::Build), ..build })
    }

    /// Compiles this program's own kernels.
    pub(crate) fn compile_harness(&self, cancel: &CancelFlag) -> Result<Build, JudgeError> {
        let nothing = sealed("source", b" ")?;
        let id = Digest::of_parts("harness", &[self.config.device.arch.as_bytes()]);
        let none = BTreeMap::new();
        self.compile_source(id, BuildSource::Harness, &nothing, &none, &[], cancel)
    }

    fn compile_source(
        &self,
        id: Digest,
        source: BuildSource,
        source_memfd: &Memfd,
        tunables: &BTreeMap<String, i64>,
        kernel_names: &[String],
        cancel: &CancelFlag,
    ) -> Result<Build, JudgeError> {
        let ptx = Memfd::create("ptx", IMAGE_BYTES_MAX)?;
        let cubin = Memfd::create("cubin", IMAGE_BYTES_MAX)?;
        let whole =
            |bulk: u32, memfd: &Memfd| Slice { bulk, offset: 0, bytes: memfd.bytes() as u64 };
        let request = BuildRequest {
            toolchain: self.config.toolchain.clone(),
            arch: self.config.device.arch.clone(),
            defines: tunables.clone(),
            kernel_names: kernel_names.to_vec(),
            source,
            ptx_room: whole(1, &ptx),
            cubin_room: whole(2, &cubin),
        };
        let bulk = [source_memfd, &ptx, &cubin];
        match self.call_compiler(&request, &bulk, cancel)? {
            ChildEnd::Reported(report) => compiled(id, report, &ptx, &cubin),
            ChildEnd::TimedOut(TimeLimit::Wall) => Ok(failed(id, broken_here(&busy()))),
            ChildEnd::TimedOut(TimeLimit::Processor) => {
                let seconds = BUILD_LIMITS.cpu_s;
                let detail =
                    format!("the compiler did not finish within {seconds} s of processor time");
                Ok(failed(id, Verdict::build_timeout(detail)))
            }
            // Its memory has a limit, and NVRTC ends itself where that does not do.
            ChildEnd::Killed(why) if why == killed_by(ABORT) => {
                let gib = BUILD_LIMITS.data_bytes >> 30;
                let detail = format!("the compiler ended itself within {gib} GiB of memory: {why}");
                Ok(failed(id, Verdict::failed(Reason::Compile, detail)))
            }
            ChildEnd::Killed(why) | ChildEnd::Broken(why) => Ok(failed(id, broken_here(&why))),
            ChildEnd::Crashed(why) => {
                let detail = format!("the compiler crashed on this source: {why}");
                Ok(failed(id, Verdict::failed(Reason::Compile, detail)))
            }
        }
    }

    /// The compiler only computes: one that reached its deadline did not get the processors.
    fn call_compiler(
        &self,
        request: &BuildRequest,
        bulk: &[&Memfd],
        cancel: &CancelFlag,
    ) -> Result<ChildEnd<BuildReport>, JudgeError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let end = self.call(ChildKind::Build, request, bulk, &BUILD_LIMITS, None, cancel)?;
            match end {
                ChildEnd::TimedOut(TimeLimit::Wall) if tries < BUSY_TRIES_MAX => {}
                ChildEnd::Killed(why) if tries < BUSY_TRIES_MAX && why != killed_by(ABORT) => {}
                end => return Ok(end),
            }
        }
    }
}

fn busy() -> String {
    format!(
        "this machine was busy: in {} s the compiler did not get {} s of processor time, \
         {BUSY_TRIES_MAX} times in a row",
        BUILD_LIMITS.deadline.as_secs(),
        BUILD_LIMITS.cpu_s
    )
}

fn compiled(
    id: Digest,
    report: BuildReport,
    ptx: &Memfd,
    cubin: &Memfd,
) -> Result<Build, JudgeError> {
    let verdict = compile_verdict(&report);
    let bytes = |memfd: &Memfd, bytes: u64| -> Result<Vec<u8>, JudgeError> {
        memfd.seal_write()?;
        let map = memfd.map()?;
        let content = usize::try_from(bytes).ok().and_then(|bytes| map.get(..bytes));
        let why = || format!("it reported {bytes} bytes of output in {}", map.len());
        let content = content.ok_or_else(|| JudgeError::Child { child: "build", why: why() })?;
        Ok(content.to_vec())
    };
    let (ptx, cubin) = match &report.facts {
        Some(_) => (bytes(ptx, report.ptx_bytes)?, bytes(cubin, report.cubin_bytes)?),
        None => (Vec::new(), Vec::new()),
    };
    Ok(Build {
        id,
        facts: report.facts,
        diagnostics: report.diagnostics,
        log: report.log,
        ptx,
        cubin,
        verdict,
        held: None,
    })
}

fn compile_verdict(report: &BuildReport) -> Option<Verdict> {
    if report.facts.is_some() {
        return None;
    }
    if let Some(why) = &report.unreadable {
        let detail = format!("it compiled, but this machine cannot read its PTX: {why}");
        return Some(Verdict::failed(Reason::Unsupported, detail));
    }
    if report.too_large {
        let detail = format!(
            "the compiled module is too large: at most {IMAGE_BYTES_MAX} bytes, with short names"
        );
        return Some(Verdict::failed(Reason::Compile, detail));
    }
    let mut errors = report.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    let detail = errors.next().map_or_else(
        || "the compiler rejected the source without a message".to_owned(),
        |first| match first.line {
            Some(line) => format!("{}:{line}: {}", first.file, first.message),
            None => first.message.clone(),
        },
    );
    // A plan that names a kernel the source lacks is mended in the plan.
    let reason = if detail.starts_with("no kernel `") { Reason::Plan } else { Reason::Compile };
    Some(Verdict::failed(reason, detail))
}

fn failed(id: Digest, verdict: Verdict) -> Build {
    Build {
        id,
        facts: None,
        diagnostics: Vec::new(),
        log: String::new(),
        ptx: Vec::new(),
        cubin: Vec::new(),
        verdict: Some(verdict),
        held: None,
    }
}
