//! How a window is laid out in the memory that there is: buffer sets, slots, what gives way.

use pipeline::launch::ResolvedPlan;
use pipeline::memory::{CaseBytes, Fitted, Rung};
use pipeline::task::spec::TaskSpec;
use pipeline::timing::Window;

use super::careless;
use super::kind::{WindowKind, scratch};
use crate::Judge;
use crate::cases::{input_sizes, output_sizes};
use crate::limits::{SLOTS_BYTES_MAX, SLOTS_MAX, TENSOR_ALIGN};

/// A window laid out.
pub(super) struct Room {
    pub(super) window: Window,
    pub(super) slots: u32,
    pub(super) slot_bytes: u64,
    pub(super) fitted: Fitted,
}

impl Judge {
    /// Lays a window out at a fitted shape, for a plan there. The error says why it cannot be.
    pub(super) fn window_room(
        &self,
        spec: &TaskSpec,
        fitted: &Fitted,
        plan: &ResolvedPlan,
        (kind, key): (WindowKind, [u64; 2]),
    ) -> Result<Room, String> {
        let dims = &fitted.dims;
        let slot_bytes = aligned(output_sizes(spec, dims)?);
        let set_bytes = aligned(input_sizes(spec, dims)?) + slot_bytes + scratch(plan);
        let window = kind.window(set_bytes, self.l2_bytes(), key);
        let window = careless::window(self.config.policy, kind, window);
        let fitted = self.with_what_else_is_wanted(spec, fitted, plan, window.sets)?;
        if kind == WindowKind::Untouched && fitted.rung >= Rung::TwoSets {
            return Err("a buffer set of its own for each sample does not fit".to_owned());
        }
        // Outputs that differ from call to call get what is left of the host's memory.
        let left = fitted.free.host.saturating_sub(fitted.need.host);
        let most = SLOTS_BYTES_MAX.min(left.saturating_add(CONTENTS * slot_bytes));
        let slots = (most / slot_bytes.max(1)).min(u64::from(SLOTS_MAX)) as u32;
        if u64::from(slots) < CONTENTS {
            return Err(format!("its outputs of {slot_bytes} bytes are too large to be verified"));
        }
        let window = window.short_of_memory(fitted.rung);
        Ok(Room { window, slots, slot_bytes, fitted })
    }

    fn with_what_else_is_wanted(
        &self,
        spec: &TaskSpec,
        fitted: &Fitted,
        plan: &ResolvedPlan,
        sets: u32,
    ) -> Result<Fitted, String> {
        let bytes = CaseBytes::of(spec, &fitted.dims, self.grain());
        let bytes = bytes.map_err(|error| error.to_string())?.with_plan(plan, self.grain());
        let lowest = || {
            // A plan that wants more than there is will be refused by the device: its own fault.
            Fitted { rung: fitted.rung.max(Rung::TwoSets), ..fitted.clone() }
        };
        Ok(fitted.refitted(&self.wanted(sets), &bytes).unwrap_or_else(lowest))
    }
}

/// Contents of a window.
const CONTENTS: u64 = crate::limits::CONTENTS as u64;

/// Bytes of tensors one after the other.
fn aligned(sizes: Vec<(String, u64)>) -> u64 {
    sizes.iter().map(|(_, bytes)| bytes.next_multiple_of(TENSOR_ALIGN)).sum()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use pipeline::device_facts::DeviceFacts;
    use pipeline::hardware::{HardwareSheet, SHEET_VERSION};
    use pipeline::launch::{ResolvedPlan, ResolvedWorkspace};
    use pipeline::memory::{Memory, Rung};
    use pipeline::plan::form::{Initial, Lifetime};
    use pipeline::task::Task;

    use super::WindowKind;
    use crate::baseline::BaselineConfig;
    use crate::{GpuConfig, Judge, JudgeConfig, JudgePolicy};

    const MIB: u64 = 1 << 20;

    fn softmax() -> Task {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/softmax_rows");
        let parts = [folder.clone(), folder.join("baseline")];
        let entries = parts.iter().flat_map(|part| std::fs::read_dir(part).unwrap());
        let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let file = |path: PathBuf| {
            let name = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap())
        };
        Task::from_files(&files.map(file).collect()).unwrap()
    }

    fn judge() -> Judge {
        let facts = DeviceFacts::simulated_h200();
        let sheet = HardwareSheet {
            version: SHEET_VERSION,
            uuid: "GPU-made-up".to_owned(),
            driver: "1".to_owned(),
            cuda_version: 13000,
            facts: facts.clone(),
            ceilings: None,
        };
        Judge::new(JudgeConfig {
            program: PathBuf::from("/nonexistent"),
            toolchain: serde_json::Value::Null,
            toolchain_id: "none".to_owned(),
            device: facts,
            gpus: Some(GpuConfig {
                sheets: vec![sheet],
                lock_folder: PathBuf::from("/nonexistent"),
                launch_deadline_ms: 1000,
                environment: Vec::new(),
                case_cache_bytes_max: 1 << 20,
            }),
            baselines: BaselineConfig::default(),
            policy: JudgePolicy::all(),
            confinement: crate::ConfinementConfig::default(),
        })
    }

    fn plan(workspace_bytes: u64) -> ResolvedPlan {
        let workspace = ResolvedWorkspace {
            name: "partial".to_owned(),
            bytes: workspace_bytes,
            init: Initial::None,
            lifetime: Lifetime::Call,
        };
        ResolvedPlan {
            workspaces: vec![workspace],
            tensor_maps: Vec::new(),
            prepare: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The headline of softmax has tensors of 128 MiB, its reference writes 512 MiB, the flush
    /// takes 248 MiB; three buffer sets keep a set out of the cache.
    #[test]
    fn a_window_takes_the_first_rung_that_fits() {
        let task = softmax();
        let (judge, case) = (judge(), task.spec.headline().unwrap());
        let most = u64::MAX;
        let (all, masters, two) = (1272 * MIB, 1016 * MIB, 760 * MIB);
        for (device, host, workspace, rung, sets, on_host) in [
            (all, 1536 * MIB, 1, Rung::MastersOnHost, 3, true),
            (all + 6 * MIB, 1536 * MIB, 1, Rung::Everything, 3, false),
            (most, 1536 * MIB - 1, 1, Rung::ReferenceInTiles, 3, false),
            (masters + 6 * MIB, most, 1, Rung::MastersOnHost, 3, true),
            (masters - 1, most, 1, Rung::TwoSets, 2, true),
            // What the plan wants besides takes sets and masters, never the shape.
            (all, most, 40 * MIB, Rung::MastersOnHost, 3, true),
            (all, most, 500 * MIB, Rung::TwoSets, 2, true),
            (two, most, 1 << 40, Rung::TwoSets, 2, true),
            (two - 1, most, 1, Rung::SmallerShape, 2, true),
        ] {
            let free = Memory { device, host };
            let fitted = judge.fit_case(&task, case, free).unwrap();
            let kind = (WindowKind::Search, [3, 5]);
            let room = judge.window_room(&task.spec, &fitted, &plan(workspace), kind).unwrap();
            let found = (room.fitted.rung, room.window.sets, room.window.masters_on_host);
            assert_eq!(found, (rung, sets, on_host), "{free:?}, {workspace}");
            assert!(room.window.cold_samples.iter().all(|sample| sample.set < sets));
            let same_shape = room.fitted.dims == case.dims;
            assert_eq!(same_shape, rung != Rung::SmallerShape);
            // Slots share what is left of the host; one for each content there always is.
            let left = host.saturating_sub(room.fitted.need.host);
            let most = (left / room.slot_bytes).saturating_add(2).min(4096 * MIB / room.slot_bytes);
            assert_eq!(u64::from(room.slots), most);
        }
        assert!(judge.fit_case(&task, case, Memory { device: 200 * MIB, host: most }).is_err());
    }

    #[test]
    fn fresh_sets_for_every_sample_are_not_there_where_memory_is_short() {
        let task = softmax();
        let (judge, case) = (judge(), task.spec.headline().unwrap());
        let room = |device: u64| {
            let fitted = judge.fit_case(&task, case, Memory { device, host: u64::MAX }).unwrap();
            let kind = (WindowKind::Untouched, [3, 5]);
            judge.window_room(&task.spec, &fitted, &plan(1), kind).map(|room| room.window.sets)
        };
        assert_eq!(room(12 * 300 * MIB + 600 * MIB), Ok(12));
        assert!(room(2000 * MIB).unwrap_err().contains("does not fit"));
    }
}
