//! Timers that a kernel reads.
//!
//! A kernel has no use for them: what it does must not depend on when. The library's barriers read
//! one to give up waiting, and NVRTC inlines them, so that the function tells nothing; the lines of
//! the PTX do. Start at [`timers`].

use pipeline::acceptance::Found;
use pipeline::build::BuildFacts;

/// Where the library reads the timer, and the waiting loop that it is inlined into.
const CLOCK_FILE: &str = "/cuda/std/__cuda/chrono.h";
const WAIT_FILE: &str = "/cuda/std/__thread/threading_support.h";

/// Looks at every timer that a module reads.
pub(crate) fn timers(facts: &BuildFacts, source: &str, ptx: &[u8]) -> Found {
    let is_timer = |name: &str| name.starts_with("%clock") || name.starts_with("%globaltimer");
    let read: Vec<_> = facts.special_registers.iter().filter(|it| is_timer(&it.name)).collect();
    let Some(first) = read.first() else { return Found::Clean };
    let of_library = has_own_lines(source) && only_waits(&String::from_utf8_lossy(ptx));
    let own = read.iter().find(|it| !it.name.starts_with("%globaltimer") || !of_library);
    match own {
        Some(own) => Found::Audits { detail: format!("`{}` reads {}", own.origin, own.name) },
        None => Found::Notes {
            detail: format!("`{}` reads {} in the library's barriers", first.origin, first.name),
        },
    }
}

/// True for a source whose PTX tells the true file of each line: it has no assembly, which could
/// hold lines of its own, and no directive that could name another file.
fn has_own_lines(source: &str) -> bool {
    let source = source.replace("\\\n", "").replace("\\\r\n", "");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = source.split(|c: char| !is_word(c)).map(|word| word.trim_matches('_'));
    let after_hash = |at: usize| source[at..].trim_start_matches([' ', '\t']).chars().next();
    let odd = ["%:", "??="].iter().any(|other| source.contains(other))
        || source.match_indices('#').any(|(at, _)| {
            !after_hash(at + 1).is_some_and(|next| next.is_ascii_alphabetic() || next == '_')
        });
    !odd && words.all(|word| !matches!(word, "asm" | "line"))
}

/// True when every read of the global timer lies in the library's waiting loop.
fn only_waits(ptx: &str) -> bool {
    let file = |number: &str, suffix: &str| {
        let mut files = ptx.lines().filter_map(|line| line.trim().strip_prefix(".file"));
        let mut named =
            files.by_ref().filter_map(|rest| rest.trim().split_once(char::is_whitespace));
        let path = named.find(|(other, _)| *other == number).map(|(_, path)| path.trim());
        path.is_some_and(|path| path.trim_matches('"').ends_with(suffix))
    };
    let waits = |place: &str| {
        let number = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
        let Some((own, inlined_at)) = place.split_once("inlined_at") else { return false };
        file(&number(own), CLOCK_FILE) && file(&number(inlined_at), WAIT_FILE)
    };
    let mut place = "";
    for line in ptx.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(".loc") {
            place = rest;
        } else if line.contains("%globaltimer") && !waits(place) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use pipeline::acceptance::Found;
    use pipeline::build::{BuildFacts, SpecialRegister};

    use super::{has_own_lines, timers};

    /// As NVRTC 13.0 writes `barrier.arrive_and_wait()`.
    const WAITS: &str = "\t.loc\t9 65 5, function_name $L__info_string12, inlined_at 2 370 5\n\
        \t.loc\t10 41 3, function_name $L__info_string13, inlined_at 9 65 5\n\
        \t// begin inline asm\n\tmov.u64 %rd12, %globaltimer;\n\t// end inline asm\n\
        \tmbarrier.try_wait.shared.b64 p, [%r8], %rd11;\n";
    /// As it writes `cuda::std::chrono::system_clock::now()` in a kernel.
    const READS: &str = "\t.loc\t10 41 3, function_name $L__info_string13, inlined_at 1 9 3\n\
        \t// begin inline asm\n\tmov.u64 %rd12, %globaltimer;\n\t// end inline asm\n";
    const FILES: &str = "\t.file\t1 \"/work/k.cu\"\n\
        \t.file\t9 \"/include/cccl/cuda/std/__thread/threading_support.h\"\n\
        \t.file\t10 \"/include/cccl/cuda/std/__cuda/chrono.h\"\n";

    fn facts(registers: &[&str]) -> BuildFacts {
        let register =
            |name: &&str| SpecialRegister { name: (*name).to_owned(), origin: "k".to_owned() };
        BuildFacts {
            entries: Vec::new(),
            lowered_names: Vec::new(),
            externs: Vec::new(),
            static_bytes: 0,
            special_registers: registers.iter().map(register).collect(),
            mma_types: Vec::new(),
            cache_hints: Vec::new(),
            ptx_hash: String::new(),
            cubin_hash: String::new(),
        }
    }

    #[test]
    fn only_the_librarys_own_wait_may_read_a_timer() {
        let honest = "#include <cuda/barrier>\nbar.arrive_and_wait();";
        let asm = "asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(t));";
        for (registers, source, body, expected) in [
            (&[][..], honest, String::new(), "clean"),
            (&["%tid.x"], honest, String::new(), "clean"),
            (&["%globaltimer"], honest, WAITS.to_owned(), "notes"),
            (&["%globaltimer"], honest, READS.to_owned(), "audits"),
            // A word is no alibi, nor is an honest wait beside another read.
            (&["%globaltimer"], honest, format!("{READS}// mbarrier\n"), "audits"),
            (&["%globaltimer"], honest, format!("{WAITS}{READS}"), "audits"),
            (&["%globaltimer", "%clock64"], honest, WAITS.to_owned(), "audits"),
            (&["%globaltimer"], asm, WAITS.to_owned(), "audits"),
        ] {
            let found = timers(&facts(registers), source, format!("{body}{FILES}").as_bytes());
            let word = match found {
                Found::Clean => "clean",
                Found::Notes { .. } => "notes",
                Found::Audits { .. } => "audits",
                Found::Fails { .. } | Found::NotAvailable { .. } => "something else",
            };
            assert_eq!(word, expected, "{registers:?} {source} {body}");
        }
    }

    #[test]
    fn a_source_that_could_forge_a_place_is_not_believed() {
        for (source, own) in [
            ("#include <cuda/barrier>\n  #  define N 4\n", true),
            ("int pipeline = linear;", true),
            ("#line 41 \"chrono.h\"", false),
            ("/**/ # /**/ line 41 \"chrono.h\"", false),
            ("# 41 \"chrono.h\"", false),
            ("%:line 41 \"chrono.h\"", false),
            ("#li\\\nne 41 \"chrono.h\"", false),
            ("__asm__(\".loc 10 41 3\");", false),
            ("#define p(a, b) a ## b", false),
        ] {
            assert_eq!(has_own_lines(source), own, "{source}");
        }
    }
}
