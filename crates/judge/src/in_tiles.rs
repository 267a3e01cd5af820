//! Has outputs compared with expected values that are never whole on the host.
//!
//! A child runs the reference, leaves its values on the device and compares them with the given
//! outputs a tile at a time. It is a child of the reference: the candidate was never there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::task::Task;
use pipeline::task::spec::Case;
use sandbox::wire::{RunReport, Slice, TilesRequest, VerifyItem, VerifyReport, WindowResult};
use sandbox::{CancelFlag, ChildKind, Memfd};

use crate::cases::{CaseData, Tensors, drawn_inputs, reference_sizes};
use crate::compared::{Checks, Declared};
use crate::evaluate::Evaluation;
use crate::headline::TimedHeadline;
use crate::limits::{CANDIDATE_TRIES_MAX, TILES_LIMITS};
use crate::on_card::CardRun;
use crate::reference::{Whose, image_memfds, reference_request, reference_run};
use crate::{Judge, JudgeError};

/// Index of the outputs' memfd in the request: behind PTX, cubin and inputs.
pub(crate) const OUTPUTS_BULK: u32 = 3;

impl Judge {
    /// Compares outputs with what the reference gives on `inputs`. The items' outputs lie in
    /// `outputs`, whose index is [`OUTPUTS_BULK`].
    pub(crate) fn verified_in_tiles(
        &self,
        task: &Task,
        dims: &BTreeMap<String, i64>,
        (inputs, outputs): (&Tensors, &Memfd),
        items: Vec<VerifyItem>,
        cancel: &CancelFlag,
    ) -> Result<Checks, JudgeError> {
        let count = items.len();
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let build = self.reference_build(task, cancel)?;
        let facts = build.facts.as_ref().ok_or_else(|| broken("it has no build".to_owned()))?;
        let sizes = reference_sizes(&task.spec, dims).map_err(broken)?;
        let device = self.device_choice(None, Whose::Reference);
        let plan = self.reference_plan(task, dims)?;
        let nowhere = Tensors::room("nothing", std::iter::empty())?;
        let mut request = reference_request(
            &build,
            facts,
            device,
            vec![reference_run(plan, (2, inputs), (3, &nowhere), &sizes)],
        );
        for run in &mut request.runs {
            for (output, (_, _, bytes)) in run.outputs.iter_mut().zip(&sizes) {
                // Only the size counts: what the run gives stays on the device.
                output.data = Slice { bulk: OUTPUTS_BULK, offset: 0, bytes: *bytes };
            }
        }
        let tile_bytes = self.memory.caps.tile_bytes;
        request.tiles = Some(TilesRequest { items, tile_bytes });
        let [ptx, cubin] = image_memfds(&build)?;
        let run = CardRun {
            kind: ChildKind::Reference,
            whose: Whose::Reference,
            bulk: &[&ptx, &cubin, &inputs.memfd, outputs],
            limits: &TILES_LIMITS,
            killed_tries_max: CANDIDATE_TRIES_MAX,
        };
        let report = self.reference_report(task, &[dims], &run, request, cancel)?;
        match report {
            RunReport { tiles: Some(VerifyReport { checks, hashes, spreads }), .. }
                if [checks.len(), hashes.len(), spreads.len()] == [count; 3] =>
            {
                Ok(Checks { checks, hashes, spreads })
            }
            RunReport { .. } => Err(broken("it left out checks".to_owned())),
        }
    }

    /// Compares the slots of a window that no trials belong to, whole or in tiles.
    pub(crate) fn window_checks(
        &self,
        evaluation: &Evaluation<'_>,
        timed: &TimedHeadline<'_>,
        window: &WindowResult,
        declared: Declared,
        cancel: &CancelFlag,
    ) -> Result<Checks, JudgeError> {
        if timed.is_in_tiles() {
            return self.window_in_tiles(evaluation, timed, window, declared, cancel);
        }
        let items = timed.verify_items(evaluation, window, 0, declared)?;
        if items.is_empty() {
            return Ok(Checks::default());
        }
        self.verified(items, &timed.compared_bulk(), cancel)
    }

    /// Compares the slots of a window, content by content; the checks are in the slots' order.
    pub(crate) fn window_in_tiles(
        &self,
        evaluation: &Evaluation<'_>,
        timed: &TimedHeadline<'_>,
        window: &WindowResult,
        declared: Declared,
        cancel: &CancelFlag,
    ) -> Result<Checks, JudgeError> {
        let items = timed.verify_items(evaluation, window, OUTPUTS_BULK, declared)?;
        let outputs = evaluation.task.spec.outputs.len().max(1);
        let slots: Vec<&[VerifyItem]> = items.chunks(outputs).collect();
        let mut found: BTreeMap<usize, Checks> = BTreeMap::new();
        let contents: BTreeSet<u32> = window.slots.iter().map(|held| held.content).collect();
        for content in contents {
            let held = window.slots.iter().enumerate();
            let own: Vec<usize> =
                held.filter(|(_, held)| held.content == content).map(|(slot, _)| slot).collect();
            let of_content = own.iter().filter_map(|slot| slots.get(*slot).copied());
            let of_content: Vec<VerifyItem> = of_content.flatten().cloned().collect();
            let tensors = (timed.inputs(content as usize), timed.outputs());
            let dims = &timed.fitted().dims;
            let mut checks =
                self.verified_in_tiles(evaluation.task, dims, tensors, of_content, cancel)?;
            found.extend(own.into_iter().map(|slot| (slot, checks.take(outputs))));
        }
        let mut all = Checks::default();
        found.into_values().for_each(|checks| all.append(checks));
        Ok(all)
    }

    /// Inputs whose expected values come in tiles, when they are needed.
    pub(crate) fn inputs_alone(
        &self,
        task: &Task,
        case: &Case,
        distribution: Distribution,
        master: &MasterSeed,
    ) -> Result<Arc<CaseData>, JudgeError> {
        let dims = &case.dims;
        let key = format!("alone {} {dims:?} {distribution:?} {}", task.hash, master.digest());
        self.cases.get_or_make(&key, || {
            let inputs = drawn_inputs(task, dims, distribution, master)?;
            Ok(CaseData { inputs, expected: Tensors::room("nothing", std::iter::empty())? })
        })
    }
}
