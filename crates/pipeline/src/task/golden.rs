//! `golden.json`: one tiny case made by an independent program, as bit patterns.
//!
//! It ties the reference kernel to something that is not written in CUDA. The values are made by
//! the script `golden.py` beside it; the reference must agree with them on every device.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::dtype::Dtype;
use crate::task::spec::TaskSpec;

/// Most elements of a tensor in a golden case.
const GOLDEN_ELEMENTS_MAX: u64 = 64;

/// One case with inputs and the exact outputs (as f64 bit patterns, or i64 for integers).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Format version; 1.
    pub golden: u32,
    /// The script that made it, and with what.
    pub made_by: String,
    pub dims: BTreeMap<String, i64>,
    /// Hexadecimal bit patterns of the input's own type.
    pub inputs: BTreeMap<String, Vec<String>>,
    /// Hexadecimal bit patterns of the exact value as f64 (i64 for integer outputs).
    pub outputs: BTreeMap<String, Vec<String>>,
}

impl Golden {
    /// Reads and checks a golden case against the task.
    ///
    /// # Errors
    /// One sentence naming the tensor that is missing or of the wrong length.
    pub fn parse(text: &str, spec: &TaskSpec) -> Result<Self, String> {
        let golden: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if golden.golden != 1 {
            return Err(format!("`golden` is {}; this program reads 1", golden.golden));
        }
        for input in &spec.inputs {
            golden.check(&golden.inputs, &input.name, &input.shape)?;
        }
        for output in &spec.outputs {
            golden.check(&golden.outputs, &output.name, &output.shape)?;
        }
        Ok(golden)
    }

    /// Little-endian bytes of an input.
    #[must_use]
    pub fn input_bytes(&self, name: &str, dtype: Dtype) -> Vec<u8> {
        let width = (dtype.bits() / 8) as usize;
        let patterns = self.inputs.get(name).map_or(&[][..], Vec::as_slice);
        patterns
            .iter()
            .flat_map(|hex| parse_hex(hex).to_le_bytes().into_iter().take(width))
            .collect()
    }

    /// Exact values of an output as 64-bit patterns.
    #[must_use]
    pub fn output_bits(&self, name: &str) -> Vec<u64> {
        let patterns = self.outputs.get(name).map_or(&[][..], Vec::as_slice);
        patterns.iter().map(|hex| parse_hex(hex)).collect()
    }

    fn check(
        &self,
        tensors: &BTreeMap<String, Vec<String>>,
        name: &str,
        shape: &[String],
    ) -> Result<(), String> {
        let values = tensors.get(name).ok_or_else(|| format!("tensor `{name}` is missing"))?;
        let elements = TaskSpec::elements(shape, &self.dims).map_err(|error| error.to_string())?;
        if elements > GOLDEN_ELEMENTS_MAX || values.len() as u64 != elements {
            return Err(format!(
                "tensor `{name}` has {} values, the shape {elements}; at most {most} are kept",
                values.len(),
                most = GOLDEN_ELEMENTS_MAX
            ));
        }
        match values.iter().find(|hex| u64::from_str_radix(hex, 16).is_err()) {
            Some(bad) => Err(format!("tensor `{name}`: `{bad}` is not a hexadecimal bit pattern")),
            None => Ok(()),
        }
    }
}

fn parse_hex(hex: &str) -> u64 {
    u64::from_str_radix(hex, 16).unwrap_or(0)
}
