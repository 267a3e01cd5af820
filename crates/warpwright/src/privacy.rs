//! What must not leave this machine, and files that only their owner reads.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pipeline::limits::{PRIVATE_BYTES_MAX, PRIVATE_TEXTS_MAX};
use pipeline::scrub::{Private, Scrubber};
use rustix::fs::Mode;
use rustix::process::umask;

use crate::limits::KEY_BYTES_MAX;
use crate::outcome::bad_input;
use crate::settings::Places;
use crate::settings::file::ModelSection;
use crate::settings::model::ModelSetting;
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
    let machine = Machine {
        host: environment::host_name(),
        home: environment::home().unwrap_or_default(),
        users: environment::user_names(),
        paths: [&places.ledger, &places.cache].map(|path| path.as_path()).to_vec(),
        variables: environment::variables(),
    };
    let (texts, left_out) = known(places, &machine);
    if !left_out.is_empty() {
        terminal::note(&format!(
            "warning: too long or too many to be kept out of prompts and the ledger: {}",
            left_out.join(", ")
        ));
    }
    Scrubber::new(texts)
}

/// Refuses a program that answers with a secret among its words: they are stored with the run, to
/// be started again, and everybody on the machine sees them.
pub(crate) fn refuse_secret_words(places: &Places, models: &[ModelSetting]) -> anyhow::Result<()> {
    let machine = Machine { variables: environment::variables(), ..Machine::default() };
    let secrets = Scrubber::new(known(places, &machine).0);
    for model in models {
        let ModelSetting::Command(setting) = model else { continue };
        let words = setting.argv.iter().map(String::as_str).chain([setting.model.as_str()]);
        let found = words.zip(1..).find_map(|(word, at)| Some((secrets.find(word)?, at)));
        // A name and its value may be words of their own.
        let joined = || Some((secrets.find(&setting.argv.join(" "))?, 0));
        if let Some((found, at)) = found.or_else(joined) {
            let place = if at == 0 { String::new() } else { format!(" (word {at})") };
            return Err(bad_input(format!(
                "the command of the model `{}` has {} in it{place}, and it is stored with the run: \
                 let the program read it from a file, or name its variable in `environment`",
                setting.name, found.what
            )));
        }
    }
    Ok(())
}

/// Texts that must not leave, and what of them cannot be looked for.
fn known(places: &Places, machine: &Machine<'_>) -> (Vec<Private>, Vec<String>) {
    let (mut named, mut keys) = (vec![environment::OPENAI_API_KEY.to_owned()], Vec::new());
    for (name, model) in &places.file.model {
        match model {
            ModelSection::Openai(section) => {
                named.extend(section.key_env.clone());
                named.extend(section.header_env.values().cloned());
                // One that cannot be read is named where it is needed.
                let key = section.key_file.as_ref().map(|file| read_text(file, KEY_BYTES_MAX));
                let key = key.and_then(Result::ok);
                keys.extend(key.map(|key| (format!("the key of the model `{name}`"), key)));
            }
            // What it is given beside its own is rarely a secret, and has a telling name then.
            ModelSection::Command(_) | ModelSection::Mailbox(_) | ModelSection::Replay(_) => {}
        }
    }
    machine.texts(keys, &named)
}

/// What is known of this machine and who sits at it.
#[derive(Default)]
struct Machine<'a> {
    host: String,
    home: String,
    users: Vec<String>,
    paths: Vec<&'a Path>,
    variables: Vec<(String, String)>,
}

impl Machine<'_> {
    /// Texts that must not leave, the most secret first, and what of them cannot be looked for.
    fn texts(&self, keys: Vec<(String, String)>, named: &[String]) -> (Vec<Private>, Vec<String>) {
        let is_named = |name: &String| named.contains(name);
        let value =
            |(name, value): &(String, String)| (format!("the value of {name}"), value.clone());
        let by_settings = self.variables.iter().filter(|(name, _)| is_named(name)).map(value);
        let by_name = self.variables.iter().filter(|(name, value)| {
            let number = value.bytes().all(|byte| byte.is_ascii_digit());
            !is_named(name) && is_telling(name) && !number
        });
        let secrets: Vec<_> =
            keys.into_iter().chain(by_settings).chain(by_name.map(value)).collect();
        let (long, secrets): (Vec<_>, Vec<_>) =
            secrets.into_iter().partition(|(_, text)| text.trim().len() > PRIVATE_BYTES_MAX);
        let mut texts: Vec<_> =
            secrets.iter().filter_map(|(what, text)| Private::secret(what, text)).collect();
        texts.splice(0..0, self.names());
        let many = texts.split_off(texts.len().min(PRIVATE_TEXTS_MAX));
        let left_out = long.into_iter().map(|(what, _)| what);
        let left_out = left_out.chain(many.iter().map(|text| text.what().to_owned())).collect();
        (texts, left_out)
    }

    /// The machine's name, also without its domain, the users' names, and folders.
    fn names(&self) -> Vec<Private> {
        let host = self.host.trim();
        let first = host.split('.').next().unwrap_or_default();
        let hosts = [host, first].map(|name| Private::host("the name of this machine", name));
        let of_home =
            self.home.strip_prefix("/home/").or_else(|| self.home.strip_prefix("/Users/"));
        let users = self.users.iter().map(String::as_str).chain(of_home);
        let users = users.map(|name| Private::user("the name of the user", name));
        // A path that was given from here is one in other texts only from the root on.
        let paths = self.paths.iter().filter_map(|path| std::path::absolute(path).ok());
        let deep = paths.filter(|path| path.components().count() > 2);
        let paths = deep.map(|it| Private::path("a path of this machine", &it.to_string_lossy()));
        let home = Private::path("the home folder", &self.home);
        hosts.into_iter().chain(users).chain([home]).chain(paths).flatten().collect()
    }
}

/// True for names of variables that hold secrets; this program's own never do.
pub(crate) fn is_telling(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "CREDENTIAL",
        "DATABASE_URL",
    ];
    const WORDS: [&str; 4] = ["PASS", "PAT", "AUTH", "COOKIE"];
    let upper = name.to_uppercase();
    let own = upper.starts_with("WARPWRIGHT_");
    const ENDS: [&str; 2] = ["SSHPASS", "_PWD"];
    let within = PARTS.iter().any(|part| upper.contains(part))
        || ENDS.iter().any(|end| upper.ends_with(end));
    !own && (within || upper.split('_').any(|word| WORDS.contains(&word)))
}

#[cfg(test)]
mod tests;
