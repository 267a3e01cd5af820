//! One window of a baseline at one shape: what it needs, its request, and its times.
//!
//! [`Ground`] is what every such window stands on, whoever performs it: inputs of two contents,
//! room for outputs, the schedule. Start at [`Judge::time_baseline`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pipeline::baseline::{BaselineId, BaselineKind, ENVIRONMENT, Flags, torch_flags, void_reason};
use pipeline::dtype::Dtype;
use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::report::PartCost;
use pipeline::task::Task;
use pipeline::task::baselines::BaselineSource;
use pipeline::task::spec::{Case, extents};
use pipeline::timing::{Spread, Window, summary};
use sandbox::wire::{BaselineReport, BaselineRequest, BaselineTensor, Slice, WindowResult};
use sandbox::{CancelFlag, Memfd};

use super::PythonVersions;
use crate::cases::{CaseData, Tensors, output_sizes, uncompared};
use crate::children::ChildEnd;
use crate::decide::run_failure;
use crate::gpu::sealed;
use crate::headline::disturbance;
use crate::limits::{CONTENTS, SLOTS_BYTES_MAX, SLOTS_MAX, TENSOR_ALIGN};
use crate::on_card::left_in_trouble;
use crate::reference::EMPTY;
use crate::{Judge, JudgeError};

/// A window of a baseline.
#[derive(Clone, Copy)]
pub struct BaselineCall<'a> {
    pub task: &'a Task,
    pub case: &'a Case,
    pub baseline: &'a BaselineId,
    /// Draws the inputs, and which sample runs where.
    pub master: &'a MasterSeed,
    pub deadline: Duration,
}

/// What a window of a baseline came to. Nobody has compared its outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineTimes {
    pub cold: Spread,
    pub warm: Option<Spread>,
    /// As they were read after the window; empty where no framework performed it.
    pub flags: Flags,
    pub versions: PythonVersions,
    pub cost: Vec<PartCost>,
}

/// What a window stands on.
pub(crate) struct Ground<'a> {
    pub(crate) task: &'a Task,
    pub(crate) case: &'a Case,
    pub(crate) contents: [Arc<CaseData>; CONTENTS],
    /// Room for slots, one after the other; places are those in the first one.
    pub(crate) outputs: Arc<Tensors>,
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u64,
    pub(crate) window: Window,
    pub(crate) harness: Arc<Memfd>,
}

impl Judge {
    /// Times a baseline that PyTorch performs. The inner error says why its window is void.
    ///
    /// # Errors
    /// No PyTorch, no card, breakage, or cancelled.
    pub fn time_baseline(
        &self,
        call: &BaselineCall<'_>,
        cancel: &CancelFlag,
    ) -> Result<Result<BaselineTimes, String>, JudgeError> {
        let ground = self.ground(call.task, call.case, call.master, cancel)?;
        let module = sealed("module", call.task.module.as_deref().unwrap_or_default().as_bytes())?;
        let request = match ground.request(call.baseline, call.task.module.is_some()) {
            Ok(request) => request,
            Err(why) => return Ok(Err(why)),
        };
        let wanted = request.flags.clone();
        let bulk = ground.bulk().into_iter().chain([&module]).collect::<Vec<_>>();
        let lease = self.lease(cancel)?;
        let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
        let end = self.baseline_window(request, &bulk, &lease, call.deadline, cancel)?;
        let in_trouble = match &end {
            ChildEnd::Reported(report) => left_in_trouble(&report.window.end),
            ChildEnd::TimedOut(_) | ChildEnd::Crashed(_) => true,
            ChildEnd::Broken(_) | ChildEnd::Killed(_) => true,
        };
        let healthy = !in_trouble || self.check_health(&lease, cancel)?;
        drop(lease);
        Ok(match end {
            ChildEnd::Reported(report) => ground.times(&wanted, report),
            ChildEnd::TimedOut(_) => Err(format!("it was not done after {:?}", call.deadline)),
            ChildEnd::Crashed(why) if healthy => Err(format!("its process died: {why}")),
            ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => {
                return Err(JudgeError::Child { child: "baseline", why });
            }
        })
    }

    /// Draws and lays out what a window stands on.
    pub(crate) fn ground<'a>(
        &self,
        task: &'a Task,
        case: &'a Case,
        master: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Ground<'a>, JudgeError> {
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
        let aligned = sizes.iter().map(|(_, bytes)| bytes.next_multiple_of(TENSOR_ALIGN));
        let slot_bytes = aligned.sum::<u64>().max(1);
        let slots = (SLOTS_BYTES_MAX / slot_bytes).min(u64::from(SLOTS_MAX)) as u32;
        let more = ("(more slots)".to_owned(), (u64::from(slots).saturating_sub(1)) * slot_bytes);
        let outputs = Tensors::room("window", sizes.into_iter().chain([more]))?;
        let [first, second] = Distribution::search_pair(&task.spec.family);
        let drawn = |distribution| uncompared(task, case, distribution, master);
        let contents = [drawn(first)?, drawn(second)?];
        let key = master.derive("baseline window").0;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| key[at + i]));
        let set_bytes = contents[0].inputs.memfd.bytes() as u64 + slot_bytes;
        let l2_bytes = self.config.device.l2_bytes.unsigned_abs();
        Ok(Ground {
            task,
            case,
            contents,
            outputs: Arc::new(outputs),
            slots,
            slot_bytes,
            window: Window::search(set_bytes, l2_bytes, [word(0), word(8)]),
            harness: self.harness(cancel)?,
        })
    }
}

impl Ground<'_> {
    /// Harness, inputs of each content, outputs.
    pub(crate) fn bulk(&self) -> Vec<&Memfd> {
        let contents = self.contents.iter().map(|content| &content.inputs.memfd);
        [&*self.harness].into_iter().chain(contents).chain([&self.outputs.memfd]).collect()
    }

    pub(crate) fn harness_slice(&self) -> Slice {
        Slice { bulk: 0, offset: 0, bytes: self.harness.bytes() as u64 }
    }

    /// Place of an input of a content.
    pub(crate) fn input_slice(&self, content: usize, name: &str) -> Slice {
        self.contents[content].inputs.slice(1 + content as u32, name).unwrap_or(EMPTY)
    }

    /// Place of an output in the first slot.
    pub(crate) fn output_slice(&self, name: &str) -> Slice {
        self.outputs.slice(1 + CONTENTS as u32, name).unwrap_or(EMPTY)
    }

    /// The request of a baseline of Python; the module's text is the memory behind those of
    /// [`Ground::bulk`]. The card and the folder for compilers are still missing.
    ///
    /// # Errors
    /// Why Python does not perform this baseline.
    pub(crate) fn request(
        &self,
        baseline: &BaselineId,
        has_module: bool,
    ) -> Result<BaselineRequest, String> {
        let spec = &self.task.spec;
        let function = function(self.task, baseline, has_module)?;
        let tensor = |name: &str, dtype: Dtype, shape: &[String]| {
            let extents = extents(shape, &self.case.dims).map_err(|error| error.to_string())?;
            Ok::<_, String>(BaselineTensor { name: name.to_owned(), dtype, extents })
        };
        let inputs = spec.inputs.iter().map(|it| tensor(&it.name, it.dtype, &it.shape));
        let outputs = spec.outputs.iter().map(|it| tensor(&it.name, it.dtype, &it.shape));
        let content = |content| {
            let inputs = spec.inputs.iter();
            inputs.map(|input| self.input_slice(content, &input.name)).collect()
        };
        let module = self.task.module.as_ref().map(|text| Slice {
            bulk: 2 + CONTENTS as u32,
            offset: 0,
            bytes: text.len() as u64,
        });
        Ok(BaselineRequest {
            baseline: baseline.clone(),
            function,
            module,
            inputs: inputs.collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<_, _>>()?,
            scalars: spec.scalars.iter().map(|it| (it.name.clone(), it.value)).collect(),
            dims: self.case.dims.clone(),
            contents: (0..CONTENTS).map(content).collect(),
            rooms: spec.outputs.iter().map(|it| self.output_slice(&it.name)).collect(),
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            window: self.window.clone(),
            harness: self.harness_slice(),
            gpu_uuid: String::new(),
            cache_folder: String::new(),
            flags: torch_flags(baseline.math),
            environment: ENVIRONMENT.map(str::to_owned).to_vec(),
        })
    }

    pub(crate) fn times(
        &self,
        wanted: &Flags,
        report: BaselineReport,
    ) -> Result<BaselineTimes, String> {
        if let Some(why) = void_reason(wanted, &report.flags_before, &report.flags_after) {
            return Err(why);
        }
        let mut times = self.times_of(report.window)?;
        (times.flags, times.versions) = (report.flags_after, report.versions);
        Ok(times)
    }

    /// The times of a window that completed undisturbed.
    pub(crate) fn times_of(&self, window: WindowResult) -> Result<BaselineTimes, String> {
        if let Some((_, why)) = run_failure(window.end) {
            return Err(why);
        }
        if let Some(why) = disturbance([window.before.as_ref(), window.after.as_ref()]) {
            return Err(why);
        }
        let pair_ns = window.event_pair_ns as u64;
        let cold = summary(&window.cold, self.window.samples_min, pair_ns);
        Ok(BaselineTimes {
            cold: cold.map_err(|why| why.to_string())?,
            warm: summary(&window.warm, 1, pair_ns).ok(),
            flags: Flags::new(),
            versions: BTreeMap::new(),
            cost: window.cost,
        })
    }
}

/// `module:function` of a baseline that the task names; `None` for its module.
fn function(
    task: &Task,
    baseline: &BaselineId,
    has_module: bool,
) -> Result<Option<String>, String> {
    let no_module = || format!("the task `{}` has no reference.py", task.spec.name);
    match &baseline.kind {
        BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => {
            has_module.then_some(None).ok_or_else(no_module)
        }
        BaselineKind::Custom(name) => {
            let tables = &task.spec.baselines;
            let table = tables.iter().find(|table| table.name == *name);
            match table.map(|table| table.source()).transpose()? {
                Some(BaselineSource::Python { module: "reference", .. }) if !has_module => {
                    Err(no_module())
                }
                Some(BaselineSource::Python { module, function }) => {
                    Ok(Some(format!("{module}:{function}")))
                }
                Some(BaselineSource::Kernel(_) | BaselineSource::Gemm) | None => {
                    Err(format!("the task names no Python baseline `{name}`"))
                }
            }
        }
        BaselineKind::Vendor | BaselineKind::Naive => Err(format!("{baseline} is not Python")),
    }
}
