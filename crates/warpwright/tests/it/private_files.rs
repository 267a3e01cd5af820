//! Whatever the umask is, what the program writes belongs to its user alone.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Program, cache, demo_replies};

/// The program under umask 000.
fn loose(program: &Program, arguments: &[&str]) -> Child {
    Command::new("sh")
        .args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_warpwright")])
        .args(arguments)
        .current_dir(program.path(""))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", program.path(""))
        .env("TMPDIR", program.path("tmp"))
        .env("WARPWRIGHT_CACHE", program.path("cache"))
        .env("WARPWRIGHT_DEVICE", "sim")
        .env("WARPWRIGHT_LEDGER", program.path("data/deep/ledger.db"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Every file and folder below, with what others may do with it.
fn open_to_others(folder: &Path, found: &mut Vec<(PathBuf, u32)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mode = path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        found.push((path.clone(), mode & 0o077));
        if path.is_dir() && !path.is_symlink() {
            open_to_others(&path, found);
        }
    }
}

#[test]
fn nothing_is_readable_by_others_under_umask_000() {
    let program = Program::new();
    std::fs::create_dir(program.path("tmp")).unwrap();
    // The compiler is shared; what else is in a cache is not.
    std::fs::create_dir_all(cache().join("toolchain")).unwrap();
    std::fs::create_dir(program.path("cache")).unwrap();
    std::os::unix::fs::symlink(cache().join("toolchain"), program.path("cache/toolchain")).unwrap();
    let made_here = ["tmp", "replies.jsonl", "cache", "cache/toolchain"].map(|it| program.path(it));
    let model = program.transcript(&[demo_replies().pop().unwrap()]);
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", "1"];
    for (arguments, code) in [
        (&run[..], 0),
        (&["show", "@last:1", "--out", "shown"], 0),
        (&["init"], 0),
        (&["task", "new", "mine"], 0),
        (&["worker", "--folder", "exchange", "--drain"], 0),
    ] {
        let ended = loose(&program, arguments).wait().unwrap();
        assert_eq!(ended.code(), Some(code), "{arguments:?}");
    }
    let asked = loose(&program, &["run", "gelu", "--model", "mailbox:letters", "--attempts", "1"]);
    wait_for_question(&program.path("letters"));
    let mut found = Vec::new();
    open_to_others(&program.path(""), &mut found);
    stop(asked);
    for part in ["ledger.db", "ledger.db-wal", "kernel.cu", "task.toml", "prompt.md", "device.json"]
    {
        let named = |(path, _): &&(PathBuf, u32)| path.to_string_lossy().ends_with(part);
        assert!(found.iter().any(|it| named(&it)), "no {part} in {found:?}");
    }
    found.retain(|(path, others)| *others != 0 && !made_here.contains(path));
    assert_eq!(found, [], "others have permissions there");
}

fn wait_for_question(folder: &Path) {
    let started = Instant::now();
    let asked = || {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|it| it.file_name().to_string_lossy().ends_with(".prompt.md"))
    };
    while !asked() {
        assert!(started.elapsed() < Duration::from_secs(60), "no question in {}", folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_ledger_that_others_can_read_is_warned_of_once() {
    let program = Program::new();
    let model = program.transcript(&["no kernel".to_owned()]);
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", "1"];
    let warned = |stderr: &str| stderr.matches("others can read the ledger").count();
    assert_eq!(warned(&program.call(&run).stderr), 0);
    std::fs::set_permissions(program.ledger(), PermissionsExt::from_mode(0o644)).unwrap();
    let again = program.call(&run);
    assert_eq!(warned(&again.stderr), 1, "{}", again.stderr);
    assert!(again.stderr.contains("mode 644") && again.stderr.contains("chmod 600"));
    let json = program.call(&["status", "--json"]);
    assert_eq!((json.code, warned(&json.stderr), warned(&json.stdout)), (Some(0), 1, 0));
    std::fs::set_permissions(program.ledger(), PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(warned(&program.call(&["status"]).stderr), 0);
}
