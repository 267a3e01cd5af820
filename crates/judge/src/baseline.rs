//! Windows of PyTorch: finds an interpreter that has it and keeps a server that forks a child for
//! each window.
//!
//! The programs of the server and of its children are in `python/`. They perform the operations of
//! a window as the runner does. Start at [`Judge::baseline_window`]; what the times mean is not
//! decided here.

pub(crate) mod timed;
mod vendor;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sandbox::wire::{BaselineReport, BaselineRequest};
use sandbox::{CancelFlag, ForkServer, Memfd, ServerSpec, WindowCall};

use crate::cases::lock;
use crate::children::{ChildEnd, ended};
use crate::gpu::Lease;
use crate::limits::{PYTHON_ANSWER_BYTES_MAX, PYTHON_FOLDERS_MAX, PYTHON_LIMITS, PYTHON_START};
use crate::{Judge, JudgeConfig, JudgeError};

/// The program, in the order in which its parts need each other.
pub(crate) const PROGRAM: [&str; 5] = [
    include_str!("baseline/python/cuda.py"),
    include_str!("baseline/python/card.py"),
    include_str!("baseline/python/subject.py"),
    include_str!("baseline/python/window.py"),
    include_str!("baseline/python/server.py"),
];

/// How baselines of Python are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineConfig {
    /// The interpreter; `python3` on the path where none is named.
    pub python: Option<PathBuf>,
    /// Where compilers keep what they made; a folder of each server's own where none is named.
    pub cache_folder: Option<PathBuf>,
}

/// Versions of a Python that has PyTorch, by name.
pub type PythonVersions = BTreeMap<String, String>;

/// The server with what it is good for; kept for as long as the judge.
#[derive(Debug)]
pub(crate) struct Server {
    server: ForkServer,
    cache_folder: PathBuf,
    /// Deleted with the server, where it is its own.
    _own: Option<tempfile::TempDir>,
}

impl Judge {
    /// Starts PyTorch, unless it was started before, and says its versions.
    ///
    /// # Errors
    /// [`JudgeError::NotAvailable`] where there is none.
    pub fn python_versions(&self, cancel: &CancelFlag) -> Result<PythonVersions, JudgeError> {
        let server = self.baselines()?;
        let ready = server.server.ready(cancel)?;
        self.note_confinement(server.server.confinement());
        match ready {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| unusable(&format!("it told its versions otherwise: {error}"))),
            Err(outcome) => match ended::<()>(outcome).map_err(with_hint)? {
                ChildEnd::Reported(()) | ChildEnd::TimedOut(_) => Err(unusable("it did not start")),
                ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => {
                    Err(unusable(&why))
                }
            },
        }
    }

    /// Times one baseline on a leased card, which with the folder for compilers is put into the
    /// request here. Whether its flags were what they had to be is for
    /// [`pipeline::baseline::void_reason`].
    pub(crate) fn baseline_window(
        &self,
        mut request: BaselineRequest,
        bulk: &[&Memfd],
        lease: &Lease<'_>,
        deadline: Duration,
        cancel: &CancelFlag,
    ) -> Result<ChildEnd<BaselineReport>, JudgeError> {
        let server = self.baselines()?;
        request.gpu_uuid.clone_from(&lease.sheet.uuid);
        request.cache_folder = server.cache_folder.to_string_lossy().into_owned();
        let broken = |why: String| JudgeError::Child { child: "baseline", why };
        let request = serde_json::to_vec(&request).map_err(|error| broken(error.to_string()))?;
        let bulk: Vec<BorrowedFd<'_>> = bulk.iter().map(|memfd| memfd.as_fd()).collect();
        let call = WindowCall { request: &request, bulk: &bulk, deadline, cancel };
        let run = server.server.window(&call)?;
        self.note_confinement(run.confinement);
        ended(run.outcome).map_err(with_hint)
    }

    fn baselines(&self) -> Result<Arc<Server>, JudgeError> {
        let mut kept = lock(&self.baselines);
        if let Some(server) = &*kept {
            return Ok(Arc::clone(server));
        }
        let environment = match &self.config.gpus {
            Some(gpus) => gpus.environment.clone(),
            None => Vec::new(),
        };
        let server = Arc::new(Server::new(&self.config, environment)?);
        *kept = Some(Arc::clone(&server));
        Ok(server)
    }
}

impl Server {
    fn new(
        config: &JudgeConfig,
        mut environment: Vec<(String, String)>,
    ) -> Result<Self, JudgeError> {
        let program = find_python(config.baselines.python.as_deref())?;
        let (cache_folder, own) = match &config.baselines.cache_folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let own = tempfile::Builder::new().prefix("warpwright-python-").tempdir();
                let own = own.map_err(|error| unusable(&format!("no folder for it: {error}")))?;
                (own.path().to_owned(), Some(own))
            }
        };
        let home = cache_folder.to_string_lossy().into_owned();
        let own_variables = [
            // Compilers of kernels call the machine's own.
            ("PATH", "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin"),
            ("HOME", &home),
            ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
            // Looking whether there is a GPU must not open the driver: a fork could not use it.
            ("PYTORCH_NVML_BASED_CUDA_CHECK", "1"),
            // Neither threads nor processes may exist when a window is forked.
            ("TORCH_WARM_POOL", "0"),
            ("TORCHINDUCTOR_COMPILE_THREADS", "1"),
            ("OMP_NUM_THREADS", "1"),
        ];
        environment.retain(|(name, _)| own_variables.iter().all(|(own, _)| own != name));
        environment.extend(own_variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let arguments = ["-I", "-c", &PROGRAM.join("\n")].map(str::to_owned).to_vec();
        let folders = python_folders(&program);
        let confinement = config.confinement.of_python(folders, &cache_folder, &environment);
        let spec = ServerSpec {
            launcher: config.program.clone(),
            confinement,
            program,
            arguments,
            environment,
            limits: PYTHON_LIMITS,
            start_deadline: PYTHON_START,
        };
        Ok(Self { server: ForkServer::new(spec), cache_folder, _own: own })
    }
}

/// What is not available here has a remedy.
fn with_hint(error: JudgeError) -> JudgeError {
    match error {
        JudgeError::NotAvailable(why) => unusable(&why),
        other => other,
    }
}

fn unusable(why: &str) -> JudgeError {
    let hint = "; WARPWRIGHT_PYTHON names another Python";
    JudgeError::NotAvailable(format!("PyTorch: {why}{hint}"))
}

/// Where an interpreter finds its own files and its packages; what it does not tell is missed when
/// it starts.
fn python_folders(program: &Path) -> Vec<PathBuf> {
    let tell = "import sys; print('\\n'.join([sys.prefix, sys.base_prefix, *sys.path]))";
    let output = Command::new(program)
        .args(["-I", "-c", tell])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let told = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    let lines = std::str::from_utf8(&told).unwrap_or_default().lines().map(PathBuf::from);
    let folders = lines.take(PYTHON_FOLDERS_MAX).filter(|path| path.is_absolute());
    folders.chain([program.to_owned()]).collect()
}

/// The interpreter as an absolute path: the named one, or what `python3` on the path really is.
fn find_python(named: Option<&Path>) -> Result<PathBuf, JudgeError> {
    if let Some(named) = named {
        let found = std::path::absolute(named).ok().filter(|path| path.is_file());
        return found.ok_or_else(|| unusable(&format!("{} is no file", named.display())));
    }
    let output = Command::new("python3")
        .args(["-I", "-c", "import sys; sys.stdout.write(sys.executable)"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| unusable(&format!("python3 does not start: {error}")))?;
    let told = OsStr::new(std::str::from_utf8(&output.stdout).unwrap_or_default());
    let path = PathBuf::from(told);
    if told.len() <= PYTHON_ANSWER_BYTES_MAX && path.is_absolute() && path.is_file() {
        return Ok(path);
    }
    Err(unusable("python3 on the path is no Python"))
}

#[cfg(test)]
mod tests;
