//! What may go out: claims that a person approved, and nothing private.

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
    let blank = program.call(&["review", "approve", "@last:1", "--reason", " "]);
    assert_eq!(blank.code, Some(2), "{}", blank.stderr);

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
    assert!(ended.stdout.contains("approved by grace: fine"), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(program.call(&["export", "@last", "--out", &path]).code, Some(0));
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
    let mut bytes = std::fs::read(program.ledger()).unwrap();
    let places = |needle: &[u8], bytes: &[u8]| {
        let found = bytes.windows(needle.len()).enumerate();
        found.filter(|(_, it)| *it == needle).map(|(at, _)| at).collect::<Vec<_>>()
    };
    // As somebody with the file could: the row's name, and not that in the event.
    let row = places(b"rejectednoada", &bytes);
    assert_eq!(row.len(), 1, "decision, reason and reviewer stand side by side");
    bytes[row[0] + 10..row[0] + 13].copy_from_slice(b"eve");
    std::fs::write(program.ledger(), bytes).unwrap();
    let ended = program.call(&["ledger", "verify"]);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(ended.code == Some(7) && said.contains("`reviewer`"), "{said}");
}

#[tokio::test]
async fn nothing_private_leaves_in_a_bundle() {
    let program = with_kernel();
    accepted(&program, None).await;
    let path = program.path("claim.bundle").display().to_string();
    // The kernel's source happens to hold the value of a secret.
    let secret = [("MY_API_KEY", "__global__")];
    let ended = program.call_with(&["export", "@last", "--out", &path], &secret);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("`kernel.cu` holds the value of MY_API_KEY in line "));
    assert!(ended.stderr.contains("take it out of the kernel"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("__global__"), "{}", ended.stderr);
    assert!(!program.path("claim.bundle").exists());
}
