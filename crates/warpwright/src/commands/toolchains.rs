//! `toolchain install` and `toolchain list`.

use device::toolchain::{self, Toolchain};

use crate::outcome::Outcome;
use crate::settings::Places;
use crate::{terminal, wiring};

/// Downloads the pinned compiler.
pub(crate) fn install(places: &Places) -> anyhow::Result<Outcome> {
    let installed = wiring::install(places)?;
    terminal::line(&describe(&installed));
    Ok(Outcome::done())
}

/// Lists what was found.
pub(crate) fn list(places: &Places) -> anyhow::Result<Outcome> {
    let found = toolchain::list(&places.cache)?;
    if found.is_empty() {
        terminal::line("no CUDA compiler found; `warpwright toolchain install` downloads one");
    }
    found.iter().for_each(|toolchain| terminal::line(&describe(toolchain)));
    Ok(Outcome::done())
}

fn describe(toolchain: &Toolchain) -> String {
    format!(
        "{}  NVRTC {} from {}: {}",
        toolchain.id,
        toolchain.version,
        toolchain.origin.as_str(),
        toolchain.nvrtc.display()
    )
}
