//! Tells a program of a person about the events of a run: started once for each, one line of JSON
//! on its standard input. A run never waits for it, and its failure is one note.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::{AgentError, RunEnd};
use pipeline::limits::capped;
use pipeline::notice::Notice;
use pipeline::scrub::Scrubber;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use store::{RunId, RunState, Store};

use crate::limits::{
    NOTICE_TEXT_BYTES_MAX, NOTICES_WAITING_MAX, NOTIFY_ARGUMENTS_MAX, NOTIFY_DEADLINE_MS,
    NOTIFY_POLL_MS, NOTIFY_RUNNING_MAX,
};
use crate::outcome::bad_input;
use crate::settings::RunSettings;
use crate::{environment, privacy, runtime, terminal};

/// The first of `settings` that names a program, as its words.
pub(crate) fn program(settings: &[&Option<String>]) -> anyhow::Result<Option<Vec<String>>> {
    let Some(text) = settings.iter().find_map(|setting| setting.as_ref()) else { return Ok(None) };
    let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    let Some(program) = words.first() else {
        return Err(bad_input(
            "`notify` is empty: write a program and its arguments, or leave it out",
        ));
    };
    if words.len() > NOTIFY_ARGUMENTS_MAX {
        return Err(bad_input(format!("`notify` has more than {NOTIFY_ARGUMENTS_MAX} words")));
    }
    if !environment::has_program(program) {
        return Err(bad_input(format!(
            "`notify`: no program `{program}` is on the PATH or at that place"
        )));
    }
    Ok(Some(words))
}

/// Tells a program until this is dropped, which waits for those that are being told.
pub(crate) struct Notifier {
    sender: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    run: String,
    scrubber: Scrubber,
}

impl Notifier {
    /// Begins with the words of a program.
    ///
    /// # Errors
    /// No thread is left.
    pub(crate) fn begin(
        program: Vec<String>,
        run: String,
        scrubber: Scrubber,
    ) -> anyhow::Result<Self> {
        let (sender, waiting) = sync_channel(NOTICES_WAITING_MAX);
        let thread = runtime::spawn("notifies", move || serve(&program, &waiting))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), run, scrubber })
    }

    /// What tells the program that a run's settings name, if they name one.
    ///
    /// # Errors
    /// No thread is left.
    pub(crate) fn of_run(
        settings: &RunSettings,
        run: &RunId,
        store: &Store,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(program) = settings.notify.clone() else { return Ok(None) };
        let notifier = Self::begin(program, run.to_string(), store.scrubber().clone())?;
        Ok(Some(Arc::new(notifier)))
    }

    /// Tells of the end of a run.
    pub(crate) async fn tell_end(
        &self,
        store: &Store,
        run: &RunId,
        end: &Result<RunEnd, AgentError>,
    ) {
        let row = store.run(run).await.ok();
        let state = row.map_or(RunState::Failed, |row| row.state).name().to_owned();
        let reason = match end {
            Ok(end) => end.describe(),
            Err(error) => error.to_string(),
        };
        self.tell(&Notice::Finished { state, reason });
    }

    /// Tells of an event; at once, whatever becomes of it.
    pub(crate) fn tell(&self, notice: &Notice) {
        let Some(sender) = &self.sender else { return };
        let full = match sender.try_send(self.line(notice)) {
            Ok(()) => false,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => true,
        };
        if full {
            terminal::note(&format!("nobody could be told in time: {}", notice.describe()));
        }
    }

    fn line(&self, notice: &Notice) -> String {
        let mut event = serde_json::to_value(notice).unwrap_or_default();
        if let Value::Object(fields) = &mut event {
            for value in fields.values_mut() {
                if let Value::String(text) = value {
                    *text = capped(&self.scrubber.scrub(text), NOTICE_TEXT_BYTES_MAX);
                }
            }
            let said = self.scrubber.scrub(&notice.describe()).into_owned();
            fields.insert("notice".to_owned(), json!(1));
            fields.insert("run".to_owned(), json!(self.run));
            fields.insert("at".to_owned(), json!(jiff::Timestamp::now().to_string()));
            fields.insert("says".to_owned(), json!(capped(&said, NOTICE_TEXT_BYTES_MAX)));
        }
        format!("{event}\n")
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Programs that are being told, and whether a failure was noted.
#[derive(Default)]
struct Running {
    children: Vec<(Child, Instant)>,
    noted: bool,
}

fn serve(program: &[String], waiting: &Receiver<String>) {
    let mut running = Running::default();
    let mut open = true;
    while open || !running.children.is_empty() {
        running.look();
        if !open || running.children.len() >= NOTIFY_RUNNING_MAX {
            std::thread::sleep(Duration::from_millis(NOTIFY_POLL_MS));
            continue;
        }
        let patience =
            if running.children.is_empty() { NOTIFY_DEADLINE_MS } else { NOTIFY_POLL_MS };
        match waiting.recv_timeout(Duration::from_millis(patience)) {
            Ok(line) => running.start(program, &line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => open = false,
        }
    }
}

impl Running {
    fn start(&mut self, program: &[String], line: &str) {
        let Some((name, arguments)) = program.split_first() else { return };
        let mut command = Command::new(name);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        for (variable, _) in environment::variables() {
            if privacy::is_telling(&variable) {
                command.env_remove(variable);
            }
        }
        match command.spawn() {
            Ok(mut child) => {
                // A pipe holds far more than one line; whoever does not read it need not.
                if let Some(mut stdin) = child.stdin.take() {
                    let _ = stdin.write_all(line.as_bytes());
                }
                self.children.push((child, Instant::now()));
            }
            Err(error) => self.note(&format!("cannot be started: {error}")),
        }
    }

    fn look(&mut self) {
        let mut failures = Vec::new();
        self.children.retain_mut(|(child, since)| match child.try_wait() {
            Ok(Some(status)) if status.success() => false,
            Ok(Some(status)) => {
                failures.push(format!("ended with {status}"));
                false
            }
            Ok(None) if since.elapsed() < Duration::from_millis(NOTIFY_DEADLINE_MS) => true,
            Ok(None) => {
                kill_group(child);
                let _ = child.wait();
                failures.push(format!("did not end within {} s", NOTIFY_DEADLINE_MS / 1_000));
                false
            }
            Err(error) => {
                failures.push(format!("cannot be waited for: {error}"));
                false
            }
        });
        failures.iter().for_each(|why| self.note(why));
    }

    fn note(&mut self, why: &str) {
        if !std::mem::replace(&mut self.noted, true) {
            terminal::note(&format!(
                "the notify program {why}; the run goes on, and no further failure is noted"
            ));
        }
    }
}

fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use pipeline::notice::{Cap, Notice};
    use pipeline::scrub::{Private, Scrubber};

    use super::{Notifier, program};

    #[test]
    fn the_first_setting_that_is_there_names_the_program() {
        let of = |text: &str| Some(text.to_owned());
        let found = program(&[&None, &of("sh -c true"), &of("/absent")]).unwrap().unwrap();
        assert_eq!(found, ["sh", "-c", "true"]);
        assert!(program(&[&None]).unwrap().is_none());
        for (text, part) in [(" ", "`notify` is empty"), ("/absent x", "no program `/absent`")] {
            let why = program(&[&of(text)]).unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn every_event_arrives_and_a_program_that_fails_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (script, sink) = (folder.path().join("hear.sh"), folder.path().join("heard"));
        let text = format!("cat >> {}\nexit 3\n", sink.display());
        std::fs::write(&script, text).unwrap();
        let words = vec!["sh".to_owned(), script.display().to_string()];
        let scrubber = Scrubber::new(Private::secret("the key", "tr0ub4dor-and-three"));
        let notifier = Notifier::begin(words, "run-1".to_owned(), scrubber).unwrap();
        for percent in [50, 90, 100] {
            notifier.tell(&Notice::CapShare { cap: Cap::Dollars, percent });
        }
        let reason = "the key tr0ub4dor-and-three was refused".to_owned();
        notifier.tell(&Notice::Finished { state: "stopped".to_owned(), reason });
        drop(notifier);
        let heard = std::fs::read_to_string(&sink).unwrap();
        assert!(!heard.contains("tr0ub4dor"), "{heard}");
        let events: Vec<serde_json::Value> =
            heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
        assert_eq!((count("cap_share"), count("finished")), (3, 1), "{heard}");
        assert!(events.iter().all(|event| event["run"] == "run-1" && event["notice"] == 1));
    }
}
