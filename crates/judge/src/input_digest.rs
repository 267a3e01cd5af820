//! Which inputs a seed gives, as a digest: so that a seed which travels can be held against what
//! was measured with it.

use std::collections::BTreeMap;

use pipeline::digest::Digest;
use pipeline::inputs::{Distribution, InputStream, MasterSeed};
use pipeline::task::Task;

use crate::cases::{input_sizes, role_parameter};
use crate::limits::INPUT_DIGEST_BYTES_MAX;

/// Digest of the first bytes of every input at a shape. Every element follows from the seed, so the
/// first ones tell seeds apart as well as all do.
///
/// # Errors
/// A tensor without a size, in words.
pub fn input_digest(
    task: &Task,
    dims: &BTreeMap<String, i64>,
    distribution: Distribution,
    master: &MasterSeed,
) -> Result<Digest, String> {
    let sizes = input_sizes(&task.spec, dims)?;
    let mut parts = Vec::new();
    for (input, (name, bytes)) in task.spec.inputs.iter().zip(sizes) {
        let parameter = role_parameter(input, dims)?;
        let stream = InputStream::new(master, distribution, input, parameter);
        let mut first = vec![0; bytes.min(INPUT_DIGEST_BYTES_MAX) as usize];
        stream.fill(0, &mut first);
        parts.push(name.into_bytes());
        parts.push(bytes.to_le_bytes().to_vec());
        parts.push(first);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Digest::of_parts("inputs", &parts))
}
