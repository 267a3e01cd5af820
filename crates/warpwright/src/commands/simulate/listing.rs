//! The kernels of a file: their parameters, and a command line for each that would fit.

use device::nvrtc::KernelDeclaration;
use pipeline::build::{BuildFacts, EntryFacts, ParamFacts, ParamKind};

use crate::environment;

/// Threads of a block in an example.
const EXAMPLE_THREADS: u32 = 256;
/// Blocks in an example.
const EXAMPLE_BLOCKS: u32 = 4;

/// A kernel of the file.
#[derive(Debug)]
pub(crate) struct Listed<'a> {
    /// As `--kernel` takes it.
    pub(crate) name: String,
    pub(crate) entry: &'a EntryFacts,
    declared: Option<&'a KernelDeclaration>,
}

/// Every entry of the module, with its declaration where one is found.
pub(crate) fn listed<'a>(
    facts: &'a BuildFacts,
    declarations: &'a [KernelDeclaration],
) -> Vec<Listed<'a>> {
    facts.entries.iter().map(|entry| of_entry(facts, entry, declarations)).collect()
}

/// One entry.
pub(crate) fn of_entry<'a>(
    facts: &BuildFacts,
    entry: &'a EntryFacts,
    declarations: &'a [KernelDeclaration],
) -> Listed<'a> {
    let asked = facts.lowered_names.iter().find(|(_, lowered)| *lowered == entry.name);
    let mut matching = declarations.iter().filter(|kernel| is_of(&kernel.name, &entry.name));
    let declared = matching.next();
    let overloaded = matching.next().is_some();
    let plain = declared.filter(|kernel| kernel.template.is_none() && !overloaded);
    let name = match (asked, plain) {
        (Some((asked, _)), _) => asked.clone(),
        (None, Some(kernel)) if !entry.name.starts_with("_ZN") => kernel.name.clone(),
        (None, _) => nested(&entry.name).unwrap_or_else(|| entry.name.clone()),
    };
    let declared = declared.filter(|kernel| kernel.params.len() == entry.params.len());
    Listed { name, entry, declared }
}

/// `a::k` of `_ZN1a1kEPix`: the name of a kernel in namespaces.
fn nested(mangled: &str) -> Option<String> {
    let mut rest = mangled.strip_prefix("_ZN")?;
    let mut parts = Vec::new();
    while !rest.starts_with('E') {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let length = rest[..digits].parse().ok()?;
        let (part, after) = rest[digits..].split_at_checked(length)?;
        // What is in a namespace without a name is found without one.
        parts.extend((!part.starts_with('_')).then_some(part));
        rest = after;
    }
    (!parts.is_empty()).then(|| parts.join("::"))
}

/// True when an entry is the kernel of that name, plain or mangled.
fn is_of(name: &str, entry: &str) -> bool {
    let mangled = format!("{}{name}", name.len());
    entry == name || entry.starts_with("_Z") && entry.contains(&mangled)
}

impl Listed<'_> {
    /// The parameters, one a line, and the example.
    pub(crate) fn describe(&self, file: &str) -> String {
        let mut lines = vec![format!("  {}", self.name)];
        for (index, param) in self.entry.params.iter().enumerate() {
            let written = self.written(index).unwrap_or("");
            lines.push(format!("    {:>2}  {written:<32} {}", index + 1, param.describe()));
        }
        if self.entry.params.is_empty() {
            lines.push("    no parameters".to_owned());
        }
        lines.push(format!("    {}", self.example(file)));
        lines.join("\n")
    }

    /// A command line that fits.
    pub(crate) fn example(&self, file: &str) -> String {
        let threads = self.entry.max_threads.map_or(EXAMPLE_THREADS, |t| t.min(EXAMPLE_THREADS));
        let elements = EXAMPLE_BLOCKS * threads;
        let mut words = format!(
            "{} simulate {file} --kernel {} --grid {EXAMPLE_BLOCKS} --block {threads}",
            environment::program_name(),
            quoted(&self.name),
        );
        for (index, param) in self.entry.params.iter().enumerate() {
            let written = self.written(index).unwrap_or("");
            words.push_str(" --arg ");
            words.push_str(&quoted(&example_argument(written, param, index, elements)));
        }
        words
    }

    /// The parameter as declared, when that is a pointer.
    pub(crate) fn pointer(&self, index: usize) -> Option<&str> {
        self.written(index).filter(|written| written.contains(['*', '[', '&']))
    }

    fn written(&self, index: usize) -> Option<&str> {
        self.declared?.params.get(index).map(String::as_str)
    }
}

/// Quotes what a shell would read otherwise.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_=.:-,/".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{text}'") }
}

fn example_argument(written: &str, param: &ParamFacts, index: usize, elements: u32) -> String {
    let name = name_of(written).unwrap_or_else(|| format!("p{}", index + 1));
    let pointer = written.is_empty() || written.contains(['*', '[', '&']);
    match param.kind {
        ParamKind::Float => format!("{name}=1.0"),
        ParamKind::Integer if param.width == 8 && pointer => {
            let direction =
                if written.contains("const") || written.is_empty() { "" } else { "out:" };
            format!("{name}={direction}{}[{elements}]", element_type(written))
        }
        ParamKind::Integer if param.width == 1 => format!("{name}=1"),
        ParamKind::Integer => format!("{name}={elements}"),
        ParamKind::Bytes { .. } => format!("{name}=?"),
    }
}

/// The last identifier of a parameter, in front of a default value or an extent.
fn name_of(written: &str) -> Option<String> {
    let text = written.split('=').next()?.split('[').next()?;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = text.trim_end_matches(|c: char| !word(c)).rsplit(|c: char| !word(c)).next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let alone = name.len() == text.trim().len();
    (is_name && !alone && name != "__restrict__").then(|| name.to_owned())
}

/// The element type that a pointer's declaration suggests.
fn element_type(written: &str) -> &'static str {
    let base = written.split(['*', '[', '&']).next().unwrap_or_default();
    let skipped =
        ["const", "volatile", "__restrict__", "__grid_constant__", "struct", "std", "signed"];
    let words: Vec<_> = base
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty() && !skipped.contains(word))
        .collect();
    let unsigned = words.contains(&"unsigned");
    let words: Vec<_> = words.into_iter().filter(|word| *word != "unsigned").collect();
    let unsigned_or = |yes, no| if unsigned { yes } else { no };
    match words.join(" ").as_str() {
        "double" | "double2" => "f64",
        "half" | "__half" | "half2" | "__half2" => "f16",
        "__nv_bfloat16" | "__nv_bfloat162" | "nv_bfloat16" => "bf16",
        "__nv_fp8_e4m3" | "__nv_fp8x2_e4m3" | "__nv_fp8x4_e4m3" => "e4m3",
        "__nv_fp8_e5m2" | "__nv_fp8x2_e5m2" | "__nv_fp8x4_e5m2" => "e5m2",
        "long long" | "long" | "int64_t" => unsigned_or("u64", "i64"),
        "size_t" | "uint64_t" => "u64",
        "int" | "int2" | "int4" | "int32_t" => unsigned_or("u32", "i32"),
        "uint" | "uint2" | "uint4" | "uint32_t" => "u32",
        "short" | "int16_t" => unsigned_or("u16", "i16"),
        "uint16_t" => "u16",
        "char" | "int8_t" => unsigned_or("u8", "i8"),
        "uint8_t" => "u8",
        "bool" => "bool",
        "" if unsigned => "u32",
        "" if written.contains("signed") => "i32",
        _ => "f32",
    }
}

#[cfg(test)]
mod tests {
    use super::{example_argument, is_of, nested, quoted};
    use pipeline::build::{ParamFacts, ParamKind};

    #[test]
    fn examples_follow_the_declaration() {
        let (pointer, int) = ((8, ParamKind::Integer), (4, ParamKind::Integer));
        for (written, (width, kind), expected) in [
            ("const float* __restrict__ x", pointer, "x=f32[1024]"),
            ("float* y", pointer, "y=out:f32[1024]"),
            ("unsigned long long* z", pointer, "z=out:u64[1024]"),
            ("const __half2* h", pointer, "h=f16[1024]"),
            ("const unsigned* u", pointer, "u=u32[1024]"),
            ("float(& t)[4]", pointer, "t=out:f32[1024]"),
            ("size_t n", pointer, "n=1024"),
            ("int n=4", int, "n=1024"),
            ("bool flag", (1, ParamKind::Integer), "flag=1"),
            ("float eps", (4, ParamKind::Float), "eps=1.0"),
            ("float", (4, ParamKind::Float), "p3=1.0"),
            ("", pointer, "p3=f32[1024]"),
        ] {
            let param = ParamFacts { width, kind };
            assert_eq!(example_argument(written, &param, 2, 1024), expected, "{written}");
        }
    }

    #[test]
    fn entries_are_matched_and_names_quoted() {
        assert!(is_of("add", "_Z3addPKfPfi") && is_of("add", "add") && !is_of("add", "adder"));
        assert_eq!(quoted("tile<64, float>"), "'tile<64, float>'");
        assert_eq!(quoted("n=1024"), "n=1024");
        for (mangled, name) in [
            ("_ZN1a1kEPix", Some("a::k")),
            ("_ZN12_GLOBAL__N_14kernEv", Some("kern")),
            ("_ZN1a1kILi4EEEvPi", None),
            ("_ZN9a", None),
            ("_Z1kv", None),
        ] {
            assert_eq!(nested(mangled).as_deref(), name, "{mangled}");
        }
    }
}
