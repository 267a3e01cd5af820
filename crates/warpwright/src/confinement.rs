//! How children are confined, as a person asked for it: `--require-confinement`, and the way out
//! where something fails under a layer.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use device::toolchain::Toolchain;
use judge::{CancelFlag, ConfinementConfig, Judge};
use pipeline::confinement::LEVEL_MAX;
use sandbox::ChildKind;

use crate::outcome::bad_input;
use crate::{environment, terminal};

/// The level that a flag or a settings file requires, once they are read.
static REQUIRED: OnceLock<u8> = OnceLock::new();

/// Keeps what a flag or a settings file requires for every judge of this process.
pub(crate) fn require(level: Option<u8>) {
    if let Some(level) = level {
        // Settings are read once.
        let _ = REQUIRED.set(level);
    }
}

/// How the children of a judge with this compiler are confined.
pub(crate) fn of_children(toolchain: Option<&Toolchain>) -> anyhow::Result<ConfinementConfig> {
    let level_max = match environment::value(environment::CONFINEMENT) {
        Some(text) => lowered(&text)?,
        None => LEVEL_MAX,
    };
    Ok(ConfinementConfig {
        level_max,
        level_required: REQUIRED.get().copied().unwrap_or(0),
        toolchain_folders: toolchain.map_or_else(Vec::new, folders),
    })
}

/// Says aloud, once, where children are held by less than everything, and ends where that is less
/// than is required: found out with a real child, before anything is asked or spent.
pub(crate) fn tell(judge: &Judge) -> anyhow::Result<()> {
    static SAID: OnceLock<()> = OnceLock::new();
    let held = judge.reach(ChildKind::Build, &CancelFlag::default())?.confinement;
    if !held.lacks().is_empty() && SAID.set(()).is_ok() {
        terminal::note(&format!("children are confined at {held}"));
    }
    Ok(())
}

/// The level of the variable; one below the highest is said aloud, once.
fn lowered(text: &str) -> anyhow::Result<u8> {
    static SAID: OnceLock<()> = OnceLock::new();
    let name = environment::CONFINEMENT;
    let level = parse_level(text).map_err(|why| bad_input(format!("{name}: {why}")))?;
    if level < LEVEL_MAX && SAID.set(()).is_ok() {
        terminal::note(&format!(
            "{name}={level}: layers of confinement above level {level} are left out, and every \
             record says so"
        ));
    }
    Ok(level)
}

/// Reads a level.
pub(crate) fn parse_level(text: &str) -> Result<u8, String> {
    let level = text.parse().map_err(|_| no_level(text))?;
    checked_level(level)
}

/// A level that there is.
pub(crate) fn checked_level(level: u8) -> Result<u8, String> {
    if level <= LEVEL_MAX { Ok(level) } else { Err(no_level(&level.to_string())) }
}

fn no_level(text: &str) -> String {
    format!("`{text}` is no level of confinement: write 0 to {LEVEL_MAX}")
}

/// What a compile reads of its toolchain.
fn folders(toolchain: &Toolchain) -> Vec<PathBuf> {
    let libraries = [&toolchain.nvrtc, &toolchain.builtins].map(|path| {
        // A library is found by a link, and what it needs is beside the file.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        [path.parent(), real.parent()].into_iter().flatten().map(Path::to_owned).collect::<Vec<_>>()
    });
    let folders = libraries.into_iter().flatten().chain(toolchain.include_dirs.iter().cloned());
    // Whoever may enter a folder need not be able to read what is in it.
    folders.chain([toolchain.nvrtc.clone(), toolchain.builtins.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_level;

    #[test]
    fn levels_are_numbers_up_to_four() {
        assert_eq!(parse_level("0"), Ok(0));
        assert_eq!(parse_level("4"), Ok(4));
        for wrong in ["5", "-1", "", "full"] {
            assert!(parse_level(wrong).is_err(), "{wrong}");
        }
    }
}
