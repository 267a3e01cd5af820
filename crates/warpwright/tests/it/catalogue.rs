//! The catalogue of cheats and honest tricks on the simulator: each entry ends as it must, and
//! nothing that it lists is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use judge::catalogue::{Catalogue, Ended, Entry, Fit, Stage};
use judge::{Build, CancelFlag, Judge, RunSeed};
use pipeline::confinement::Layer;
use pipeline::defence::Defence;
use pipeline::task::spec::Place;
use pipeline::verdict::Reason;

use crate::program::Program;
use crate::task_files::judge;

/// Entries that are judged at the same time.
const THREADS: usize = 3;
/// Cut sets that each defence must be a member of.
const CUT_SETS_MIN: usize = 3;

type Files = BTreeMap<String, Vec<u8>>;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(&path).unwrap())
    };
    entries.filter(|path| path.is_file()).map(file).collect()
}

pub(crate) fn catalogue() -> Catalogue {
    let root = repository().join("crates/judge/tests");
    let tasks = std::fs::read_dir(root.join("tasks")).unwrap().map(|entry| entry.unwrap());
    let tasks = tasks.map(|it| (it.file_name().into_string().unwrap(), files(&it.path())));
    Catalogue::from_files(&files(&root.join("catalogue")), &tasks.collect()).unwrap()
}

/// Does a piece of work with each of these, several at a time; the results are in their order.
pub(crate) fn each<T: Sync, R: Send>(wanted: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((index, one)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    wanted.get(index).map(|one| (index, one))
                } {
                    let result = work(one);
                    found.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

/// How each of these entries ends on the simulator.
fn ends<'a>(catalogue: &Catalogue, wanted: &[&'a Entry]) -> Vec<(&'a Entry, Ended)> {
    let (judge, seed) = (judge(), RunSeed([5; 32]));
    each(wanted, |entry| {
        let started = std::time::Instant::now();
        let ended = catalogue.run(entry, &judge, &seed, &CancelFlag::default()).unwrap();
        let (name, code, stage) = (&entry.name, ended.code, ended.stage.name());
        let (fit, ms) = (entry.fit(&ended).name(), started.elapsed().as_millis());
        eprintln!("{name}: {code} ({stage}), {fit}, {ms} ms: {}", ended.detail);
        (*entry, ended)
    })
}

/// Those that do not end as they must, in words.
fn complaints(found: &[(&Entry, Ended)]) -> Vec<String> {
    let bad = |(entry, ended): &(&Entry, Ended)| match entry.fit(ended) {
        Fit::Expected | Fit::Early | Fit::Waiting | Fit::Gap => None,
        // The note must go when the gap does.
        fit @ (Fit::Mended | Fit::Unexpected) => {
            let (name, code, stage) = (&entry.name, ended.code, ended.stage.name());
            let expected = entry.expected();
            let said = &ended.detail;
            Some(format!("{name}: {code} at {stage}, expected {expected} ({}): {said}", fit.name()))
        }
    };
    found.iter().filter_map(bad).collect()
}

pub(crate) fn on_simulator(entry: &&Entry) -> bool {
    entry.on.contains(&Place::Sim) && !entry.slow
}

#[test]
fn every_cheat_ends_as_the_catalogue_says() {
    let catalogue = catalogue();
    let cheats = catalogue.entries.iter().filter(|entry| on_simulator(entry) && !entry.is_honest());
    let found = ends(&catalogue, &cheats.collect::<Vec<_>>());
    assert!(found.len() >= 70, "{}", found.len());
    assert_eq!(complaints(&found), Vec::<String>::new());
}

#[test]
fn every_honest_kernel_is_correct() {
    let catalogue = catalogue();
    let honest = catalogue.entries.iter().filter(|entry| on_simulator(entry) && entry.is_honest());
    let found = ends(&catalogue, &honest.collect::<Vec<_>>());
    assert!(found.len() >= 25, "{}", found.len());
    assert_eq!(complaints(&found), Vec::<String>::new());
}

#[test]
fn nothing_that_the_catalogue_lists_is_missing() {
    let catalogue = catalogue();
    let kernels = catalogue.entries.iter().map(|entry| entry.id.as_str());
    let covered: BTreeSet<&str> =
        kernels.chain(catalogue.constructed.iter().map(|row| row.id.as_str())).collect();
    let missing: Vec<_> =
        catalogue.ids.iter().filter(|id| !covered.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for defence in Defence::ALL {
        let entries = || catalogue.entries.iter().filter(|entry| entry.on.contains(&Place::Gpu));
        let members = entries().filter(|entry| entry.cut_set(Place::Gpu).contains(&defence));
        let count = members.count();
        assert!(count >= CUT_SETS_MIN, "{defence:?} is in {count} cut sets");
    }
    for entry in &catalogue.entries {
        assert!(entry.name.starts_with(&entry.id), "{} is called {}", entry.id, entry.name);
        let honest = entry.id.starts_with(['F', 'G', 'P']);
        assert_eq!(entry.is_honest(), honest, "{}", entry.name);
    }
    assert!(catalogue.entries.iter().any(|entry| entry.stage == Stage::Accept));
}

#[test]
fn what_cannot_be_written_is_shown_by_a_test_that_exists() {
    let catalogue = catalogue();
    assert!(catalogue.constructed.len() >= 15, "{}", catalogue.constructed.len());
    for row in &catalogue.constructed {
        let (file, name) = row.test.split_once("::").unwrap();
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        let function = format!("#[test]\nfn {name}()");
        let inner = format!("#[test]\n    fn {name}()");
        let found = text.contains(&function) || text.contains(&inner);
        assert!(found, "{}: {} has no test `{name}`", row.id, file);
    }
}

pub(crate) fn compiled(judge: &Judge, source: &str) -> Build {
    let names = ["k".to_owned()];
    judge.compile(source, &BTreeMap::new(), &names, &CancelFlag::default()).unwrap()
}

/// Nothing of a source runs on the host: there is only what a device can run.
#[test]
fn host_code_of_a_source_is_never_run() {
    let judge = judge();
    let kernel = "extern \"C\" __global__ void k(float* y) { y[0] = 1.0f; }\n";
    assert_eq!(compiled(&judge, kernel).verdict, None);
    let attribute = "__host__ __attribute__((constructor)) void first() {}";
    let headers = ["unistd.h", "sys/ptrace.h", "dlfcn.h", "cublas_v2.h", "torch/extension.h"];
    let includes = headers.map(|header| format!("#include <{header}>"));
    let host = ["__host__ void first() {}", attribute, "int kill(int); int first = kill(1);"];
    for text in host.map(str::to_owned).into_iter().chain(includes) {
        let build = compiled(&judge, &format!("{text}\n{kernel}"));
        let reason = build.verdict.and_then(|verdict| verdict.reason);
        assert_eq!(reason, Some(Reason::Compile), "{text}");
    }
}

/// Nothing of a file of the host is quoted, and a source cannot see whether one is there: where the
/// machine has the layer that keeps files from the compiler.
#[test]
fn files_of_the_host_are_not_quoted() {
    let judge = judge();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seeds.h");
    let source = format!(
        "extern \"C\" __global__ void k(int* y) {{\n#if __has_include(\"{0}\")\n y[0] = 1;\n\
         #else\n y[0] = 0;\n#endif\n}}\n",
        path.display()
    );
    let without = compiled(&judge, &source);
    std::fs::write(&path, "secret_of_the_host\n").unwrap();
    let with = compiled(&judge, &source);
    let confinements = judge.confinements();
    let build = confinements.iter().find(|it| it.set == "build").unwrap();
    assert_eq!(with.ptx == without.ptx, build.has(Layer::Landlock), "{build}");
    let included = compiled(&judge, &format!("#include \"{}\"\n{source}", path.display()));
    let verdict = included.verdict.unwrap();
    assert_eq!(verdict.reason, Some(Reason::Compile));
    let said = format!("{} {} {:?}", verdict.detail, included.log, included.diagnostics);
    assert!(!said.contains("secret_of_the_host"), "{said}");
}

#[test]
fn the_self_test_judges_it_and_goes_on_where_it_stopped() {
    let program = Program::new();
    let mut rows = Vec::new();
    for _ in 0..2 {
        let words = ["selftest", "sim", "--only", "catalogue", "--deadline", "2", "--out", "out"];
        let ended = program.call(&words);
        assert_eq!(ended.code, Some(5), "{}{}", ended.stdout, ended.stderr);
        let text = std::fs::read_to_string(program.path("out").join("selftest-sim.jsonl")).unwrap();
        let lines = text.lines().map(serde_json::from_str::<serde_json::Value>);
        let items: Vec<String> =
            lines.map(|line| line.unwrap()["item"].as_str().unwrap().to_owned()).collect();
        assert!(items.len() > rows.len() && items.starts_with(&rows), "{items:?} {rows:?}");
        rows = items;
    }
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "{rows:?}");
    let page = std::fs::read_to_string(program.path("out").join("selftest-sim.md")).unwrap();
    assert!(page.contains("# Self-test on the simulator"), "{page}");
    assert!(page.contains("| item | | about | task | expected | ended | stage |"), "{page}");
    let unknown = program.call(&["selftest", "sim", "--only", "clock"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("no part `clock`: there are catalogue"), "{}", unknown.stderr);
}

/// The entries that a page of measurements lacks: a row is `| NAME | … | DATE |`.
fn without_a_dated_row<'a>(catalogue: &'a Catalogue, page: &str) -> Vec<&'a str> {
    let is_dated = |row: &&str| {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        let day = last.split(' ').next().unwrap_or_default();
        day.parse::<jiff::civil::Date>().is_ok()
    };
    let rows = page.lines().filter(|line| line.starts_with("| ")).filter(is_dated);
    let named: BTreeSet<&str> =
        rows.filter_map(|row| row.split('|').nth(1)).map(str::trim).collect();
    let on_gpu = catalogue.entries.iter().filter(|entry| entry.on.contains(&Place::Gpu));
    on_gpu.map(|entry| entry.name.as_str()).filter(|name| !named.contains(name)).collect()
}

/// The committed page of what a GPU made of the catalogue names every entry, so that none can be
/// added and never be judged there. Until there is a page, this only says what it will need.
#[test]
fn every_entry_has_a_dated_row_from_a_gpu() {
    let catalogue = catalogue();
    let path = repository().join("docs/measurements/catalogue-h200.md");
    let page = std::fs::read_to_string(&path);
    let lacking = without_a_dated_row(&catalogue, page.as_deref().unwrap_or_default());
    match page {
        Ok(_) => assert!(lacking.is_empty(), "no dated row for {lacking:?}: `selftest gpu`"),
        Err(_) => eprintln!("{} is not there yet; it needs {lacking:?}", path.display()),
    }
    let names = || catalogue.entries.iter().map(|entry| entry.name.as_str());
    let rows = names().map(|name| format!("| {name} | ok | | 2026-01-02 03:04:05 |\n"));
    let whole: String = rows.collect();
    assert_eq!(without_a_dated_row(&catalogue, &whole), Vec::<&str>::new());
    let less = whole.replacen("2026-01-02", "soon", 1);
    assert_eq!(without_a_dated_row(&catalogue, &less), names().take(1).collect::<Vec<_>>());
}
