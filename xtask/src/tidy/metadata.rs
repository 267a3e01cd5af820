//! What `cargo metadata` says: crates, their edges, the whole graph, licences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::shell;

/// One package of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: Option<String>,
    /// Packages that it links, by id; for tests alone is not counted.
    pub(super) links: Vec<String>,
}

/// One crate of this workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: String,
    /// Manifest, from the root.
    pub(super) manifest: String,
    /// `lib.rs` or `main.rs`, from the root.
    pub(super) root_file: String,
    /// Crates of this workspace that it uses, for tests alone not counted.
    pub(super) edges: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Workspace {
    pub(super) members: BTreeMap<String, Member>,
    pub(super) packages: BTreeMap<String, Package>,
}

impl Workspace {
    /// Names of everything that a crate links, directly or not, itself left out.
    pub(super) fn reaches(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> =
            self.members.get(name).map(|each| each.id.as_str()).into_iter().collect();
        let mut found = BTreeSet::new();
        while let Some(package) = open.pop().and_then(|id| self.packages.get(id)) {
            for id in &package.links {
                if seen.insert(id.as_str()) {
                    open.push(id);
                    found.extend(self.packages.get(id).map(|each| each.name.as_str()));
                }
            }
        }
        found
    }
}

/// Asks cargo.
pub(super) fn read(root: &Path) -> anyhow::Result<Workspace> {
    let output = shell::cargo(&["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let root = root.canonicalize().context("no workspace folder")?;
    parse(&serde_json::from_slice(&output.stdout)?, &root.display().to_string())
}

fn parse(data: &Value, root: &str) -> anyhow::Result<Workspace> {
    let mut workspace = Workspace::default();
    let members: BTreeSet<&str> =
        list(&data["workspace_members"]).filter_map(Value::as_str).collect();
    let mut names = BTreeSet::new();
    for package in list(&data["packages"]) {
        let id = text(&package["id"])?;
        let name = text(&package["name"])?;
        let licence = package["license"].as_str().map(str::to_owned);
        let version = text(&package["version"])?;
        if members.contains(id.as_str()) {
            names.insert(name.clone());
            let member = Member {
                id: id.clone(),
                manifest: relative(&package["manifest_path"], root)?,
                root_file: root_file(package, root)?,
                edges: local_edges(package),
            };
            workspace.members.insert(name.clone(), member);
        }
        workspace.packages.insert(id, Package { name, version, licence, links: Vec::new() });
    }
    for member in workspace.members.values_mut() {
        member.edges.retain(|name| names.contains(name));
    }
    for node in list(&data["resolve"]["nodes"]) {
        let links = list(&node["deps"]).filter(|each| is_linked(&each["dep_kinds"]));
        let links = links.filter_map(|each| each["pkg"].as_str().map(str::to_owned)).collect();
        if let Some(package) = workspace.packages.get_mut(node["id"].as_str().unwrap_or_default()) {
            package.links = links;
        }
    }
    Ok(workspace)
}

fn local_edges(package: &Value) -> BTreeSet<String> {
    list(&package["dependencies"])
        .filter(|each| each["path"].is_string() && each["kind"] != "dev")
        .filter_map(|each| each["name"].as_str().map(str::to_owned))
        .collect()
}

fn is_linked(kinds: &Value) -> bool {
    list(kinds).any(|each| each["kind"] != "dev")
}

fn root_file(package: &Value, root: &str) -> anyhow::Result<String> {
    let targets: Vec<&Value> = list(&package["targets"]).collect();
    let of_kind = |kind: &str| {
        targets.iter().find(|target| list(&target["kind"]).any(|each| each == kind)).copied()
    };
    let target = of_kind("lib").or(of_kind("bin")).context("a crate without a target")?;
    relative(&target["src_path"], root)
}

fn relative(path: &Value, root: &str) -> anyhow::Result<String> {
    let path = text(path)?;
    Ok(path.strip_prefix(root).unwrap_or(&path).trim_start_matches('/').to_owned())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().context("cargo metadata has another form")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn crates_and_graph_are_read() {
        let package = |id: &str, dependencies: Value| {
            json!({
                "id": id, "name": id, "version": "1.0.0", "license": "MIT",
                "manifest_path": format!("/r/crates/{id}/Cargo.toml"),
                "targets": [{"kind": ["lib"], "src_path": format!("/r/crates/{id}/src/lib.rs")}],
                "dependencies": dependencies,
            })
        };
        let data = json!({
            "workspace_members": ["a", "b"],
            "packages": [
                package("a", json!([
                    {"name": "b", "path": "/r/crates/b", "kind": null},
                    {"name": "tokio", "kind": "dev"},
                ])),
                package("b", json!([{"name": "a", "path": "/r/crates/a", "kind": "dev"}])),
                package("tokio", json!([])),
                package("cudarc", json!([])),
            ],
            "resolve": {"nodes": [
                {"id": "a", "deps": [
                    {"pkg": "b", "dep_kinds": [{"kind": null}]},
                    {"pkg": "tokio", "dep_kinds": [{"kind": "dev"}]},
                ]},
                {"id": "b", "deps": [{"pkg": "cudarc", "dep_kinds": [{"kind": null}]}]},
            ]},
        });
        let workspace = parse(&data, "/r").unwrap();
        assert_eq!(workspace.members["a"].root_file, "crates/a/src/lib.rs");
        assert_eq!(workspace.members["a"].edges, BTreeSet::from(["b".to_owned()]));
        assert!(workspace.members["b"].edges.is_empty());
        assert_eq!(workspace.reaches("a"), BTreeSet::from(["b", "cudarc"]));
    }
}
