//! Settings: what wins over what, what is stored with a run, and what bad files say.

use pipeline::transcript::{Entry, write};

use crate::program::{Program, entry};

/// A transcript of replies that are closed without a compiler, for several tasks.
fn transcript(program: &Program) -> String {
    let entries = ["vector_add", "gelu"].into_iter().flat_map(|task| {
        (1..=9).map(move |seq| Entry { task: task.to_owned(), ..entry(seq, "no fences") })
    });
    let path = program.path("replies.jsonl");
    std::fs::write(&path, write(&entries.collect::<Vec<_>>())).unwrap();
    path.display().to_string()
}

fn limits(program: &Program) -> String {
    let status = program.call(&["status", "@last"]).stdout;
    status.lines().find(|line| line.starts_with("limits")).unwrap().to_owned()
}

#[test]
fn flags_win_over_the_environment_over_run_files_over_the_settings_file() {
    let program = Program::new();
    let file = transcript(&program);
    let settings = format!(
        "default_model = 'recorded'\n[model.recorded]\nkind = 'replay'\nfile = '{file}'\n\
         [budget]\nattempts = 1\ntokens = 1000000\n"
    );
    std::fs::write(program.path("warpwright.toml"), settings).unwrap();
    let run_file = "run = 1\n[budget]\nattempts = 2\n[[operator]]\ntask = 'vector_add'\n";
    std::fs::write(program.path("run.toml"), run_file).unwrap();
    let environment = [("WARPWRIGHT_ATTEMPTS", "3")];
    for (arguments, environment, attempts) in [
        (vec!["run", "vector_add"], &[][..], 1),
        (vec!["run", "run.toml"], &[], 2),
        (vec!["run", "run.toml"], &environment, 3),
        (vec!["run", "run.toml", "--attempts", "4"], &environment, 4),
    ] {
        let ended = program.call_with(&arguments, environment);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {} {}", ended.stdout, ended.stderr);
        assert_eq!(program.verdicts().len(), attempts, "{arguments:?}");
        let limits = limits(&program);
        let s = if attempts == 1 { "" } else { "s" };
        assert!(limits.contains(&format!("{attempts} attempt{s}, ")), "{limits}");
        assert!(limits.contains(" of 1000000 tokens"), "{limits}");
    }
    // The settings are stored: without their file, the run goes on as it was.
    std::fs::remove_file(program.path("warpwright.toml")).unwrap();
    let resumed = program.call(&["resume", "--attempts", "5"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(limits(&program).contains(" of 1000000 tokens"));
}

#[test]
fn a_run_file_names_operators_with_their_own_limits() {
    let program = Program::new();
    let file = transcript(&program);
    let text = format!(
        "run = 1\nmodels = ['replay:{file}']\nuntil = '2999-01-01T00:00:00Z'\n\
         [budget]\nattempts = 7\n\
         [[operator]]\ntask = 'vector_add'\nweight = 2.5\nclasses = ['fp32']\ntarget = 1.5\n\
         [[operator]]\ntask = 'gelu'\nattempts = 2\n"
    );
    std::fs::write(program.path("night.toml"), text).unwrap();
    let ended = program.call(&["run", "night.toml", "--json"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("the target of `vector_add`"), "{}", ended.stderr);
    let tasks = ended.closing()["tasks"].clone();
    let attempts = |index: usize| tasks[index]["attempts"].as_u64().unwrap();
    assert_eq!((attempts(0), attempts(1)), (5, 2), "{tasks}");
    assert!(limits(&program).contains("until 2999-01-01") || limits(&program).contains("2998-12"));
}

#[test]
fn a_resumed_run_keeps_its_limits_whatever_the_environment_says() {
    let program = Program::new();
    let file = transcript(&program);
    let text = format!(
        "run = 1\nmodels = ['replay:{file}']\n[budget]\nattempts = 4\ntokens = 900000\n\
         [[operator]]\ntask = 'vector_add'\nattempts = 3\n"
    );
    std::fs::write(program.path("night.toml"), text).unwrap();
    let killed = program.call_with(&["run", "night.toml"], &[("WARPWRIGHT_KILL_AT", "asked:2")]);
    assert_eq!(killed.signal, Some(9), "{}", killed.stderr);
    let environment = [
        ("WARPWRIGHT_ATTEMPTS", "9"),
        ("WARPWRIGHT_TOKENS", "5"),
        ("WARPWRIGHT_DOLLARS", "1"),
        ("WARPWRIGHT_HOURS", "1"),
    ];
    let resumed = program.call_with(&["resume"], &environment);
    assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
    assert_eq!(program.verdicts().len(), 3);
    let kept = limits(&program);
    assert!(kept.ends_with("of 900000 tokens") && kept.contains("4 attempts"), "{kept}");
    // What the run may do in all can grow, and what its operator may do with it, which is said.
    let more = program.call(&["resume", "--attempts", "9"]);
    assert_eq!(more.code, Some(0), "{} {}", more.stdout, more.stderr);
    assert!(more.stderr.contains("grow in proportion"), "{}", more.stderr);
    assert_eq!(program.verdicts().len(), 9);
    let bad = program.call_with(&["run", "night.toml"], &[("WARPWRIGHT_HOURS", "soon")]);
    assert!(bad.stderr.contains("WARPWRIGHT_HOURS = `soon`"), "{}", bad.stderr);
}

#[test]
fn more_attempts_of_a_run_are_shared_by_its_tasks() {
    let program = Program::new();
    let model = format!("replay:{}", transcript(&program));
    let arguments = ["run", "vector_add", "gelu", "--model", &model, "--attempts", "2"];
    assert_eq!(program.call(&arguments).code, Some(0));
    let resumed = program.call(&["resume", "--attempts", "6", "--json"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let tasks = resumed.closing()["tasks"].clone();
    assert_eq!((&tasks[0]["attempts"], &tasks[1]["attempts"]), (&3.into(), &3.into()), "{tasks}");
}

#[test]
fn bad_files_are_named_with_the_way_out() {
    let operator = "[[operator]]\ntask = 'gelu'\n";
    for (text, part) in [
        ("run = 2\n".to_owned() + operator, "this program reads run = 1"),
        ("run = 1\noperator = []\n".to_owned(), "name at least one task"),
        (format!("run = 1\nspeed = 9\n{operator}"), "unknown field `speed`"),
        (format!("run = 1\n{operator}classes = ['fp64']\n"), "its task admits fp32"),
        (format!("run = 1\n{operator}weight = 0.0\n"), "are numbers above 0"),
        (format!("run = 1\n{operator}{operator}"), "named twice"),
        (format!("run = 1\nuntil = 'soon'\n{operator}"), "write a time as 07:30"),
        (format!("run = 1\n[budget]\nattempts = 0\n{operator}"), "`budget.attempts = 0`"),
        (format!("run = 1\n[budget]\ndollars = -1.0\n{operator}"), "`dollars = -1`"),
        ("run = 1\n[[operator]]\ntask = 'relu'\n".to_owned(), "no task `relu`"),
        ("not toml".to_owned(), "night.toml: TOML parse error"),
    ] {
        let program = Program::new();
        std::fs::write(program.path("night.toml"), &text).unwrap();
        let ended = program.call(&["run", "night.toml", "--model", "replay:x"]);
        assert_eq!(ended.code, Some(2), "{text}: {}", ended.stdout);
        assert!(ended.stderr.contains(part), "{text}: {}", ended.stderr);
        assert!(!program.ledger().exists(), "{text}");
    }
    for (text, part) in [
        ("colour = 1\n", "unknown field `colour`"),
        ("[judge]\ndevice = 'gpu'\n", "judge.device: device `gpu`: write auto"),
        ("[model.x]\nkind = 'command'\ncommand = ['no-such-program']\n", "no program `no-such"),
        (
            "[model.x]\nkind = 'openai'\nmodel = 'm'\nprice = 3\n",
            "write \"free\", \"subscription\"",
        ),
        ("[model.x]\nkind = 'openai'\nkey = 'sk-1'\nmodel = 'm'\n", "`key` is not read"),
    ] {
        let program = Program::new();
        std::fs::write(program.path("warpwright.toml"), text).unwrap();
        let ended = program.call(&["run", "gelu", "--model", "x"]);
        assert_eq!(ended.code, Some(2), "{text}: {}", ended.stdout);
        assert!(ended.stderr.contains(part), "{text}: {}", ended.stderr);
        assert!(!ended.stderr.contains("sk-1"), "{}", ended.stderr);
    }
    let program = Program::new();
    let ended = program.call(&["run", "gelu", "--settings", "absent.toml"]);
    assert!(ended.stderr.contains("absent.toml"), "{}", ended.stderr);
    let ended = program.call(&["run", "gelu"]);
    assert!(ended.stderr.contains("no model: give --model NAME"), "{}", ended.stderr);
}

#[test]
fn init_writes_a_file_once_and_prints_the_reference() {
    let program = Program::new();
    let ended = program.call(&["init"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let text = std::fs::read_to_string(program.path("warpwright.toml")).unwrap();
    assert!(text.contains("[model.gpt]") && text.contains("# dollars = 5.0"), "{text}");
    let again = program.call(&["init"]);
    assert_eq!(again.code, Some(2), "{}", again.stdout);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    // The file works as it is: what lacks is only the key, and the price for a dollar limit.
    let priceless = program.call(&["run", "gelu", "--dollars", "1"]);
    assert!(
        priceless.stderr.contains("your provider's numbers and their day"),
        "{}",
        priceless.stderr
    );
    let keyless = program.call(&["run", "gelu"]);
    assert!(keyless.stderr.contains("set the environment variable OPENAI_API_KEY"));
    let reference = program.call(&["init", "--reference"]).stdout;
    assert!(reference.contains("| `dollars = 5.0` |"), "{reference}");
}

/// The words of a program are stored with the run, so that it can go on with it.
#[test]
fn a_program_with_a_secret_among_its_words_is_refused() {
    const SECRET: &str = "s3cr3t-of-the-test-0123456789";
    let program = Program::new();
    for (word, environment, what) in [
        (SECRET, &[("MY_API_KEY", SECRET)][..], "the value of MY_API_KEY"),
        ("--key=sk-proj-abcdefghijklmnop0123456789", &[], "key"),
    ] {
        let settings = format!(
            "default_model = 'mine'\n[model.mine]\nkind = 'command'\ncommand = ['cat', '{word}']\n\
             price = 'free'\n"
        );
        std::fs::write(program.path("warpwright.toml"), settings).unwrap();
        let ended = program.call_with(&["run", "vector_add", "--attempts", "1"], environment);
        assert_eq!(ended.code, Some(2), "{word}: {} {}", ended.stdout, ended.stderr);
        for part in ["the command of the model `mine` has ", what, "`environment`"] {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
        }
        assert!(!ended.stderr.contains(word), "{}", ended.stderr);
        let stored = std::fs::read(program.ledger()).unwrap_or_default();
        assert!(!stored.windows(word.len()).any(|window| window == word.as_bytes()));
    }
}
