//! Containers run as a plain user, on a root that is read-only, with no privilege: in the
//! Dockerfiles and in every command that a page shows.

use super::Violation;
use super::source::Tree;

const DOCKERFILES: [&str; 2] = ["docker/Dockerfile", "docker/Dockerfile.worker"];
/// The stage that nothing is started from.
const BUILDER: &str = "builder";
/// What every `docker run` that is written out says.
const WANTED: [&str; 3] = ["--read-only", "--cap-drop ALL", "no-new-privileges"];
/// What none says, in any file of the folder.
const UNWANTED: [&str; 9] = [
    "--privileged",
    "privileged: true",
    "--cap-add",
    "seccomp=unconfined",
    "apparmor=unconfined",
    "docker.sock",
    "--pid host",
    "--pid=host",
    "--user 0",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for path in DOCKERFILES {
        match tree.get(path) {
            Some(file) => found.extend(check_users(path, &file.text)),
            None => found.push(Violation::new(path, 1, "there is no such Dockerfile")),
        }
    }
    let here = |path: &str| path.starts_with("docker/") || path.ends_with(".md");
    for file in tree.files.values().filter(|file| here(&file.path)) {
        found.extend(check_commands(&file.path, &file.text));
    }
    found
}

/// Each stage that a container may be started from ends as a user with a number other than 0.
fn check_users(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    // Each stage with its line and its last user, which a stage made from it begins with.
    let mut stages: Vec<(&str, usize, &str)> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let words: Vec<_> = text.split_whitespace().collect();
        match words.as_slice() {
            ["FROM", image, "AS", name] => {
                let known = stages.iter().find(|(known, _, _)| known == image);
                // An image of ours ends as the other file says.
                let first = if image.contains("PROGRAM_IMAGE") { "1000:1000" } else { "root" };
                stages.push((name, line, known.map_or(first, |(_, _, user)| user)));
            }
            ["FROM", ..] => found.push(Violation::new(path, line, "a stage needs a name")),
            ["USER", user] => {
                if let Some((_, _, last)) = stages.last_mut() {
                    *last = user;
                }
            }
            _ => {}
        }
    }
    let runs = stages.iter().filter(|(name, _, _)| *name != BUILDER);
    for (name, line, user) in runs.filter(|(_, _, user)| !is_plain_user(user)) {
        let message = format!("the stage `{name}` ends as user `{user}`");
        found.push(Violation::new(path, *line, message));
    }
    found
}

fn is_plain_user(user: &str) -> bool {
    user.split(':').next().and_then(|id| id.parse::<u32>().ok()).is_some_and(|id| id > 0)
}

fn check_commands(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for unwanted in UNWANTED.iter().filter(|it| text.contains(**it)) {
            found.push(Violation::new(path, line, format!("`{unwanted}` is a privilege")));
        }
    }
    let lines: Vec<_> = text.lines().collect();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.contains("docker run ")) {
        let goes_on = lines[at..].iter().take_while(|line| line.ends_with('\\')).count();
        let command = lines[at..lines.len().min(at + goes_on + 1)].join(" ");
        // One that is cut short stands for the whole one beside it.
        let cut_short = command.contains("docker run ...");
        for wanted in WANTED.iter().filter(|it| !cut_short && !command.contains(**it)) {
            let message = format!("this `docker run` does not say {wanted}");
            found.push(Violation::new(path, at + 1, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{check_commands, check_users};

    #[test]
    fn a_stage_that_runs_is_a_plain_user_s() {
        let good = "FROM a AS builder\nRUN make\nFROM b AS bare\nUSER 1000:1000\n\
                    FROM bare AS more\nUSER 0:0\nRUN x\nUSER 1000:1000\n\
                    FROM bare AS last\nCOPY a b\n";
        assert_eq!(check_users("f", good), []);
        for (text, line) in [
            ("FROM a AS bare\nRUN x\n", 1),
            ("FROM a AS bare\nUSER 1000\nUSER 0:0\n", 1),
            ("FROM a AS bare\nUSER root\n", 1),
            ("FROM a AS bare\nUSER 7\nFROM bare AS more\nUSER 0\nFROM more AS last\n", 3),
            ("FROM a\nUSER 7\n", 1),
        ] {
            let found = check_users("f", text);
            assert_eq!(found.first().map(|it| it.line), Some(line), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_command_gives_no_privilege() {
        let good = "x\ndocker run --rm --cap-drop ALL --security-opt no-new-privileges \\\n    \
                    --read-only image\ndocker run ... --env KEY ... image\n";
        assert_eq!(check_commands("f", good), []);
        for (text, line, word) in [
            ("a\ndocker run --rm image\n", 2, "--read-only"),
            ("docker run --read-only --cap-drop ALL \\\n  image\n", 1, "no-new-privileges"),
            ("a\nb --privileged\n", 2, "--privileged"),
            ("--volume /var/run/docker.sock:/x\n", 1, "docker.sock"),
        ] {
            let found = check_commands("f", text);
            let first = found.first().unwrap();
            assert!(first.line == line && first.message.contains(word), "{text}: {found:?}");
        }
    }
}
