//! `report`: a run in Markdown, as JSON, or as one page that opens anywhere.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use store::Store;

use crate::cli::ReportArgs;
use crate::outcome::{Outcome, bad_input};
use crate::reporting::{as_json, facts, markdown, page};
use crate::settings::Places;
use crate::{selector, terminal};

/// Prints the report of a run, or writes it.
pub(crate) async fn perform(
    places: &Places,
    args: &ReportArgs,
    json: bool,
) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let run = selector::resolve_run(&store, args.selector.as_deref()).await?;
    let report = facts::read(places, &store, &run).await?;
    if let Some(path) = &args.html {
        let page = page::as_html(&report)?;
        write(path, args.force, page.as_bytes())?;
        terminal::line(&format!("wrote {}: one page without anything outside it", path.display()));
        return Ok(Outcome::done().with("page", path.display().to_string()));
    }
    if json {
        terminal::json(&as_json::as_json(&report)?);
    } else {
        terminal::line(&markdown::as_markdown(&report));
    }
    Ok(Outcome::done())
}

fn write(path: &Path, force: bool, bytes: &[u8]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    let options = match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => bad_input(format!(
            "{} is there already: overwrite it with --force, or name another",
            path.display()
        )),
        ErrorKind::NotFound => bad_input(format!(
            "{}: no folder is there to write into; make it, or name another",
            path.display()
        )),
        _ => bad_input(format!("{}: {error}", path.display())),
    })?;
    file.write_all(bytes).with_context(|| path.display().to_string())
}
