//! What the Python of baselines says without running anything of a task: its versions, and
//! whether a text parses. Baselines themselves are the judge's.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::environment;
use crate::limits::PYTHON_DEADLINE_MS;

const VERSIONS: &str = "\
import sys
from importlib import metadata
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return ''
print(sys.version.split()[0], version('torch'))
";

const SYNTAX: &str = "\
import ast, sys
try: ast.parse(open(sys.argv[1], 'rb').read())
except (SyntaxError, ValueError) as error:
    print(f'line {getattr(error, \"lineno\", 1)}: {getattr(error, \"msg\", error)}')
";

/// The interpreter, as it would be called: `WARPWRIGHT_PYTHON`, or `python3` on the path.
pub(crate) fn program() -> PathBuf {
    environment::python().unwrap_or_else(|| PathBuf::from("python3"))
}

/// Version of Python, and of its PyTorch where it has one.
///
/// # Errors
/// No Python, in words.
pub(crate) fn versions() -> Result<(String, Option<String>), String> {
    let said = ask(&["-I", "-c", VERSIONS])?;
    let mut words = said.split_whitespace().map(str::to_owned);
    let python = words.next().ok_or_else(|| format!("{} is no Python", program().display()))?;
    Ok((python, words.next()))
}

/// Whether a text is Python, by its syntax alone; the inner error says where it is not.
///
/// # Errors
/// No Python, in words.
pub(crate) fn check_syntax(text: &str) -> Result<Result<(), String>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let said = ask(&["-I", "-c", SYNTAX, &file.path().to_string_lossy()])?;
    let said = said.trim();
    Ok(if said.is_empty() { Ok(()) } else { Err(said.to_owned()) })
}

/// What the interpreter prints; it is killed when it takes too long.
fn ask(arguments: &[&str]) -> Result<String, String> {
    let program = program();
    let named = program.display();
    let child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("{named} does not start: {error}"))?;
    let end = Instant::now() + Duration::from_millis(PYTHON_DEADLINE_MS);
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= end {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().map_err(|error| format!("{named}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{named} ends with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
