//! The doctor asks a model, and a dollar limit asks for a price.

use llm::conformance::{HttpScript, Play};
use pipeline::transcript::Usage;

use crate::program::Program;
use crate::server::{call, settings};

#[test]
fn the_doctor_asks_one_small_question() {
    let fences =
        "```cuda\nextern \"C\" __global__ void probe() {}\n```\n\n```toml\nplan = 1\n```\n";
    for (play, code, parts) in [
        (
            Play::stream(&[fences], Some(Usage::of(60, 40))),
            0,
            ["both fences are read", "cost of this question: 0.0004 dollars"],
        ),
        (Play::stream(&[fences], None), 4, ["NO  usage", "booked at its worst case"]),
        (Play::stream(&["no"], Some(Usage::of(60, 40))), 4, ["NO  reply format", "60 in"]),
        (Play::response(401, &[], "{}"), 4, ["NO  answer", "check the key"]),
    ] {
        let program = Program::new();
        let server = HttpScript::start(vec![play]).unwrap();
        settings(&program, &server, "");
        let ended = call(&program, &["doctor", "--model", "served"]);
        assert_eq!(ended.code, Some(code), "{} {}", ended.stdout, ended.stderr);
        for part in parts {
            assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
        }
        assert_eq!(server.asked()[0].json()["max_completion_tokens"], 2_000);
        assert!(!program.ledger().exists());
    }
}

#[test]
fn a_dollar_limit_needs_a_price_and_says_which_lines_mend_it() {
    let program = Program::new();
    let text = "[model.x]\nkind = 'openai'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:9/v1'\n";
    std::fs::write(program.path("warpwright.toml"), text).unwrap();
    let ended = program.call(&["run", "vector_add", "--model", "x", "--dollars", "1"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("price = { input = 2.0"), "{}", ended.stderr);
    assert!(!program.ledger().exists());
}
