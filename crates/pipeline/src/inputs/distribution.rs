//! The distributions of inputs, and which of them a task can show something with.

use serde::{Deserialize, Serialize};

use crate::task::spec::{Nonfinite, Role, TaskSpec};

/// A distribution of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Distribution {
    /// Normal; weights scaled by 1/√fan_in; norm weights 1 + 0.3·N; biases 0.3·N.
    D1,
    /// Wide dynamic range: sign × 2^e × (1 + m/2^23), e like a lognormal of σ = 2, clipped.
    D2,
    /// D1 with activations × 1e-3: what an absolute tolerance forgives.
    D3Small,
    /// D1 with activations × 64: what overflows without care.
    D3Large,
    /// Small integers -4..=4: linear operators must be bit-exact.
    D4,
    /// Few small integers among zeros, each telling its column: wrong indices.
    D5,
    /// D1 with activations + 10 in even rows and - 100 in odd ones: what loses a small difference
    /// of large numbers, or takes for granted that something is above zero.
    D6,
    /// Rows of zeros, of one value, and with nine zeros in ten: shortcuts and ties.
    D7,
    /// Sorted rows; one index for nearly all; shortest and longest lengths; empty masks.
    D8,
    /// D1 with zeros of both signs, infinities, NaN and denormals here and there.
    D9,
    /// Uniform in 0..1: what a careless harness draws. Only with the fifth defence off.
    Uniform,
}

/// What the norm of an output's error is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormGate {
    /// The class's limit: data without a mean, and without elements whose own tolerance is what
    /// counts.
    Class,
    /// A share of the elements' tolerances: roundings are as often up as down, so that few elements
    /// come near theirs.
    Share,
    /// Nothing but each element's tolerance: in rows of equal or sorted terms each partial sum is
    /// rounded the same way, so that honest kernels come near it everywhere.
    Elements,
}

impl Distribution {
    /// What the model is told of it.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::D1 => "D1: normal, mean 0, deviation 1",
            Self::D2 => "D2: wide range, signs mixed, magnitudes from 2^-12 to 2^8",
            Self::D3Small => "D3: normal, mean 0, deviation 0.001",
            Self::D3Large => "D3: normal, mean 0, deviation 64",
            Self::D4 => "D4: small integers from -4 to 4",
            Self::D5 => "D5: few small integers among zeros",
            Self::D6 => "D6: normal, mean 10 or -100 by rows, deviation 1",
            Self::D7 => "D7: rows of zeros, of one value, and mostly of zeros",
            Self::D8 => "D8: sorted rows, unbalanced indices and lengths",
            Self::D9 => "D9: normal with zeros, infinities, NaN and denormals",
            Self::Uniform => "uniform from 0 to 1",
        }
    }

    /// The two distributions of the search stage for a family of operators.
    #[must_use]
    pub fn search_pair(family: &str) -> [Self; 2] {
        match family {
            "gemm" | "conv" | "sum" | "scan" | "linear" => [Self::D1, Self::D4],
            _ => [Self::D1, Self::D2],
        }
    }

    /// The distributions besides D1 that say something about a task, in a fixed order.
    #[must_use]
    pub fn others(spec: &TaskSpec) -> Vec<Self> {
        let floats = spec.inputs.iter().any(|input| input.dtype.is_float());
        let structured = spec.inputs.iter().any(|input| match input.role {
            Role::Index(_) | Role::Lengths(_) | Role::Mask => true,
            Role::Activation | Role::Weight(_) | Role::NormWeight => false,
            Role::Bias | Role::Table | Role::State => false,
        });
        let mut others = Vec::new();
        if floats {
            others.extend([Self::D2, Self::D4, Self::D3Large, Self::D7, Self::D6, Self::D3Small]);
            others.push(Self::D5);
        }
        if floats || structured {
            others.push(Self::D8);
        }
        if floats && spec.nonfinite == Nonfinite::Propagate {
            others.push(Self::D9);
        }
        others
    }

    /// What the norm of the error says on it.
    #[must_use]
    pub fn norm_gate(self) -> NormGate {
        match self {
            Self::D1 | Self::D2 | Self::D4 => NormGate::Class,
            Self::D3Small | Self::D3Large | Self::D5 | Self::D6 => NormGate::Share,
            Self::D9 | Self::Uniform => NormGate::Share,
            Self::D7 | Self::D8 => NormGate::Elements,
        }
    }

    /// True where the norm of the error tells precision classes apart.
    #[must_use]
    pub fn tells_classes(self) -> bool {
        self.norm_gate() == NormGate::Class
    }
}
