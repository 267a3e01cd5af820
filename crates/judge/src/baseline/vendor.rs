//! The vendor's library as a baseline: the runner performs the same window on it.

use pipeline::baseline::gemm::GemmCall;
use pipeline::hardware::HardwareSheet;
use pipeline::launch::ResolvedPlan;
use pipeline::task::spec::Output;
use sandbox::wire::{
    InputTensor, OutputTensor, RunRequest, Slice, WindowRequest, WindowResult, WindowSubject,
};
use sandbox::{CancelFlag, ChildKind};

use super::timed::{BaselineCall, BaselineTimes, Ground};
use crate::children::ChildEnd;
use crate::limits::{CANDIDATE_TRIES_MAX, CONTENTS, REFERENCE_LIMITS};
use crate::on_card::CardRun;
use crate::reference::Whose;
use crate::{Judge, JudgeError};

/// No plan and no module.
const NOTHING: Slice = Slice { bulk: 0, offset: 0, bytes: 0 };

impl Judge {
    /// Times a product of the vendor's library. The inner error says why there is no time.
    ///
    /// # Errors
    /// No card, breakage, or cancelled.
    pub fn time_vendor(
        &self,
        call: &BaselineCall<'_>,
        cancel: &CancelFlag,
    ) -> Result<Result<BaselineTimes, String>, JudgeError> {
        match GemmCall::of_task(&call.task.spec, &call.case.dims, call.baseline.math) {
            Ok(gemm) => self.time_native(call, WindowSubject::Gemm(gemm), cancel),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Times the driver's copy of the task's first input into its first output, which are of one
    /// size: what the same window gives for the same work, whoever performs it.
    ///
    /// # Errors
    /// As [`Judge::time_vendor`].
    pub fn time_copy(
        &self,
        call: &BaselineCall<'_>,
        cancel: &CancelFlag,
    ) -> Result<Result<BaselineTimes, String>, JudgeError> {
        let spec = &call.task.spec;
        let (Some(from), Some(to)) = (spec.inputs.first(), spec.outputs.first()) else {
            return Ok(Err("the task has no input or no output".to_owned()));
        };
        let subject = WindowSubject::Copy { from: from.name.clone(), to: to.name.clone() };
        self.time_native(call, subject, cancel)
    }

    /// Times what the runner performs without a module.
    fn time_native(
        &self,
        call: &BaselineCall<'_>,
        subject: WindowSubject,
        cancel: &CancelFlag,
    ) -> Result<Result<BaselineTimes, String>, JudgeError> {
        if self.config.gpus.is_none() {
            return Err(JudgeError::NotAvailable("no GPU".to_owned()));
        }
        let ground = self.ground(call.task, call.case, call.master, cancel)?;
        match self.native_window(&ground, subject, cancel)? {
            (Ok(window), _) => Ok(ground.times_of(window)),
            (Err(why), _) => Err(JudgeError::Child { child: "baseline", why }),
        }
    }

    /// One window that the runner performs without a module, and the card; the inner error says why
    /// there is none.
    pub(crate) fn native_window(
        &self,
        ground: &Ground<'_>,
        subject: WindowSubject,
        cancel: &CancelFlag,
    ) -> Result<(Result<WindowResult, String>, Option<HardwareSheet>), JudgeError> {
        let request = RunRequest {
            device: self.device_choice(None, Whose::Reference),
            ptx: NOTHING,
            cubin: NOTHING,
            lowered_names: Vec::new(),
            entries: Vec::new(),
            runs: Vec::new(),
            sample: None,
            window: Some(ground.native_request(subject)),
            tiles: None,
            detailed: false,
        };
        let run = CardRun {
            kind: ChildKind::Reference,
            whose: Whose::Reference,
            bulk: &ground.bulk(),
            limits: &REFERENCE_LIMITS,
            killed_tries_max: CANDIDATE_TRIES_MAX,
        };
        let ran = self.run_on_card(&run, request, cancel)?;
        let window = match ran.end {
            ChildEnd::Reported(report) => {
                report.window.ok_or_else(|| "it told nothing of the window".to_owned())
            }
            ChildEnd::TimedOut(_) => Err("it was not done in time".to_owned()),
            ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => Err(why),
        };
        Ok((window, ran.sheet))
    }
}

impl Ground<'_> {
    fn native_request(&self, subject: WindowSubject) -> WindowRequest {
        let spec = &self.task.spec;
        let inputs = |content| {
            let tensor = |name: &String| InputTensor {
                name: name.clone(),
                data: self.input_slice(content, name),
                writable: false,
                weight: false,
            };
            spec.inputs.iter().map(|input| tensor(&input.name)).collect()
        };
        let output = |output: &Output| OutputTensor {
            name: output.name.clone(),
            dtype: output.dtype,
            data: self.output_slice(&output.name),
            initial: None,
        };
        WindowRequest {
            subject,
            plan: ResolvedPlan {
                workspaces: Vec::new(),
                tensor_maps: Vec::new(),
                prepare: Vec::new(),
                steps: Vec::new(),
            },
            has_variables: false,
            contents: (0..CONTENTS).map(inputs).collect(),
            outputs: spec.outputs.iter().map(output).collect(),
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            window: self.window.clone(),
            slack_bytes: 0,
            harness: self.harness_slice(),
        }
    }
}
