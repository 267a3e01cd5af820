//! Which crate may use which, and what no crate behind a wall may reach.

use std::collections::BTreeSet;

use super::Violation;
use super::metadata::Workspace;

/// What a crate uses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Uses {
    Exactly(&'static [&'static str]),
    Anything,
}

/// Each crate with the crates that it uses.
pub(super) const TABLE: [(&str, Uses); 13] = [
    ("pipeline", Uses::Exactly(&[])),
    ("ptx-sim", Uses::Exactly(&[])),
    ("device", Uses::Exactly(&["ptx-sim"])),
    ("sandbox", Uses::Exactly(&["pipeline"])),
    ("runner", Uses::Exactly(&["device", "pipeline", "ptx-sim", "sandbox"])),
    ("judge", Uses::Exactly(&["pipeline", "sandbox"])),
    ("llm", Uses::Exactly(&["pipeline"])),
    ("fleet", Uses::Exactly(&["judge", "pipeline"])),
    ("store", Uses::Exactly(&["pipeline"])),
    ("agent", Uses::Exactly(&["judge", "llm", "pipeline", "store"])),
    ("fuzzing", Uses::Exactly(&["device", "llm", "pipeline", "ptx-sim", "sandbox"])),
    ("warpwright", Uses::Anything),
    ("xtask", Uses::Exactly(&[])),
];

/// A crate and a package that it must not reach, and why.
const WALLS: [(&str, &str, &str); 7] = [
    ("pipeline", "tokio", SYNCHRONOUS),
    ("ptx-sim", "tokio", SYNCHRONOUS),
    ("device", "tokio", SYNCHRONOUS),
    ("runner", "tokio", SYNCHRONOUS),
    ("sandbox", "tokio", SYNCHRONOUS),
    ("judge", "tokio", SYNCHRONOUS),
    ("agent", "cudarc", "it must not link what it confines"),
];

const SYNCHRONOUS: &str = "it is synchronous";

/// The edges are those of the table.
pub(super) fn check(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, member) in &workspace.members {
        let Some((_, uses)) = TABLE.iter().find(|(known, _)| known == name) else {
            let message = format!("crate {name} is not in the table of edges of tidy");
            found.push(Violation::new(&member.manifest, 1, message));
            continue;
        };
        let Uses::Exactly(expected) = uses else { continue };
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let actual: BTreeSet<&str> = member.edges.iter().map(String::as_str).collect();
        for extra in actual.difference(&expected) {
            let message = format!("crate {name} may not use {extra}");
            found.push(Violation::new(&member.manifest, 1, message));
        }
        for missing in expected.difference(&actual) {
            let message =
                format!("crate {name} no longer uses {missing}: change the table of edges");
            found.push(Violation::new(&member.manifest, 1, message));
        }
    }
    found
}

/// What is behind a wall is not reached, not even through others.
pub(super) fn check_walls(workspace: &Workspace) -> Vec<Violation> {
    WALLS
        .iter()
        .filter_map(|(name, package, why)| {
            let member = workspace.members.get(*name)?;
            let message = format!("crate {name} reaches {package}: {why}");
            workspace
                .reaches(name)
                .contains(package)
                .then(|| Violation::new(&member.manifest, 1, message))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::metadata::{Member, Package};
    use super::*;

    fn workspace(name: &str, edges: &[&str]) -> Workspace {
        let mut workspace = Workspace::default();
        let member = Member {
            id: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            edges: edges.iter().map(|edge| (*edge).to_owned()).collect(),
            ..Member::default()
        };
        workspace.members.insert(name.to_owned(), member);
        workspace
    }

    #[test]
    fn edges_must_equal_the_table() {
        assert_eq!(check(&workspace("device", &["ptx-sim"])), []);
        assert_eq!(check(&workspace("warpwright", &["judge"])), []);
        let extra = check(&workspace("device", &["ptx-sim", "pipeline"]));
        assert!(extra[0].message.contains("may not use pipeline"));
        let missing = check(&workspace("device", &[]));
        assert!(missing[0].message.contains("no longer uses ptx-sim"));
        assert!(check(&workspace("new", &[]))[0].message.contains("not in the table"));
    }

    #[test]
    fn walls_hold_through_others() {
        let mut workspace = workspace("agent", &[]);
        let package = |name: &str, links: &[&str]| Package {
            name: name.to_owned(),
            links: links.iter().map(|link| (*link).to_owned()).collect(),
            ..Package::default()
        };
        workspace.packages.insert("agent".to_owned(), package("agent", &["between"]));
        workspace.packages.insert("between".to_owned(), package("between", &[]));
        assert_eq!(check_walls(&workspace), []);
        workspace.packages.insert("between".to_owned(), package("between", &["c"]));
        workspace.packages.insert("c".to_owned(), package("cudarc", &[]));
        assert!(check_walls(&workspace)[0].message.contains("agent reaches cudarc"));
    }
}
