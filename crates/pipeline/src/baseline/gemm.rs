//! A matrix product as a vendor's library performs it, and which tasks are one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::MathMode;
use crate::dtype::Dtype;
use crate::task::spec::{Precision, SpecError, TaskSpec, extents};

/// `c[m, n] = a[m, k] · b[k, n]`, dense and row-major; `b` may be stored as `[n, k]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmCall {
    /// Names of the tensors.
    pub a: String,
    pub b: String,
    pub c: String,
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub b_transposed: bool,
    pub math: GemmMath,
}

/// Types of a product: operands, result, and what the products are made and summed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GemmMath {
    /// fp32 on the plain cores.
    Fp32,
    /// fp32 operands rounded to TF32, summed in fp32.
    Tf32,
    /// fp16, summed in fp32.
    Fp16,
    /// bf16, summed in fp32.
    Bf16,
}

impl GemmMath {
    pub const ALL: [GemmMath; 4] = [GemmMath::Fp32, GemmMath::Tf32, GemmMath::Fp16, GemmMath::Bf16];

    /// The class whose peak it shows.
    #[must_use]
    pub fn class(self) -> Precision {
        match self {
            Self::Fp32 => Precision::Fp32,
            Self::Tf32 => Precision::Tf32,
            Self::Fp16 => Precision::Fp16,
            Self::Bf16 => Precision::Bf16,
        }
    }
}

impl GemmCall {
    /// The product that a task is, at a shape.
    ///
    /// # Errors
    /// Why the task is none that the library performs.
    pub fn of_task(
        spec: &TaskSpec,
        dims: &BTreeMap<String, i64>,
        math: MathMode,
    ) -> Result<Self, String> {
        let form = form(spec)?;
        let ([a, b], [c]) = (spec.inputs.as_slice(), spec.outputs.as_slice()) else {
            return Err(NO_PRODUCT.to_owned());
        };
        let math = match (c.dtype, math) {
            (Dtype::F32, MathMode::Strict) => GemmMath::Fp32,
            (Dtype::F32, MathMode::Fast) => GemmMath::Tf32,
            (Dtype::F16, _) => GemmMath::Fp16,
            (Dtype::Bf16, _) => GemmMath::Bf16,
            (other, _) => return Err(unsupported(other)),
        };
        let extents = |shape| extents(shape, dims).map_err(|error: SpecError| error.to_string());
        let ([m, k], [_, n]) = (pair(&extents(&a.shape)?)?, pair(&extents(&c.shape)?)?);
        let names = [&a.name, &b.name, &c.name].map(Clone::clone);
        let [a, b, c] = names;
        Ok(Self { a, b, c, m, n, k, b_transposed: form.b_transposed, math })
    }
}

/// What a task's shapes say without any extents.
pub(crate) struct GemmForm {
    b_transposed: bool,
}

const NO_PRODUCT: &str = "`vendor = \"gemm\"` needs two inputs [m, k] and [k, n] or [n, k] and one \
                          output [m, n], all of one type, and no scalars";

/// The form of the product that a task is.
///
/// # Errors
/// Why it is none.
pub(crate) fn form(spec: &TaskSpec) -> Result<GemmForm, String> {
    let none = || NO_PRODUCT.to_owned();
    let ([a, b], [c], true) =
        (spec.inputs.as_slice(), spec.outputs.as_slice(), spec.scalars.is_empty())
    else {
        return Err(none());
    };
    if a.dtype != b.dtype || b.dtype != c.dtype {
        return Err(none());
    }
    if !matches!(c.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
        return Err(unsupported(c.dtype));
    }
    let shapes = [&a.shape, &b.shape, &c.shape].map(|shape| match shape.as_slice() {
        [rows, cols] => Some([rows, cols]),
        _ => None,
    });
    let [Some([m, k]), Some(b), Some([rows, n])] = shapes else { return Err(none()) };
    let b_transposed = b == [n, k];
    if m != rows || !(b_transposed || b == [k, n]) {
        return Err(none());
    }
    // Where all extents are equal by name, nothing tells [k, n] from [n, k].
    if b_transposed && b == [k, n] {
        return Err("`vendor = \"gemm\"` cannot tell which dimension is summed".to_owned());
    }
    Ok(GemmForm { b_transposed })
}

fn pair(extents: &[u64]) -> Result<[u64; 2], String> {
    extents.try_into().map_err(|_| NO_PRODUCT.to_owned())
}

fn unsupported(dtype: Dtype) -> String {
    format!("`vendor = \"gemm\"` multiplies f32, f16 and bf16, not {dtype:?}")
}

#[cfg(test)]
mod tests {
    use super::{GemmCall, GemmMath, MathMode, form};
    use crate::dtype::Dtype;
    use crate::task::Task;
    use crate::task::spec::TaskSpec;
    use crate::task::tests::task_files;

    fn matmul() -> TaskSpec {
        Task::from_files(&task_files("matmul_f32")).unwrap().spec
    }

    #[test]
    fn a_product_is_told_by_its_shapes() {
        let mut spec = matmul();
        let dims = [("m", 5), ("n", 7), ("k", 3)].map(|(name, it)| (name.to_owned(), it)).into();
        let call = |spec: &TaskSpec, math| GemmCall::of_task(spec, &dims, math).unwrap();
        let strict = call(&spec, MathMode::Strict);
        assert_eq!([strict.m, strict.n, strict.k], [5, 7, 3]);
        assert_eq!([strict.a, strict.b, strict.c], ["a", "b", "c"]);
        assert_eq!((strict.b_transposed, strict.math), (false, GemmMath::Fp32));
        assert_eq!(call(&spec, MathMode::Fast).math, GemmMath::Tf32);
        spec.inputs[1].shape.reverse();
        assert!(call(&spec, MathMode::Strict).b_transposed);
        spec.inputs.iter_mut().for_each(|input| input.dtype = Dtype::Bf16);
        assert!(form(&spec).is_err(), "mixed types");
        spec.outputs[0].dtype = Dtype::Bf16;
        assert_eq!(call(&spec, MathMode::Strict).math, GemmMath::Bf16);
    }

    #[test]
    fn other_tasks_are_none() {
        assert!(form(&crate::task::tests::softmax().spec).is_err());
        let mut square = matmul();
        square.inputs.iter_mut().for_each(|it| it.shape = vec!["n".to_owned(), "n".to_owned()]);
        square.outputs[0].shape = vec!["n".to_owned(), "n".to_owned()];
        assert!(form(&square).err().unwrap().contains("which dimension is summed"));
        let mut doubles = matmul();
        doubles.inputs.iter_mut().for_each(|input| input.dtype = Dtype::F64);
        doubles.outputs[0].dtype = Dtype::F64;
        assert!(form(&doubles).err().unwrap().contains("F64"));
    }
}
