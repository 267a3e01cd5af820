//! `[[baseline]]` of `task.toml`: what a candidate is compared with besides PyTorch itself.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::spec::TaskSpec;
use crate::baseline::{gemm, is_custom_name};
use crate::limits::{BASELINE_NAME_CHARS_MAX, BASELINES_MAX};

/// One table; exactly one of the three sources is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomBaseline {
    pub name: String,
    /// `module:function`; the module `reference` is the task's own `reference.py`.
    #[serde(default)]
    pub python: Option<String>,
    /// `baseline/NAME` of a `.cu` and a plan in the task's folder.
    #[serde(default)]
    pub kernel: Option<String>,
    /// An operator of the vendor's library: `gemm`.
    #[serde(default)]
    pub vendor: Option<String>,
}

/// Where a baseline comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineSource<'a> {
    Python {
        module: &'a str,
        function: &'a str,
    },
    /// Path of its files without their endings.
    Kernel(&'a str),
    Gemm,
}

impl CustomBaseline {
    /// Its source.
    ///
    /// # Errors
    /// What is not acceptable about it.
    pub fn source(&self) -> Result<BaselineSource<'_>, String> {
        match (&self.python, &self.kernel, &self.vendor) {
            (Some(python), None, None) => python_source(python),
            (None, Some(kernel), None) => kernel_source(kernel),
            (None, None, Some(vendor)) if vendor == "gemm" => Ok(BaselineSource::Gemm),
            (None, None, Some(vendor)) => {
                Err(format!("`vendor = \"{vendor}\"` is not known; `gemm` is"))
            }
            _ => Err("give exactly one of `python`, `kernel` and `vendor`".to_owned()),
        }
    }
}

fn python_source(text: &str) -> Result<BaselineSource<'_>, String> {
    let identifier = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let parts = text.split_once(':');
    let parts = parts.filter(|(module, function)| {
        identifier(function) && module.split('.').all(identifier) && text.len() <= 200
    });
    let (module, function) =
        parts.ok_or_else(|| format!("`python = \"{text}\"` must be `package.module:function`"))?;
    Ok(BaselineSource::Python { module, function })
}

fn kernel_source(text: &str) -> Result<BaselineSource<'_>, String> {
    let name = text.strip_prefix("baseline/").filter(|name| is_custom_name(name));
    let wrong = || format!("`kernel = \"{text}\"` must be `baseline/NAME`, without an ending");
    name.map(|_| BaselineSource::Kernel(text)).ok_or_else(wrong)
}

/// Checks every table of a task.
pub(super) fn check(spec: &TaskSpec) -> Result<(), String> {
    if spec.baselines.len() > BASELINES_MAX {
        return Err(format!("more than {BASELINES_MAX} baselines"));
    }
    let mut seen = BTreeSet::new();
    for baseline in &spec.baselines {
        let name = &baseline.name;
        let failed = |why: String| format!("baseline `{name}`: {why}");
        if !is_custom_name(name) {
            return Err(failed(format!(
                "name it in lower-case letters, digits and `_`, a letter first, at most \
                 {BASELINE_NAME_CHARS_MAX}"
            )));
        }
        if !seen.insert(name) {
            return Err(failed("the name is used twice".to_owned()));
        }
        if baseline.source().map_err(failed)? == BaselineSource::Gemm {
            gemm::form(spec).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::BaselineSource;
    use crate::task::Task;
    use crate::task::tests::task_files;

    const PLAN: &str = include_str!("../../../../tasks/matmul_f32/wrong/no_guard.toml");

    /// The matrix product with a `[[baseline]]` table, and a kernel that it may name.
    fn with(table: &str) -> Result<Task, String> {
        let mut files = task_files("matmul_f32");
        let spec = String::from_utf8(files["task.toml"].clone()).unwrap();
        let spec = spec.replace("[hidden]", &format!("{table}\n[hidden]"));
        files.insert("task.toml".to_owned(), spec.into_bytes());
        let plan = PLAN.split("[expect]").next().unwrap();
        files.insert("baseline/tiled.toml".to_owned(), plan.as_bytes().to_vec());
        files.insert("baseline/tiled.cu".to_owned(), b"// a kernel".to_vec());
        Task::from_files(&files).map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_is_read() {
        let task = with(
            "[[baseline]]\nname = \"a\"\npython = \"pkg.mod:f\"\n[[baseline]]\nname = \"tiled\"\n\
             kernel = \"baseline/tiled\"\n[[baseline]]\nname = \"blas\"\nvendor = \"gemm\"\n",
        );
        let task = task.unwrap();
        let sources: Vec<_> = task.spec.baselines.iter().map(|it| it.source().unwrap()).collect();
        // The task has two of its own.
        let expected = [
            BaselineSource::Kernel("baseline/naive"),
            BaselineSource::Gemm,
            BaselineSource::Python { module: "pkg.mod", function: "f" },
            BaselineSource::Kernel("baseline/tiled"),
            BaselineSource::Gemm,
        ];
        assert_eq!(sources, expected);
        let names: Vec<&str> = task.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!((names, task.kernels[1].source.len()), (vec!["naive", "tiled"], 11));
    }

    #[test]
    fn each_damage_is_named() {
        for (fields, part) in [
            ("name = \"a\"", "exactly one of"),
            ("name = \"a\"\nvendor = \"gemm\"\npython = \"m:f\"", "exactly one of"),
            ("name = \"a\"\nvendor = \"conv\"", "`gemm` is"),
            ("name = \"a\"\npython = \"m\"", "package.module:function"),
            ("name = \"a\"\npython = \"m:f()\"", "package.module:function"),
            ("name = \"a\"\nkernel = \"../x\"", "baseline/NAME"),
            ("name = \"a\"\nkernel = \"baseline/none\"", "`baseline/none.cu` is missing"),
            ("name = \"A\"\nvendor = \"gemm\"", "lower-case letters"),
            ("name = \"a\"\nvendors = \"gemm\"", "unknown field `vendors`"),
            (
                "name = \"a\"\nvendor = \"gemm\"\n[[baseline]]\nname = \"a\"\nvendor = \"gemm\"",
                "used twice",
            ),
        ] {
            let message = with(&format!("[[baseline]]\n{fields}\n")).err().unwrap();
            assert!(message.contains(part), "{fields}: {message}");
        }
    }
}
