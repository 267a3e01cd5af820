//! Makes the headline ready to be timed: its shape, plan, contents and room.

use std::sync::Arc;

use pipeline::inputs::MasterSeed;
use pipeline::task::spec::Case;
use sandbox::CancelFlag;

use super::kind::WindowKind;
use super::room::Room;
use super::timed::{Contents, TimedHeadline};
use super::{Headline, careless};
use crate::cases::{Tensors, output_sizes, uncompared};
use crate::evaluate::Evaluation;
use crate::memory::FittedCase;
use crate::{Judge, JudgeError};

impl Judge {
    pub(crate) fn timed_case<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        case: &'a Case,
        kind: WindowKind,
        cancel: &CancelFlag,
    ) -> Result<Headline<'a>, JudgeError> {
        let (task, spec) = (evaluation.task, &evaluation.task.spec);
        let broken = |why: String| JudgeError::Reference { task: spec.name.clone(), why };
        let FittedCase { case, fitted } = match self.fitted_case(task, case, cancel)? {
            Ok(found) => found,
            Err(why) => return Ok(Headline::Untimed(why)),
        };
        let plan = match self.resolve(evaluation, &case.dims) {
            Ok(plan) => plan,
            Err(error) => return Ok(Headline::Untimed(error.to_string())),
        };
        let sizes = output_sizes(spec, &case.dims).map_err(broken)?;
        let master = evaluation.seed.master(&case.name, evaluation.index);
        let key = master.derive(&format!("window/{}/{}", evaluation.index, kind.number())).0;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| key[at + i]));
        let room = match self.window_room(spec, &fitted, &plan, (kind, [word(0), word(8)])) {
            Ok(room) => room,
            Err(why) => return Ok(Headline::Untimed(why)),
        };
        let Room { window, slots, slot_bytes, fitted } = room;
        let whole = !fitted.is_in_tiles();
        let contents = self.contents(evaluation, &case, (kind, whole), &master, cancel)?;
        let initial = self.initial_outputs(evaluation, &case, &contents[0].1, &master, cancel)?;
        Ok(Headline::Timed(Box::new(TimedHeadline {
            case,
            plan,
            contents,
            outputs: Arc::new(slots_room(&sizes, slots, slot_bytes)?),
            slots,
            slot_bytes,
            window,
            fitted,
            harness: self.harness(cancel)?,
            policy: self.config.policy,
            initial,
        })))
    }

    /// What the window runs on; with expected values where they are wanted and can be whole.
    fn contents(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        (kind, whole): (WindowKind, bool),
        master: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Contents, JudgeError> {
        let task = evaluation.task;
        let content = |distribution| {
            let data = if !kind.is_compared() {
                uncompared(task, case, distribution, master)?
            } else if whole {
                self.case_data(task, &case.dims, distribution, master, cancel)?
            } else {
                self.inputs_alone(task, case, distribution, master)?
            };
            Ok::<_, JudgeError>((distribution, data))
        };
        let [first, second] = self.search_pair(evaluation).map(content);
        Ok(careless::contents(self.config.policy, [first?, second?]))
    }
}

fn slots_room(sizes: &[(String, u64)], slots: u32, slot_bytes: u64) -> Result<Tensors, JudgeError> {
    let rest = (u64::from(slots) - 1) * slot_bytes;
    let last = ("(more slots)".to_owned(), rest);
    let mut tensors = Tensors::room("window", sizes.iter().cloned().chain([last]))?;
    tensors.places.remove("(more slots)");
    Ok(tensors)
}
