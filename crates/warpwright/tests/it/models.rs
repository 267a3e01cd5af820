//! Every kind of model drives a run over all built-in tasks.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pipeline::transcript::{Entry, write};

use crate::program::{Program, entry};

const TASKS: [&str; 6] =
    ["gelu", "layer_norm", "matmul_f32", "reduce_sum_rows", "softmax_rows", "vector_add"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn reply(task: &str) -> String {
    std::fs::read_to_string(examples().join(format!("replies/{task}.1.md"))).unwrap()
}

/// Runs every task once and checks that each got its right kernel.
fn run_all(program: &Program, model: &str) {
    let ended = program.call(&["run", "all", "--model", model, "--attempts", "6", "--json"]);
    assert_eq!(ended.code, Some(0), "{model}: {} {}", ended.stdout, ended.stderr);
    let closing = ended.closing();
    assert_eq!((&closing["attempts"], &closing["kind"]), (&6.into(), &"done".into()));
    let report = program.run_report();
    let tasks = report["tasks"].as_array().unwrap();
    let names: Vec<_> = tasks.iter().map(|task| task["task"].as_str().unwrap()).collect();
    assert_eq!(names, TASKS);
    for task in tasks {
        assert_eq!(task["best"], 1, "{task}");
        assert_eq!(task["attempts"].as_array().unwrap().len(), 1);
    }
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn a_transcript_answers_every_task() {
    let program = Program::new();
    let of = |task: &&str| Entry { task: (*task).to_owned(), ..entry(1, &reply(task)) };
    let path = program.path("all.jsonl");
    std::fs::write(&path, write(&TASKS.iter().map(of).collect::<Vec<_>>())).unwrap();
    run_all(&program, &format!("replay:{}", path.display()));
    several_tasks_are_pointed_at_by_name(&program);
}

fn several_tasks_are_pointed_at_by_name(program: &Program) {
    for (selector, code, part) in [
        ("@last:gelu:1", 0, "gelu #1"),
        ("@last:gelu:best", 0, "normcdff"),
        ("@last:gelu", 0, "#1   first"),
        ("gelu@best", 0, "gelu #1"),
        ("@last:1", 2, "write RUN:TASK:1, with one of gelu, layer_norm"),
        ("@last:relu:1", 2, "has no task `relu`"),
        ("@last:gelu:2", 2, "no attempt 2 at gelu"),
        ("@last:gelu:x", 2, "`x` is no attempt"),
    ] {
        let ended = program.call(&["show", selector]);
        assert_eq!(ended.code, Some(code), "{selector}: {} {}", ended.stdout, ended.stderr);
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert!(shown.contains(part), "{selector}: {shown}");
    }
    let out = program.path("best");
    let written = program.call(&["show", "gelu@best", "--out", out.to_str().unwrap()]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let again = program.call(&["evaluate", "gelu", out.to_str().unwrap()]);
    assert_eq!(again.code, Some(0), "{} {}", again.stdout, again.stderr);
    let refused = program.call(&["show", "gelu@best", "--out", out.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
}

#[test]
fn a_report_of_several_tasks_has_an_overview() {
    let program = Program::new();
    let of = |task: &&str| Entry { task: (*task).to_owned(), ..entry(1, &reply(task)) };
    let path = program.path("all.jsonl");
    std::fs::write(&path, write(&TASKS.iter().map(of).collect::<Vec<_>>())).unwrap();
    let model = format!("replay:{}", path.display());
    let arguments = ["run", "gelu", "vector_add", "--model", &model, "--attempts", "2"];
    assert_eq!(program.call(&arguments).code, Some(0));
    let markdown = program.call(&["report"]).stdout;
    assert!(markdown.contains("| gelu | 1 | 1 | #1, estimate"), "{markdown}");
    assert!(markdown.contains("## vector_add"), "{markdown}");
    let status = program.call(&["status", "@last"]).stdout;
    assert!(status.contains("best      #1  vector_add (1 attempt)"), "{status}");
}

/// Answers what is open in a mailbox until it is dropped.
struct Answerer(Child);

impl Answerer {
    fn start(mailbox: &Path, replies: &Path) -> Self {
        let lines = "while true; do python3 \"$0\" \"$1\" \"$2\"; sleep 0.1; done";
        let script = examples().join("mailbox_answerer.py");
        let child = Command::new("sh")
            .args(["-c", lines])
            .args([&script, mailbox, replies])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mailbox_answers_every_task() {
    let program = Program::new();
    let mailbox = program.path("mailbox");
    std::fs::create_dir(&mailbox).unwrap();
    let _answerer = Answerer::start(&mailbox, &examples().join("replies"));
    run_all(&program, &format!("mailbox:{}", mailbox.display()));
}

#[test]
fn a_person_who_refuses_ends_one_attempt_and_not_the_run() {
    let program = Program::new();
    let (mailbox, replies) = (program.path("mailbox"), program.path("replies"));
    std::fs::create_dir(&mailbox).unwrap();
    std::fs::create_dir(&replies).unwrap();
    std::fs::write(replies.join("vector_add.1.refuse"), "not today").unwrap();
    std::fs::write(replies.join("vector_add.2.md"), reply("vector_add")).unwrap();
    let _answerer = Answerer::start(&mailbox, &replies);
    let model = format!("mailbox:{}", mailbox.display());
    let ended = program.call(&["run", "vector_add", "--model", &model, "--attempts", "2"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let verdicts = program.verdicts();
    assert!(verdicts[0].contains("the model refused to answer: not today"), "{verdicts:?}");
    assert_eq!(verdicts[1], "Correct ");
}

#[test]
fn a_program_answers_every_task() {
    let program = Program::new();
    let (script, replies) = (examples().join("command_model.sh"), examples().join("replies"));
    let settings = format!(
        "default_model = 'script'\n[model.script]\nkind = 'command'\nprompt_form = 'json'\n\
         price = 'free'\ncommand = ['sh', '{}', '{}']\n",
        script.display(),
        replies.display()
    );
    std::fs::write(program.path("warpwright.toml"), settings).unwrap();
    run_all(&program, "script");
    // The settings file names the model, and a second question has no answer.
    let ended = program.call(&["run", "vector_add", "--attempts", "2", "--dollars", "1"]);
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("the model cannot go on (refused)"), "{}", ended.stdout);
    assert_eq!(program.verdicts(), ["Correct "]);
}

#[test]
fn an_absurd_price_of_a_program_is_not_believed() {
    let program = Program::new();
    let script = program.path("model.sh");
    let line = "cat > /dev/null; echo '{\"reply\":\"hm\",\"cost_usd\":1e300,\
                \"usage\":{\"input_tokens\":9,\"output_tokens\":9}}'";
    std::fs::write(&script, line).unwrap();
    let settings = format!(
        "[model.s]\nkind = 'command'\nreply_form = 'json'\ncommand = ['sh', '{}']\n\
         price = {{ input = 1.0, output = 1.0 }}\n",
        script.display()
    );
    std::fs::write(program.path("warpwright.toml"), settings).unwrap();
    let ended = program.call(&["run", "vector_add", "--model", "s", "--attempts", "3"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let status = program.call(&["status", "@last", "--json"]).closing();
    assert_eq!(status["settled_nusd"], 3 * 18_000);
}

#[test]
fn several_models_are_asked_in_turn_also_after_a_kill() {
    let program = Program::new();
    let of = |model: &str| {
        let entries = (1..=4).map(|seq| Entry { model: model.to_owned(), ..entry(seq, "none") });
        let path = program.path(&format!("{model}.jsonl"));
        std::fs::write(&path, write(&entries.collect::<Vec<_>>())).unwrap();
        format!("replay:{}", path.display())
    };
    let (first, second) = (of("first"), of("second"));
    let arguments =
        ["run", "softmax_rows", "--model", &first, "--model", &second, "--attempts", "4"];
    let killed = program.call_with(&arguments, &[("WARPWRIGHT_KILL_AT", "sent:2")]);
    assert_eq!(killed.signal, Some(9), "{}", killed.stderr);
    let resumed = program.call(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    for (seq, model) in [(1, "first"), (2, "second"), (3, "first"), (4, "second")] {
        let shown = program.call(&["show", &format!("@last:{seq}"), "--json"]).closing();
        assert_eq!(shown["calls"][0]["model"], model, "{seq}");
        assert_eq!(shown["calls"].as_array().unwrap().len(), 1, "{seq}");
    }
}
