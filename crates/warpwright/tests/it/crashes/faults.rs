//! A machine that fails: full disks, closed folders, damaged files, too little of everything. Each
//! is one line with the way out, the way out works, and what was stored is there afterwards.
//!
//! The ways out are those of docs/ledger.md, "When something breaks".

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::program::{Ended, Program, SEED, demo_replies};

/// A reply that is judged without compiler or children.
const NO_FENCE: &str = "I would rather not.";
const ATTEMPTS: usize = 30;

/// A run that was killed right after its first question was stored.
fn killed(replies: &[String]) -> Program {
    let program = Program::new();
    let model = program.transcript(replies);
    let count = replies.len().to_string();
    let arguments = ["run", "softmax_rows", "--model", &model, "--attempts", &count];
    let arguments = [&arguments[..], &["--plateau", "0", "--seed", SEED]].concat();
    let ended = program.call_with(&arguments, &[("WARPWRIGHT_KILL_AT", "asked:1")]);
    assert_eq!(ended.signal, Some(9), "{}", ended.stderr);
    program
}

fn quick() -> Program {
    killed(&vec![NO_FENCE.to_owned(); ATTEMPTS])
}

/// One line that says what is wrong, in the words of people.
pub(crate) fn check_error(ended: &Ended, code: i32, words: &[&str]) {
    let said = format!("{:?} {:?}\n{}\n{}", ended.code, ended.signal, ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(code), "{said}");
    let errors: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("error:")).collect();
    let [error] = errors.as_slice() else { panic!("{said}") };
    for word in words {
        assert!(error.contains(word), "`{word}` is missing: {said}");
    }
    for jargon in ["panicked", "sqlx", "SqliteError", "(code:", "Os {"] {
        assert!(!ended.stderr.contains(jargon), "{said}");
    }
}

/// What was stored is whole, and the run comes to its end.
fn check_recovery(program: &Program, attempts: usize) {
    let resumed = program.call(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
    assert_eq!(program.verdicts().len(), attempts);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

/// Attempts that are closed by now.
fn closed(program: &Program) -> usize {
    program.call(&["status", "@last", "--json"]).closing()["tasks"][0]["attempts"]
        .as_u64()
        .unwrap_or(0) as usize
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.size())
}

#[test]
fn a_file_that_may_not_grow_is_an_error_with_the_way_out() {
    let program = quick();
    let (file, log) = (program.ledger(), program.path("ledger.db-wal"));
    // POSIX counts blocks of 512 bytes.
    let blocks = (size(&file).max(size(&log)) + 200_000) / 512;
    let limited = program.in_shell(&format!("ulimit -f {blocks}; exec \"$@\""), &["resume"]);
    check_error(&limited, 7, &["ledger.db could not be written", "ulimit -f", "then resume"]);
    let before = closed(&program);
    check_recovery(&program, ATTEMPTS);
    assert!(before < ATTEMPTS, "the limit was too high to be met");
}

/// Runs a script with file systems of its own; `None` where this machine does not allow that.
pub(crate) fn with_mounts(program: &Program, script: &str, arguments: &[&str]) -> Option<Ended> {
    let mounts = "unshare --map-root-user --mount";
    let mut try_it = program.command("sh");
    try_it.args(["-c", &format!("{mounts} mount -t tmpfs none /mnt")]).stderr(Stdio::null());
    if !try_it.status().unwrap().success() {
        eprintln!("NOT AVAILABLE HERE: file systems of a test's own");
        return None;
    }
    std::fs::write(program.path("script.sh"), script).unwrap();
    Some(program.in_shell(&format!("exec {mounts} sh script.sh \"$@\""), arguments))
}

/// A disk with less than a run wants: it waits, says so, and goes on by itself.
#[test]
fn a_disk_that_gets_full_pauses_the_run_and_room_lets_it_go_on() {
    let program = quick();
    let script = "set -e
        mkdir disk; mount -t tmpfs -o size=40m none disk
        cp ledger.db ledger.db-wal disk
        WARPWRIGHT_LEDGER=disk/ledger.db \"$@\" > said.txt 2>&1 &
        run=$!
        i=0; until grep -q paused: said.txt; do i=$((i+1)); test $i -lt 600; sleep 0.1; done
        mount -o remount,size=200m disk
        wait $run
        rm -f ledger.db*; cp disk/ledger.db* .
        cat said.txt";
    let Some(ended) = with_mounts(&program, script, &["resume"]) else { return };
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let lines: Vec<_> = ended.stdout.lines().collect();
    let place = |start: &str| lines.iter().position(|line| line.starts_with(start));
    let goes_on = lines.iter().position(|line| *line == "going on").unwrap();
    let paused = place("paused: ").unwrap();
    assert!(paused < goes_on && place("#2 ").unwrap() > goes_on, "{}", ended.stdout);
    assert!(lines[paused].contains("MiB are free on the disk of the ledger disk/ledger.db"));
    assert!(lines[paused].contains("free some"), "{}", lines[paused]);
    assert_eq!(program.verdicts().len(), ATTEMPTS);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn a_ledger_that_may_not_be_written_says_so_and_a_copy_goes_on() {
    let program = quick();
    let script = "set -e
        mkdir disk; cp ledger.db ledger.db-wal disk
        mount --bind disk disk; mount -o remount,ro,bind disk
        export WARPWRIGHT_LEDGER=disk/ledger.db
        \"$@\" && exit 99 || code=$?
        cmp ledger.db disk/ledger.db; cmp ledger.db-wal disk/ledger.db-wal
        exit $code";
    let Some(ended) = with_mounts(&program, script, &["resume"]) else { return };
    check_error(&ended, 7, &["disk/ledger.db", "may not be written", "copy it"]);
    // The copy that the message speaks of.
    check_recovery(&program, ATTEMPTS);
}

/// Overwrites a few bytes of the file where the ledger keeps its rows.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[8_192..middle].fill(0xa5);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_ledger_is_said_to_be_so_and_a_copy_put_back_goes_on() {
    let program = quick();
    // A look that writes folds the log into the file, so that a copy is one file.
    let stopped = program.call_with(&["resume"], &[("WARPWRIGHT_KILL_AT", "closed:9")]);
    assert_eq!(stopped.signal, Some(9));
    for part in ["ledger.db", "ledger.db-wal"] {
        std::fs::copy(program.path(part), program.path(&format!("copy-of-{part}"))).unwrap();
    }
    let resumed = program.call_with(&["resume"], &[]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    damage(&program.ledger());
    let damaged = std::fs::read(program.ledger()).unwrap();
    for arguments in [&["resume"][..], &["ledger", "verify"], &["report"], &["status"]] {
        let ended = program.call(arguments);
        check_error(&ended, 7, &["ledger.db is damaged", "put back a copy"]);
    }
    assert!(damaged == std::fs::read(program.ledger()).unwrap(), "the damaged file was written");
    for part in ["ledger.db", "ledger.db-wal"] {
        std::fs::rename(program.path(&format!("copy-of-{part}")), program.path(part)).unwrap();
    }
    let _ = std::fs::remove_file(program.path("ledger.db-shm"));
    check_recovery(&program, ATTEMPTS);
}

#[test]
fn a_missing_artifact_is_named_and_a_copy_put_back_goes_on() {
    let program = killed(&demo_replies());
    let stopped = program.call_with(&["resume"], &[("WARPWRIGHT_KILL_AT", "built:3")]);
    assert_eq!(stopped.signal, Some(9));
    // Closed, the ledger is one file.
    let sql = |text: &str| {
        let script = format!(
            "import sqlite3; c = sqlite3.connect('ledger.db', isolation_level=None); {text}"
        );
        program.command("python3").args(["-c", &script]).output()
    };
    if !sql("c.execute('PRAGMA wal_checkpoint(TRUNCATE)')").is_ok_and(|it| it.status.success()) {
        eprintln!("NOT AVAILABLE HERE: Python's sqlite3");
        return;
    }
    std::fs::copy(program.ledger(), program.path("copy.db")).unwrap();
    let delete = "c.execute('DELETE FROM artifact WHERE hash = (SELECT ptx FROM build ORDER BY \
                  rowid DESC LIMIT 1)')";
    let deleted = sql(delete).unwrap();
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    let ended = program.call(&["resume"]);
    check_error(&ended, 7, &["ledger.db is damaged: artifact ", "is missing", "put back a copy"]);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(7));
    std::fs::rename(program.path("copy.db"), program.ledger()).unwrap();
    for part in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(program.path(part));
    }
    check_recovery(&program, demo_replies().len());
}

/// One run is driven by one program; another run of the same ledger is free.
#[test]
fn a_second_program_leaves_the_run_of_the_first_alone() {
    let program = killed(&demo_replies());
    let mut first = program.command(env!("CARGO_BIN_EXE_warpwright"));
    let mut first = first.args(["resume"]).stdout(Stdio::null()).spawn().unwrap();
    // A killed program leaves its lock file; who holds it is in it.
    let pid = first.id().to_string();
    let lock = || {
        program.path(".").read_dir().unwrap().flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_lock = name.ends_with(".lock") && !name.ends_with("open.lock");
            is_lock && std::fs::read_to_string(entry.path()).is_ok_and(|holder| holder == pid)
        })
    };
    while !lock() {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it had the lock");
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = program.call(&["resume"]);
    check_error(&second, 7, &["is driven by process", &pid, "stop that process first"]);
    let model = format!("replay:{}", program.path("replies.jsonl").display());
    let other = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "1"]);
    assert_eq!(other.code, Some(0), "{} {}", other.stdout, other.stderr);
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let runs = program.call(&["status", "--json"]).closing();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs}");
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

/// A user whom nobody else is, so that the kernel counts no other processes.
const ANOTHER_USER: &str = "setpriv --reuid 1879048000 --regid 1879048000 --clear-groups";

#[test]
fn too_few_threads_are_an_error_and_no_wait() {
    let program = Program::new();
    std::fs::set_permissions(
        program.path("."),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let root = rustix::process::geteuid().is_root();
    // The kernel does not count root's.
    let user = if root { ANOTHER_USER } else { "" };
    for few in [2, 5] {
        let script = format!("exec {user} prlimit --nproc={few} \"$@\"");
        let ended = program.in_shell(&script, &["status"]);
        if ended.stderr.contains("Permission denied") || ended.code == Some(127) {
            eprintln!("NOT AVAILABLE HERE: another user ({})", ended.stderr);
            return;
        }
        check_error(&ended, 4, &["of the 32 threads that it needs", "ulimit -u"]);
    }
}

/// Whatever the room for data is, it is counted before a thread is started that would lack some.
#[test]
fn too_little_memory_for_threads_is_an_error_and_no_panic() {
    let program = Program::new();
    for kib in (8_000..66_000).step_by(1_900) {
        let script = format!("exec prlimit --data={} \"$@\"", kib * 1024);
        let ended = program.in_shell(&script, &["status"]);
        if ended.code == Some(127) {
            eprintln!("NOT AVAILABLE HERE: prlimit ({})", ended.stderr);
            return;
        }
        check_error(&ended, 4, &["of the 32 threads that it needs", "ulimit -d"]);
    }
}

#[test]
fn too_few_open_files_are_an_error_that_names_the_limit() {
    let program = Program::new();
    for few in [10, 60, 255] {
        let ended = program.in_shell(&format!("ulimit -n {few}; exec \"$@\""), &["demo"]);
        check_error(&ended, 4, &[&format!("may open {few} files"), "needs 256", "`ulimit -n`"]);
    }
}

#[test]
fn files_too_short_for_shared_memories_are_named_with_the_way_out() {
    let program = Program::new();
    let limited = program.in_shell("ulimit -f 2000; exec \"$@\"", &["demo"]);
    check_error(&limited, 4, &["larger than the files", "ulimit -f"]);
}

/// What a killed program leaves among the temporary files goes when the next one starts.
#[test]
fn folders_of_a_killed_program_are_taken_away_by_the_next() {
    let program = killed(&demo_replies());
    let temporary = program.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let folders = || {
        let entries = temporary.read_dir().unwrap().flatten();
        entries.filter(|it| it.file_name().to_string_lossy().starts_with("warpwright-")).count()
    };
    let mut left = false;
    for _ in 0..5 {
        let mut child = program.command(env!("CARGO_BIN_EXE_warpwright"));
        child.args(["resume"]).env("TMPDIR", &temporary).stdout(Stdio::null());
        let mut child = child.stderr(Stdio::null()).spawn().unwrap();
        while folders() == 0 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        left = folders() > 0;
        if left {
            break;
        }
    }
    assert!(left, "no kill left a folder");
    let looked = program.call_with(&["status"], &[("TMPDIR", temporary.to_str().unwrap())]);
    assert_eq!((looked.code, folders()), (Some(0), 0), "{}", looked.stderr);
}
