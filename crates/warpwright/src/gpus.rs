//! Which device judges: what a person asked for, what a probe finds, and the ceilings of each card,
//! which are measured once and kept in the cache.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use judge::{GpuConfig, Judge};
use pipeline::card_time::Where;
use pipeline::hardware::{HardwareSheet, SHEET_VERSION};
use serde::{Deserialize, Serialize};

use crate::limits::{CASE_CACHE_BYTES_MAX, CASE_CACHE_BYTES_MIN, SHEET_BYTES_MAX};
use crate::outcome::{bad_input, not_available};
use crate::settings::{EvaluatorSetting, Places, RunSettings};
use crate::{confinement, environment, terminal, wiring};

/// What `--device` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum DeviceSetting {
    /// Every GPU of the first one's model where there is one, else the simulator.
    #[default]
    Auto,
    Sim,
    Cuda(Cards),
}

/// Which GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cards {
    All,
    Index(usize),
    Uuid(String),
}

impl FromStr for DeviceSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cards = match text {
            "auto" | "" => return Ok(Self::Auto),
            "sim" => return Ok(Self::Sim),
            "cuda" => Cards::Index(0),
            "cuda:all" => Cards::All,
            _ => match text.strip_prefix("cuda:") {
                Some(uuid) if uuid.starts_with("GPU-") || uuid.starts_with("MIG-") => {
                    Cards::Uuid(uuid.to_owned())
                }
                Some(index) => match index.parse() {
                    Ok(index) => Cards::Index(index),
                    Err(_) => return Err(unknown(text)),
                },
                None => return Err(unknown(text)),
            },
        };
        Ok(Self::Cuda(cards))
    }
}

fn unknown(text: &str) -> String {
    format!("device `{text}`: write auto, sim, cuda, cuda:N, cuda:all or cuda:GPU-UUID")
}

impl TryFrom<String> for DeviceSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceSetting> for String {
    fn from(setting: DeviceSetting) -> Self {
        setting.to_string()
    }
}

impl fmt::Display for DeviceSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Sim => f.write_str("sim"),
            Self::Cuda(Cards::All) => f.write_str("cuda:all"),
            Self::Cuda(Cards::Index(index)) => write!(f, "cuda:{index}"),
            Self::Cuda(Cards::Uuid(uuid)) => write!(f, "cuda:{uuid}"),
        }
    }
}

/// The GPUs of this machine, with the ceilings that are known.
///
/// # Errors
/// `NotAvailable` without a driver or GPU.
pub(crate) fn found(places: &Places) -> anyhow::Result<Vec<HardwareSheet>> {
    let program = std::env::current_exe().context("where this program is")?;
    let mut sheets = judge::find_gpus(
        &program,
        &environment::of_gpu_children(),
        &confinement::of_children(None)?,
    )?;
    for sheet in &mut sheets {
        sheet.ceilings = kept(places, sheet).and_then(|kept| kept.ceilings);
    }
    Ok(sheets)
}

/// Where cards are held for the run's evaluations; the simulator holds none.
pub(crate) fn cards(settings: &RunSettings, judge: &Judge) -> agent::Cards {
    let at = match settings.evaluator {
        EvaluatorSetting::Local => Where::Here,
        EvaluatorSetting::Folder(_) => Where::Elsewhere,
    };
    let cards = judge.config().gpus.as_ref().map_or(1, |gpus| gpus.sheets.len());
    agent::Cards::new((!judge.config().device.simulated).then_some(at), cards)
}

/// The cards that a setting means; `None` for the simulator.
pub(crate) fn chosen(
    places: &Places,
    setting: &DeviceSetting,
) -> anyhow::Result<Option<Vec<HardwareSheet>>> {
    let cards = match setting {
        DeviceSetting::Sim => return Ok(None),
        DeviceSetting::Auto if !has_device_node() => return Ok(None),
        DeviceSetting::Auto => {
            return match found(places) {
                Ok(sheets) if !sheets.is_empty() => Ok(Some(usable(sheets))),
                Ok(_) => Ok(None),
                Err(error) => {
                    terminal::note(&format!(
                        "there is an NVIDIA device, but it cannot be used ({error:#}): kernels run \
                         on the simulator"
                    ));
                    Ok(None)
                }
            };
        }
        DeviceSetting::Cuda(cards) => cards,
    };
    let sheets = found(places)?;
    let count = sheets.len();
    let missing = |what: &str| not_available(format!("{what}: {count} GPU(s) were found"));
    let one = |sheet: Option<&HardwareSheet>, what: String| {
        sheet.map(|sheet| vec![sheet.clone()]).ok_or_else(|| missing(&what))
    };
    let chosen = match cards {
        Cards::All if sheets.is_empty() => return Err(missing("cuda:all")),
        Cards::All => all_of_one_model(sheets)?,
        Cards::Index(index) => one(sheets.get(*index), format!("cuda:{index}"))?,
        Cards::Uuid(uuid) => one(sheets.iter().find(|it| it.uuid == *uuid), uuid.clone())?,
    };
    Ok(Some(chosen))
}

/// Why a setting means no card, where [`chosen`] found none.
pub(crate) fn why_none(setting: &DeviceSetting) -> &'static str {
    match setting {
        DeviceSetting::Sim => "the device is `sim`, by --device, WARPWRIGHT_DEVICE or judge.device",
        DeviceSetting::Auto if !has_device_node() => {
            "no NVIDIA driver shows a device on this machine"
        }
        DeviceSetting::Auto | DeviceSetting::Cuda(_) => "the driver shows no GPU that can be used",
    }
}

/// The cards that are like the first one; others are named.
fn usable(sheets: Vec<HardwareSheet>) -> Vec<HardwareSheet> {
    let all = sheets.len();
    let chosen = of_one_model(sheets);
    if chosen.len() < all {
        let (model, left) = (&chosen[0].facts.model, all - chosen.len());
        terminal::note(&format!(
            "{left} GPU(s) are unlike the first one ({model}) and are left out; --device names one"
        ));
    }
    chosen
}

fn of_one_model(mut sheets: Vec<HardwareSheet>) -> Vec<HardwareSheet> {
    let first = sheets.first().map(|sheet| sheet.facts.clone());
    sheets.retain(|sheet| Some(&sheet.facts) == first.as_ref());
    sheets
}

fn all_of_one_model(sheets: Vec<HardwareSheet>) -> anyhow::Result<Vec<HardwareSheet>> {
    let models: Vec<String> = sheets.iter().map(|sheet| sheet.facts.model.clone()).collect();
    let count = sheets.len();
    let same = of_one_model(sheets);
    if same.len() == count {
        return Ok(same);
    }
    Err(bad_input(format!(
        "cuda:all needs GPUs of one model, since times of others are not comparable; found are {}: \
         name one with --device cuda:N",
        models.join(", ")
    )))
}

/// True where a driver shows a device; asking the driver itself takes much longer.
fn has_device_node() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists())
}

/// How a judge uses cards.
pub(crate) fn config(sheets: Vec<HardwareSheet>) -> GpuConfig {
    GpuConfig {
        sheets,
        // The same for every user and process of the machine, whatever their settings.
        lock_folder: PathBuf::from("/tmp"),
        launch_deadline_ms: judge::LAUNCH_DEADLINE_MS,
        environment: environment::of_gpu_children(),
        case_cache_bytes_max: (environment::memory_available_bytes() / 2)
            .clamp(CASE_CACHE_BYTES_MIN, CASE_CACHE_BYTES_MAX),
    }
}

/// Measures cards whose ceilings are not known, and keeps them.
pub(crate) fn measured(
    places: &Places,
    toolchain: &device::toolchain::Toolchain,
    sheets: Vec<HardwareSheet>,
) -> anyhow::Result<Vec<HardwareSheet>> {
    let (known, unknown): (Vec<_>, Vec<_>) =
        sheets.into_iter().partition(|sheet| sheet.ceilings.is_some());
    if unknown.is_empty() {
        return Ok(known);
    }
    let order: Vec<String> = known.iter().chain(&unknown).map(|it| it.uuid.clone()).collect();
    let judge = judge_of(toolchain, unknown)?;
    let mut all = measure(places, &judge)?;
    all.extend(known);
    all.sort_by_key(|sheet| order.iter().position(|uuid| *uuid == sheet.uuid));
    Ok(all)
}

/// A judge on cards as they are known.
pub(crate) fn judge_of(
    toolchain: &device::toolchain::Toolchain,
    sheets: Vec<HardwareSheet>,
) -> anyhow::Result<Judge> {
    let facts = sheets.first().map(|sheet| sheet.facts.clone()).context("no GPU was chosen")?;
    wiring::judge_for(toolchain, facts, Some(config(sheets)))
}

/// Measures every card of a judge, and keeps what was found.
pub(crate) fn measure(places: &Places, judge: &Judge) -> anyhow::Result<Vec<HardwareSheet>> {
    let cancel = judge::CancelFlag::new();
    let say = |what: &str| terminal::note(what);
    let sheets = tokio::task::block_in_place(|| judge.measure_gpus(&say, &cancel))?;
    for sheet in &sheets {
        if let Err(error) = keep(places, sheet) {
            terminal::note(&format!("what was measured cannot be kept for other runs: {error:#}"));
        }
    }
    Ok(sheets)
}

fn sheet_path(places: &Places, sheet: &HardwareSheet) -> PathBuf {
    let name = format!("{}-{}-v{SHEET_VERSION}.json", sheet.uuid, sheet.driver);
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
    places.cache.join("hardware").join(name.chars().map(safe).collect::<String>())
}

/// What was measured of a card before; anything unreadable counts as nothing.
fn kept(places: &Places, sheet: &HardwareSheet) -> Option<HardwareSheet> {
    let text = wiring::read_text(&sheet_path(places, sheet), SHEET_BYTES_MAX).ok()?;
    let kept: HardwareSheet = serde_json::from_str(&text).ok()?;
    let sound = kept.ceilings.as_ref().is_none_or(|ceilings| ceilings.flaw().is_none());
    let same = kept.version == SHEET_VERSION && kept.facts == sheet.facts && sound;
    let same = same && kept.driver == sheet.driver;
    (same && kept.uuid == sheet.uuid).then_some(kept)
}

fn keep(places: &Places, sheet: &HardwareSheet) -> anyhow::Result<()> {
    let path = sheet_path(places, sheet);
    let folder = path.parent().context("the cache folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut file, &serde_json::to_vec_pretty(sheet)?)?;
    file.persist(&path).with_context(|| path.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Cards, DeviceSetting};

    #[test]
    fn devices_are_written_as_they_are_read() {
        for (text, setting, written) in [
            ("auto", DeviceSetting::Auto, "auto"),
            ("sim", DeviceSetting::Sim, "sim"),
            ("cuda", DeviceSetting::Cuda(Cards::Index(0)), "cuda:0"),
            ("cuda:3", DeviceSetting::Cuda(Cards::Index(3)), "cuda:3"),
            ("cuda:all", DeviceSetting::Cuda(Cards::All), "cuda:all"),
            ("cuda:GPU-12", DeviceSetting::Cuda(Cards::Uuid("GPU-12".to_owned())), "cuda:GPU-12"),
        ] {
            assert_eq!(text.parse(), Ok(setting.clone()), "{text}");
            assert_eq!(setting.to_string(), written);
        }
        for text in ["gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA"] {
            let error = text.parse::<DeviceSetting>().unwrap_err();
            assert!(error.contains("cuda:all"), "{error}");
        }
    }
}
