//! What must not leave this machine, and files that only their owner reads.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pipeline::scrub::{Private, Scrubber};
use rustix::fs::Mode;
use rustix::process::umask;

use crate::limits::KEY_BYTES_MAX;
use crate::settings::Places;
use crate::settings::file::ModelSection;
use crate::wiring::read_text;
use crate::{environment, terminal};

/// Permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Has every file and folder that this process and its children make belong to their owner alone,
/// whatever the umask was: ledgers, mailboxes, jobs, exports and caches may hold prompts.
pub(crate) fn keep_files_private() {
    umask(Mode::from_raw_mode(OTHERS));
}

/// Says once that others can read a ledger that was there before.
pub(crate) fn warn_of_readers(ledger: &Path) {
    let mode = ledger.metadata().map(|found| found.permissions().mode() & 0o777);
    if let Ok(mode) = mode
        && mode & OTHERS != 0
    {
        let path = ledger.display();
        terminal::note(&format!(
            "warning: others can read the ledger {path} (mode {mode:o}), which holds prompts, \
             kernels and seeds: chmod 600 {path}"
        ));
    }
}

/// What keeps secrets and traces of this machine out of prompts, the ledger and exports.
pub(crate) fn scrubber(places: &Places) -> Scrubber {
    let (mut variables, mut keys) = (vec![environment::OPENAI_API_KEY.to_owned()], Vec::new());
    for (name, model) in &places.file.model {
        match model {
            ModelSection::Openai(section) => {
                variables.extend(section.key_env.clone());
                variables.extend(section.header_env.values().cloned());
                // One that cannot be read is named where it is needed.
                let key = section.key_file.as_ref().map(|file| read_text(file, KEY_BYTES_MAX));
                let what = format!("the key of the model `{name}`");
                keys.extend(key.and_then(Result::ok).and_then(|it| Private::secret(&what, &it)));
            }
            ModelSection::Command(section) => variables.extend(section.environment.clone()),
            ModelSection::Mailbox(_) | ModelSection::Replay(_) => {}
        }
    }
    let texts = environment::private_texts(&[&places.ledger, &places.cache], &variables);
    Scrubber::new(keys.into_iter().chain(texts))
}
