use super::{Catalogue, CatalogueError, Code, Ended, Fit, Stage};
use pipeline::verdict::Reason;
use std::collections::BTreeMap;

const PLAN: &str = "plan = 1\nprecision = \"fp32\"\n\n[entry]\nid = \"H01\"\ntitle = \"t\"\n\
                    task = \"relu\"\nexpect = [\"POISON\"]\nstage = \"search\"\non = [\"sim\"]\n\
                    cut_set = [\"A\"]\n";

fn files(changed: &str, text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = [
        ("prelude.cuh", "#define EC\n"),
        ("manifest.toml", "ids = [\"H01\"]\n"),
        ("constructed.toml", "constructed = []\n"),
        ("H01.cu", "EC void k() {}\n"),
        ("H01.toml", PLAN),
    ]
    .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
    .into();
    files.insert(changed.to_owned(), text.as_bytes().to_vec());
    files
}

fn victim() -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let relu: [(&str, &[u8]); 4] = [
        ("task.toml", include_bytes!("../../tests/tasks/relu/task.toml")),
        ("reference.cu", include_bytes!("../../tests/tasks/relu/reference.cu")),
        ("reference.toml", include_bytes!("../../tests/tasks/relu/reference.toml")),
        ("golden.json", include_bytes!("../../tests/tasks/relu/golden.json")),
    ];
    let relu = relu.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
    BTreeMap::from([("relu".to_owned(), BTreeMap::from(relu))])
}

fn read(changed: &str, text: &str) -> Result<Catalogue, CatalogueError> {
    Catalogue::from_files(&files(changed, text), &victim())
}

#[test]
fn an_entry_is_source_and_plan_behind_the_prelude() {
    let catalogue = read("H01.toml", PLAN).unwrap();
    let entry = &catalogue.entries[0];
    assert_eq!(entry.source, "#define EC\n\nEC void k() {}\n");
    assert_eq!(entry.plan, "plan = 1\nprecision = \"fp32\"\n");
    assert_eq!((entry.expected().as_str(), entry.stage), ("POISON", Stage::Search));
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    for (file, text, wanted) in [
        ("H02.toml", PLAN.to_owned(), "`H02.toml` has no partner"),
        ("H02.cu", String::new(), "`H02.toml` is missing"),
        ("H01.toml", PLAN.replace("POISON", "POISONED"), "unknown code `POISONED`"),
        ("H01.toml", PLAN.replace("relu", "gelu"), "no victim task `gelu`"),
        ("H01.toml", PLAN.replace("[\"A\"]", "[\"Z\"]"), "unknown variant `Z`"),
        ("H01.toml", PLAN.replace("[\"A\"]", "[]"), "a cheat has a cut set"),
        ("H01.toml", PLAN.replace("POISON", "NOGAIN"), "`NOGAIN` needs `plain`"),
        ("H01.toml", format!("{PLAN}plain = \"P09\"\n"), "no entry `P09`"),
        ("H01.toml", format!("{PLAN}known_gap = \"it passes\"\n"), "a known gap is `CODE: why`"),
        ("H01.toml", PLAN.replace("[entry]", "[other]"), "has no [entry] table"),
        ("manifest.toml", "id = []".to_owned(), "unknown field `id`"),
    ] {
        let error = read(file, &text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{file}: {error}");
    }
}

#[test]
fn an_end_fits_or_it_does_not() {
    let fit = |text: String, code, stage| {
        let catalogue = read("H01.toml", &text).unwrap();
        catalogue.entries[0].fit(&Ended { code, stage, detail: String::new() })
    };
    let plan = || PLAN.to_owned();
    let later = || PLAN.replace("\"search\"", "\"accept\"");
    let gap = || format!("{PLAN}known_gap = \"PASS: nobody looks\"\n");
    let honest = || PLAN.replace("POISON", "PASS").replace("[\"A\"]", "[]");
    let (poison, mismatch) = (Code::Reason(Reason::Poison), Code::Reason(Reason::Mismatch));
    let unsupported = Code::Reason(Reason::Unsupported);
    for (text, code, stage, wanted) in [
        (plan(), poison, Stage::Search, Fit::Expected),
        (plan(), poison, Stage::Promote, Fit::Unexpected),
        (plan(), mismatch, Stage::Search, Fit::Unexpected),
        (plan(), mismatch, Stage::Static, Fit::Early),
        (plan(), Code::Pass, Stage::Search, Fit::Unexpected),
        (later(), Code::Pass, Stage::Search, Fit::Waiting),
        (later(), Code::Pass, Stage::Accept, Fit::Unexpected),
        (later(), mismatch, Stage::Search, Fit::Early),
        (later(), unsupported, Stage::Search, Fit::Unexpected),
        (gap(), Code::Pass, Stage::Search, Fit::Gap),
        (gap(), poison, Stage::Search, Fit::Mended),
        (gap(), mismatch, Stage::Search, Fit::Unexpected),
        (honest(), Code::Pass, Stage::Search, Fit::Expected),
        (honest(), Code::Pass, Stage::Accept, Fit::Expected),
        (honest(), poison, Stage::Static, Fit::Unexpected),
    ] {
        let found = fit(text.clone(), code, stage);
        assert_eq!(found, wanted, "{text} {code} {}", stage.name());
    }
}
