//! Live lines: there on a terminal, gone at its end, absent where nobody watches.

use std::process::Command;

use crate::program::{Program, cache, demo_replies};

/// Runs a program on a terminal of its own and prints what that terminal got. Arguments: rows,
/// columns, columns after the first attempt, text at which Ctrl-C is pressed, the program.
const ON_A_TERMINAL: &str = r##"
import fcntl, os, pty, struct, sys, termios
rows, cols, later, stop_at = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    os.execv(sys.argv[5], sys.argv[5:])
seen = b""
while True:
    try:
        part = os.read(master, 65536)
    except OSError:
        break
    if not part:
        break
    seen += part
    if later and b"#1 " in seen:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, later, 0, 0))
        later = 0
    if stop_at and stop_at.encode() in seen:
        os.write(master, b"\x03")
        stop_at = ""
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"##;

/// What a terminal showed.
struct Watched {
    code: Option<i32>,
    raw: String,
}

struct Window {
    rows: u32,
    cols: u32,
    later_cols: u32,
    stop_at: &'static str,
}

const WINDOW: Window = Window { rows: 24, cols: 100, later_cols: 0, stop_at: "" };

impl Watched {
    fn of(
        program: &Program,
        window: &Window,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let numbers = [window.rows, window.cols, window.later_cols].map(|n| n.to_string());
        let output = Command::new("python3")
            .args(["-c", ON_A_TERMINAL])
            .args(numbers)
            .arg(window.stop_at)
            .arg(env!("CARGO_BIN_EXE_warpwright"))
            .args(arguments)
            .current_dir(program.path("."))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", program.path("."))
            .env("TERM", "xterm-256color")
            .env("WARPWRIGHT_CACHE", cache())
            // The same on every machine.
            .env("WARPWRIGHT_DEVICE", "sim")
            .env("WARPWRIGHT_LEDGER", program.ledger())
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let raw = String::from_utf8(output.stdout).unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { code: output.status.code(), raw }
    }

    /// What is on the screen and above it at the end.
    fn screen(&self) -> Vec<String> {
        let mut rows = vec![Vec::new()];
        let (mut row, mut col, mut saved) = (0_usize, 0_usize, (0, 0));
        let mut rest = self.raw.as_str();
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("\u{1b}[") {
                let end = after.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                match (&after[end..=end], &after[..end]) {
                    ("J", "") => {
                        rows[row].truncate(col);
                        rows.truncate(row + 1);
                    }
                    ("A", count) => row -= count.parse::<usize>().unwrap(),
                    ("B", "") => row = (row + 1).min(rows.len() - 1),
                    ("K", "") => rows[row].truncate(col),
                    other => panic!("{other:?}"),
                }
                rest = &after[end + 1..];
                continue;
            }
            if let Some(after) = rest.strip_prefix("\u{1b}7") {
                (saved, rest) = ((row, col), after);
                continue;
            }
            if let Some(after) = rest.strip_prefix("\u{1b}8") {
                ((row, col), rest) = (saved, after);
                rows.resize(rows.len().max(row + 1), Vec::new());
                continue;
            }
            match first {
                '\r' => col = 0,
                '\n' => {
                    row += 1;
                    rows.resize(rows.len().max(row + 1), Vec::new());
                }
                shown => {
                    let width = rows[row].len().max(col + 1);
                    rows[row].resize(width, ' ');
                    rows[row][col] = shown;
                    col += 1;
                }
            }
            rest = &rest[first.len_utf8()..];
        }
        rows.into_iter().map(|row| row.into_iter().collect()).collect()
    }

    /// Every live line that was drawn.
    fn live(&self) -> Vec<&str> {
        let drawn = self.raw.split(['\r', '\n']).map(|part| part.split("\u{1b}8").last().unwrap());
        drawn.filter(|line| line.contains(" elapsed, ETA ") || line.contains("/6 | ")).collect()
    }
}

/// Lines about closed attempts.
fn attempts<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    lines.filter(|line| line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn a_terminal_has_live_lines_and_keeps_none() {
    let program = Program::new();
    let watched = Watched::of(&program, &WINDOW, &["demo"], &[]);
    assert_eq!(watched.code, Some(0), "{}", watched.raw);
    let live = watched.live();
    for part in
        ["0/6 attempts | ", "ETA —", "6/6", "$0.0000", "#4 repair: ", "Correct 1 | best #5 ("]
    {
        assert!(live.iter().any(|line| line.contains(part)), "{part}: {live:#?}");
    }
    assert!(live.iter().all(|line| line.chars().count() < 100), "{live:#?}");
    let screen = watched.screen();
    let piped = program.call(&["demo"]);
    assert!(!piped.stdout.contains('\u{1b}') && !piped.stdout.contains("ETA"), "{}", piped.stdout);
    let cut = |line: &str| line.chars().take(100).collect::<String>();
    let [on_screen, in_pipe] =
        [attempts(screen.iter().map(String::as_str)), attempts(piped.stdout.lines())];
    assert_eq!(in_pipe.len(), 6);
    let pairs = on_screen.iter().zip(&in_pipe);
    assert!(pairs.clone().all(|(a, b)| cut(a) == cut(b)), "{on_screen:#?} {in_pipe:#?}");
    // Nothing but what a pipe gets, the new ids aside, and a note that goes to the other stream.
    let kinds = |lines: Vec<String>| -> Vec<String> {
        let start = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        let starts = lines.into_iter().map(start);
        starts.filter(|start| !["", "children"].contains(&start.as_str())).collect()
    };
    let piped = piped.stdout.lines().map(str::to_owned).collect();
    assert_eq!(kinds(screen), kinds(piped));
}

#[test]
fn lines_stay_plain_where_they_cannot_or_must_not_move() {
    let program = Program::new();
    let model = program.transcript(&demo_replies()[..1]);
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", "1"];
    let json: Vec<_> = run.iter().copied().chain(["--json"]).collect();
    for (arguments, environment) in [
        (&run[..], ("TERM", "dumb")),
        (&run[..], ("NO_COLOR", "1")),
        (&json[..], ("TERM", "xterm")),
    ] {
        let watched = Watched::of(&program, &WINDOW, arguments, &[environment]);
        assert_eq!(watched.code, Some(0), "{}", watched.raw);
        assert!(!watched.raw.contains('\u{1b}'), "{environment:?}: {}", watched.raw);
        assert!(watched.raw.contains("#1 "), "{}", watched.raw);
    }
}

#[test]
fn every_window_is_kept_to() {
    for (rows, cols, later_cols) in
        [(24, 100, 40), (24, 40, 120), (3, 30, 0), (2, 20, 0), (1, 10, 0)]
    {
        let program = Program::new();
        let window = Window { rows, cols, later_cols, ..WINDOW };
        let watched = Watched::of(&program, &window, &["demo"], &[]);
        assert_eq!(watched.code, Some(0), "{}", watched.raw);
        let widest = watched.live().iter().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest < cols.max(later_cols) as usize, "{rows} {cols}: {:#?}", watched.live());
        assert_eq!(watched.live().is_empty(), rows == 1 || cols < 30, "{rows} {cols}");
        let screen = watched.screen();
        assert!(screen.iter().all(|line| !line.contains("elapsed")), "{screen:#?}");
    }
}

#[test]
fn many_tasks_fit_and_a_resumed_run_counts_what_it_has() {
    let program = Program::new();
    let model = program.transcript(&demo_replies()[..2]);
    let run = ["run", "all", "--model", &model, "--attempts", "12"];
    let window = Window { rows: 5, ..WINDOW };
    // The transcript knows one task only, so that the run stops at the first other one.
    let watched = Watched::of(&program, &window, &run, &[]);
    assert_eq!(watched.code, Some(5), "{}", watched.raw);
    assert!(watched.raw.contains("tasks: "), "{}", watched.raw);
    let one = ["run", "softmax_rows", "--model", &model, "--attempts", "6"];
    assert_eq!(program.call(&one).code, Some(5));
    program.transcript(&demo_replies()[..3]);
    let watched = Watched::of(&program, &WINDOW, &["resume"], &[]);
    assert_eq!(watched.code, Some(5), "{}", watched.raw);
    let live = watched.live();
    let counted = |line: &&str| line.contains("Malformed 1, BuildFailed 1");
    assert!(live.iter().any(counted), "{live:#?}");
    assert!(live.iter().any(|line| line.starts_with("2/6 attempts")), "{live:#?}");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let program = Program::new();
    let window = Window { stop_at: "#2 ", ..WINDOW };
    let watched = Watched::of(&program, &window, &["demo"], &[]);
    assert_eq!(watched.code, Some(130), "{}", watched.raw);
    let screen = watched.screen().join("\n");
    assert!(screen.contains("stopping after the step in hand"), "{screen}");
    assert!(!screen.contains("elapsed") && !screen.contains("/6 | "), "{screen}");
}
