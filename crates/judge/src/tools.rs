//! Tools of the CUDA toolkit that watch a child: where they are, and what they need around them.

use std::path::{Path, PathBuf};

/// Where a tool's own scripts find the programs that they need.
const TOOL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A tool of the CUDA toolkit: on the path, or where the toolkit is installed by default.
#[must_use]
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    let mut found = folders.map(|folder| folder.join(name));
    found.find(|path: &PathBuf| Path::is_file(path))
}

/// The environment of a child that a tool watches: the child's own, and what the tool needs.
pub(crate) fn watched_environment(own: Vec<(String, String)>) -> Vec<(String, String)> {
    let tools = [("PATH", TOOL_PATH), ("HOME", "/tmp")];
    own.into_iter().chain(tools.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}
