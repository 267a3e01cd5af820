//! Which shapes a claim is about.

use serde::{Deserialize, Serialize};

use crate::limits::HIDDEN_SHAPES_MIN;

/// The shapes that a claim is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// The plan's conditions on the dimensions; empty where it takes all shapes.
    pub domain: Vec<String>,
    /// Hidden shapes that were drawn inside the domain.
    pub hidden_shapes: usize,
    /// Public cases outside the domain.
    pub left_out: Vec<String>,
}

impl Scope {
    /// True where so few shapes could be drawn that the claim is about the timed shapes alone.
    #[must_use]
    pub fn is_fixed_shape(&self) -> bool {
        self.hidden_shapes < HIDDEN_SHAPES_MIN
    }

    /// What a reader of the claim has to know, a line each; none where all shapes are meant.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.domain.is_empty() {
            lines.push(format!("only where {}", self.domain.join(" and ")));
        }
        if !self.left_out.is_empty() {
            lines.push(format!("public cases outside: {}", self.left_out.join(", ")));
        }
        if self.is_fixed_shape() {
            let count = self.hidden_shapes;
            lines.push(format!(
                "fixed-shape: {count} hidden shapes could be drawn, so only the timed shapes are \
                 claimed"
            ));
        }
        lines
    }
}
