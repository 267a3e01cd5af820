//! What may go out: claims that a person approved, and nothing private.

use std::os::unix::fs::PermissionsExt;

use pipeline::comparison::Suspicion;
use store::Store;

use crate::claims::{accepted, with_kernel};
use crate::program::{Ended, Program};

const REQUIRED: [(&str, &str); 1] = [("WARPWRIGHT_REQUIRE_REVIEW", "true")];
const NUMBER: &str = "1.250x";

/// Exports under `require_review`; true where a file came of it.
fn exported(program: &Program, name: &str) -> (Ended, bool) {
    let path = program.path(name);
    let out = path.display().to_string();
    let ended = program.call_with(&["export", "@last", "--out", &out], &REQUIRED);
    (ended, path.exists())
}

/// Every place where a claim leaves the ledger says its number, or none does.
fn shows(program: &Program, shown: bool) {
    for arguments in [&["report", "@last"][..], &["report", "@last", "--json"]] {
        let ended = program.call_with(arguments, &REQUIRED);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let told = ended.stdout.contains(NUMBER) || ended.stdout.contains("\"ratio\"");
        assert_eq!(told, shown, "{arguments:?}: {}", ended.stdout);
        assert_eq!(ended.stdout.contains("review approve"), !shown, "{}", ended.stdout);
    }
}

#[tokio::test]
async fn no_claim_goes_out_before_a_person_approves_it() {
    let program = with_kernel();
    accepted(&program, None).await;
    let (refused, made) = exported(&program, "early.bundle");
    assert!(refused.code == Some(2) && !made, "{}", refused.stdout);
    assert!(refused.stderr.contains("waits for a person"), "{}", refused.stderr);
    assert!(refused.stderr.contains("review approve"), "{}", refused.stderr);
    shows(&program, false);
    let listed = program.call_with(&["review", "list"], &REQUIRED);
    assert!(listed.stdout.contains(NUMBER), "who reviews sees it: {}", listed.stdout);
    let silent = program.call(&["review", "approve", "@last:1"]);
    assert!(silent.code == Some(2) && silent.stderr.contains("--reason"), "{}", silent.stderr);
    refuses_what_may_not_go_out(&program);

    decide(&program, "reject", "the driver was old", &["--by", "ada"]);
    let (refused, made) = exported(&program, "rejected.bundle");
    assert!(refused.code == Some(2) && !made, "{}", refused.stdout);
    assert!(refused.stderr.contains("rejected by ada: the driver was old"), "{}", refused.stderr);
    shows(&program, false);
    let listed = program.call_with(&["review"], &REQUIRED);
    assert!(listed.stdout.contains("nothing waits"), "{}", listed.stdout);

    decide(&program, "approve", "measured again", &["--by", "bob"]);
    let (ended, made) = exported(&program, "approved.bundle");
    assert!(ended.code == Some(0) && made, "{}{}", ended.stdout, ended.stderr);
    let mode = program.path("approved.bundle").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "what goes out does so by hand");
    shows(&program, true);
    let again = program.call(&["review", "approve", "@last:1", "--reason", "x"]);
    assert!(again.code == Some(2) && again.stderr.contains("approved by bob"), "{}", again.stderr);
    let history = program.call(&["review", "list", "@last:1", "--json"]).closing();
    let decisions = history["claims"][0]["decisions"].as_array().unwrap();
    let by: Vec<_> = decisions.iter().map(|it| it["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["ada", "bob"]);
    assert!(decisions.iter().all(|it| it["at_us"].as_i64().unwrap() > 1_000_000_000_000_000));
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

/// A reason goes out with the claim, where nothing is taken out of it any more.
fn refuses_what_may_not_go_out(program: &Program) {
    let long = "x".repeat(1_001);
    for (more, word) in [
        (&["--reason", " "][..], "say why, with --reason TEXT"),
        (&["--reason", "fine", "--by", " "], "say who decides, with --by TEXT"),
        (&["--reason", &long], "--reason has more than 1000 bytes"),
        (&["--reason", "fine", "--by", &long[..101]], "--by has more than 100 bytes"),
        (&["--reason", "as the hush-hush says"], "--reason holds the value of MY_API_KEY"),
    ] {
        let arguments = [&["review", "approve", "@last:1"][..], more].concat();
        let ended = program.call_with(&arguments, &[("MY_API_KEY", "hush-hush")]);
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        assert!(ended.stderr.contains(word) && !ended.stderr.contains("hush"), "{}", ended.stderr);
    }
}

fn decide(program: &Program, what: &str, reason: &str, by: &[&str]) {
    let arguments = [&["review", what, "@last:1", "--reason", reason][..], by].concat();
    let ended = program.call(&arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains(reason), "{}", ended.stdout);
}

#[tokio::test]
async fn the_name_is_the_users_and_the_setting_is_in_the_file_too() {
    let program = with_kernel();
    accepted(&program, None).await;
    let path = program.path("claim.bundle").display().to_string();
    std::fs::write(program.path("warpwright.toml"), "require_review = true\n").unwrap();
    assert_eq!(program.call(&["export", "@last", "--out", &path]).code, Some(2));
    let bad = [("WARPWRIGHT_REQUIRE_REVIEW", "maybe")];
    let ended = program.call_with(&["export", "@last", "--out", &path], &bad);
    assert!(ended.code == Some(2) && ended.stderr.contains("write true or false"));
    let approve = ["review", "approve", "@last", "--reason", "fine"];
    let ended = program.call_with(&approve, &[("USER", "grace")]);
    assert!(ended.stdout.contains("approved by grace (uid "), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(program.call(&["export", "@last", "--out", &path]).code, Some(0));
}

/// A selector that means several things decides about none of them.
#[tokio::test]
async fn one_decision_is_about_one_thing() {
    let program = with_kernel();
    accepted(&program, None).await;
    let (suspect, _) = accepted(&program, Some(Suspicion::Physics)).await;
    let store = Store::open_read_only(&program.ledger()).await.unwrap();
    let claim = store.claims().await.unwrap().remove(0).id;
    for what in ["approve", "reject"] {
        let ended = program.call(&["review", what, "@last", "--reason", "x"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        for id in [suspect.as_str(), claim.as_str()] {
            assert!(ended.stderr.contains(id), "{}", ended.stderr);
        }
    }
    let ended = program.call(&["review", "approve", claim.as_str(), "--reason", "looked at"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // The claim is approved: only the other is left.
    let ended = program.call(&["review", "approve", "@last", "--reason", "the floor is off"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains(": accepted"), "{}", ended.stdout);
    assert_eq!(program.call(&["review", "approve", "@last", "--reason", "x"]).code, Some(2));
}

/// What somebody changes in the ledger does not go unnoticed.
#[tokio::test]
async fn a_forged_approval_is_found() {
    let program = with_kernel();
    accepted(&program, None).await;
    decide(&program, "reject", "no", &["--by", "ada"]);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    // Folds the write-ahead log into the file.
    Store::open(&program.ledger()).await.unwrap().close().await;
    let bytes = std::fs::read(program.ledger()).unwrap();
    let places = |needle: &[u8], bytes: &[u8]| {
        let found = bytes.windows(needle.len()).enumerate();
        found.filter(|(_, it)| *it == needle).map(|(at, _)| at).collect::<Vec<_>>()
    };
    // As somebody with the file could: what the row says, and not what the event does.
    let row = places(b"rejectednoada", &bytes);
    assert_eq!(row.len(), 1, "decision, reason and reviewer stand side by side");
    for (at, text, field) in [(10, "eve", "`reviewer`"), (0, "accepted", "`decision`")] {
        let mut forged = bytes.clone();
        forged[row[0] + at..][..text.len()].copy_from_slice(text.as_bytes());
        std::fs::write(program.ledger(), forged).unwrap();
        let ended = program.call(&["ledger", "verify"]);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(7) && said.contains(field), "{said}");
        // Nor does a claim go out by it.
        let (ended, made) = exported(&program, "forged.bundle");
        assert!(ended.code == Some(7) && !made, "{}", ended.stdout);
        assert!(ended.stderr.contains(field), "{}", ended.stderr);
        let ended = program.call_with(&["report", "@last"], &REQUIRED);
        assert_eq!(ended.code, Some(7), "{}", ended.stdout);
        assert!(!ended.stdout.contains(NUMBER), "{}", ended.stdout);
    }
}

#[tokio::test]
async fn nothing_private_leaves_in_a_bundle() {
    let program = with_kernel();
    accepted(&program, None).await;
    let path = program.path("claim.bundle").display().to_string();
    // What is in the bundle happens to hold the value of a secret.
    for (value, place, way_out) in [
        ("__global__", "`kernel.cu` in line ", "take it out of the kernel"),
        ("memory_bandwidth", "`plan.toml` in line ", "take it out of the plan"),
        ("headline", "`entries.json` in line 1 ", "accept it anew"),
        ("inputs rounded to bf16", "`manifest.json` in line ", "accept it anew"),
        ("review_note", "`manifest.json` in line ", "accept it anew"),
        ("propagate", "`task/task.toml` in line ", "take it out of the task"),
        ("reference.py", "the name of a file of its task ", "take it out of the task"),
    ] {
        let secret = [("MY_API_KEY", value)];
        let ended = program.call_with(&["export", "@last", "--out", &path], &secret);
        assert_eq!(ended.code, Some(2), "{value}: {}", ended.stdout);
        let said = ended.stderr;
        assert!(said.contains(place) && said.contains("holds the value of MY_API_KEY"), "{said}");
        assert!(said.contains(way_out) && !said.contains(value), "{said}");
        assert!(!program.path("claim.bundle").exists());
    }
}
