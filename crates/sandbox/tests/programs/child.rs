//! A child for the tests: its request names the part that it plays.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a part that cannot go on panics, which is a crash; channels are borrowed by number"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::io::{FdFlags, fcntl_setfd};
use sandbox::inside::Inside;
use sandbox::{CONFINED_COMMAND, EXIT_OUR_BUG, REPORT_FD, REQUEST_FD, SandboxError};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    part: String,
}

/// Names a script that takes this program's place once it is confined.
const SCRIPT: &str = "SCRIPT";

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == CONFINED_COMMAND) {
        sandbox::launch();
    }
    let Ok(mut inside) = Inside::begin() else { return ExitCode::from(EXIT_OUR_BUG) };
    if let Some(script) = std::env::var_os(SCRIPT) {
        return become_script(&script);
    }
    ExitCode::from(match inside.read_request::<Request>() {
        Ok(request) => play(&request.part, inside).unwrap(),
        Err(error) => inside.our_bug(&error.to_string()),
    })
}

/// Hands the channels on to a script.
fn become_script(script: &OsStr) -> ExitCode {
    for number in [REQUEST_FD, REPORT_FD] {
        // SAFETY: the channels are open for as long as this process lives.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_setfd(fd, FdFlags::empty()).unwrap();
    }
    let error = Command::new(script).env_remove(SCRIPT).exec();
    panic!("{error}");
}

fn play(part: &str, inside: Inside) -> Result<u8, SandboxError> {
    match part {
        "sum" => sum(inside),
        // For a watcher that cannot wait for it.
        "sum_then_tell" => sum(inside).inspect(|_| fs::write("done", "").unwrap()),
        "look" => look(inside),
        "burn" => burn(),
        "allocate" => {
            let bytes = vec![1_u8; 256 << 20];
            inside.write_report(&bytes.iter().filter(|byte| **byte == 1).count())
        }
        "write_file" => {
            fs::write("large", vec![0; 2 << 20]).unwrap();
            inside.write_report(&"written")
        }
        "bug" => Ok(inside.our_bug("two and two")),
        "nothing" => Ok(inside.not_available("no device")),
        "panic" => panic!("as asked"),
        other => Ok(inside.our_bug(other)),
    }
}

fn sum(inside: Inside) -> Result<u8, SandboxError> {
    let input = inside.bulk(0)?.map()?;
    let sum: u64 = input.iter().map(|byte| u64::from(*byte)).sum();
    let mut output = inside.bulk(1)?;
    output.map_mut()?.fill(u8::try_from(sum).unwrap());
    inside.write_report(&sum)
}

fn burn() -> ! {
    let mut state = 1_u64;
    loop {
        state = std::hint::black_box(state.wrapping_mul(3));
    }
}

fn look(inside: Inside) -> Result<u8, SandboxError> {
    let environment = fs::read_to_string("/proc/self/environ").unwrap();
    let mut descriptors: Vec<i32> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter(|entry| {
            // The descriptor of this very listing.
            !fs::read_link(entry.path()).is_ok_and(|path| path.ends_with("fd"))
        })
        .map(|entry| entry.file_name().to_string_lossy().parse().unwrap())
        .collect();
    descriptors.sort_unstable();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let folder = std::env::current_dir().unwrap();
    inside.write_report(&json!({
        "environment": environment.split_terminator('\0').collect::<Vec<_>>(),
        "descriptors": descriptors,
        "arguments": std::env::args().skip(1).collect::<Vec<_>>(),
        "folder": folder.display().to_string(),
        "folder_entries": fs::read_dir(&folder).unwrap().count(),
        "no_new_privileges": status.lines().any(|line| line == "NoNewPrivs:\t1"),
        "limits": fs::read_to_string("/proc/self/limits").unwrap(),
        "process": std::process::id(),
        "group": rustix::process::getpgrp().as_raw_nonzero().get(),
    }))
}
