//! What `survey` is made of: the listed operators ([`list`]), what is found of each ([`look`]), how
//! that is shown ([`table`]) and written as `run.toml` ([`file`]).
//!
//! What follows from what was found is decided in [`pipeline::survey`]. No model is asked here.

pub(crate) mod file;
pub(crate) mod list;
pub(crate) mod look;
pub(crate) mod table;

#[cfg(test)]
mod tests;

use pipeline::survey::{Row, Survey};

use crate::survey::list::Listed;
use crate::survey::look::Looked;

/// Nano-dollars of the smallest part of a dollar that is divided, which is also what is printed.
pub(crate) const MONEY_UNIT_NUSD: i64 = 100_000;

/// One operator with everything that is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Operator<'a> {
    pub(crate) listed: &'a Listed,
    pub(crate) looked: &'a Looked,
    pub(crate) row: &'a Row,
}

/// The operators of a survey, in the order of its list.
pub(crate) fn operators<'a>(
    listed: &'a [Listed],
    looked: &'a [Looked],
    survey: &'a Survey,
) -> Vec<Operator<'a>> {
    let pairs = listed.iter().zip(looked).zip(&survey.rows);
    pairs.map(|((listed, looked), row)| Operator { listed, looked, row }).collect()
}

impl Operator<'_> {
    /// Its part of the dollars, in nano-dollars.
    pub(crate) fn nusd(&self) -> Option<i64> {
        let units = self.row.allotment.money?;
        Some(i64::try_from(units).unwrap_or(i64::MAX).saturating_mul(MONEY_UNIT_NUSD))
    }
}
