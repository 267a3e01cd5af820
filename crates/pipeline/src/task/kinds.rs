//! The small enums of `task.toml` as text.

use crate::task::spec::{Precision, Role};

impl TryFrom<String> for Role {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let argument = |prefix: &str| {
            let rest = text.strip_prefix(prefix)?.strip_prefix('(')?;
            rest.strip_suffix(')').map(str::to_owned)
        };
        if let Some(fan_in) = argument("weight") {
            return Ok(Self::Weight(fan_in));
        }
        if let Some(bound) = argument("index") {
            return Ok(Self::Index(bound));
        }
        if let Some(bound) = argument("lengths") {
            return Ok(Self::Lengths(bound));
        }
        match text.as_str() {
            "activation" => Ok(Self::Activation),
            "norm_weight" => Ok(Self::NormWeight),
            "bias" => Ok(Self::Bias),
            "mask" => Ok(Self::Mask),
            "table" => Ok(Self::Table),
            "state" => Ok(Self::State),
            _ => Err(format!(
                "unknown role `{text}`; known are activation, weight(FAN_IN), norm_weight, bias, \
                 index(BOUND), lengths(BOUND), mask, table, state"
            )),
        }
    }
}

impl From<Role> for String {
    fn from(role: Role) -> Self {
        match role {
            Role::Activation => "activation".to_owned(),
            Role::Weight(fan_in) => format!("weight({fan_in})"),
            Role::NormWeight => "norm_weight".to_owned(),
            Role::Bias => "bias".to_owned(),
            Role::Index(bound) => format!("index({bound})"),
            Role::Lengths(bound) => format!("lengths({bound})"),
            Role::Mask => "mask".to_owned(),
            Role::Table => "table".to_owned(),
            Role::State => "state".to_owned(),
        }
    }
}

impl Precision {
    /// The name, as in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
        }
    }
}
