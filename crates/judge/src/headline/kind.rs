//! The kinds of windows: how many samples each takes, and what lies between two of them.

use pipeline::launch::ResolvedPlan;
use pipeline::limits::{ENERGY_MS, WARM_UP_MS};
use pipeline::plan::form::Lifetime;
use pipeline::timing::Window;

use crate::limits::HISTORY_CALLS;

/// How much a window takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WindowKind {
    /// A short one, which steers.
    Search,
    /// A full one, by its number; how long one call of the baseline takes decides how many samples
    /// there are, never the candidate's own speed.
    Accept { baseline_ns: f64, number: u64, energy: bool, gated: bool },
    /// As an acceptance's, with the short warm-up of a search.
    Paired,
    /// Calls of one module that nobody resets, from the very first on.
    History,
    /// Every buffer set is used once.
    Untouched,
    /// So many calls under a profiler, whose outputs nobody compares.
    Profiled { calls: u32 },
}

impl WindowKind {
    /// True where outputs are held against a reference.
    pub(super) fn is_compared(self) -> bool {
        match self {
            Self::Search | Self::Accept { .. } | Self::Paired => true,
            Self::History | Self::Untouched => true,
            Self::Profiled { .. } => false,
        }
    }

    /// Which window of an acceptance it is: each draws its own places and hash key.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Search | Self::Paired | Self::History => 0,
            Self::Untouched | Self::Profiled { .. } => 0,
            Self::Accept { number, .. } => number,
        }
    }

    pub(super) fn window(self, set_bytes: u64, l2_bytes: u64, key: [u64; 2]) -> Window {
        match self {
            Self::Search => Window::search(set_bytes, l2_bytes, key),
            Self::Accept { baseline_ns, energy, gated, .. } => {
                let window = Window {
                    energy_ms: if energy { ENERGY_MS } else { 0 },
                    ..Window::accept(set_bytes, l2_bytes, key, baseline_ns)
                };
                if gated { window } else { window.without_gate() }
            }
            Self::Paired => {
                Window { warm_up_ms: WARM_UP_MS, ..Window::accept(set_bytes, l2_bytes, key, 0.0) }
            }
            Self::History => Window::history(key, HISTORY_CALLS),
            Self::Untouched => Window::untouched(set_bytes, l2_bytes, key),
            Self::Profiled { calls } => Window::profiled(set_bytes, l2_bytes, key, calls),
        }
    }
}

/// Bytes of a plan's workspaces.
pub(super) fn scratch(plan: &ResolvedPlan) -> u64 {
    let own = plan.workspaces.iter().filter(|it| it.lifetime == Lifetime::Call);
    own.map(|workspace| workspace.bytes).sum()
}
