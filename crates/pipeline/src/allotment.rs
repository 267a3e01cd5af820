//! Money that operators are allotted of a run's: it steers who asks next and caps nobody.
//!
//! A person allots dollars to some operators; [`allotments`] makes amounts of it that fit into the
//! run's cap. [`Purse`] is one of them with what was spent; who waits for whom is in
//! [`crate::schedule`].

use serde::Serialize;

use crate::amdahl::apportion;

/// What a person wants for an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Nano-dollars that are allotted to it; `None` where nobody said.
    pub nusd: Option<i64>,
    /// Share of the whole program's time, in any unit.
    pub weight: f64,
}

/// An operator's allotment, and what its calls cost or may cost. One call may overrun it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Purse {
    pub allotted_nusd: i64,
    pub spent_nusd: i64,
}

impl Purse {
    /// True where nothing of it is left.
    #[must_use]
    pub fn is_used(self) -> bool {
        self.spent_nusd >= self.allotted_nusd
    }
}

/// The operators' allotments of a run's cap, in their order: what was wished for, in proportion
/// less where that is more than the cap, and the rest by weight to those of whom nobody said
/// anything. Their sum is never above the cap. `None` where nobody allotted anything.
#[must_use]
pub fn allotments(cap_nusd: i64, wishes: &[Wish]) -> Option<Vec<i64>> {
    if wishes.iter().all(|wish| wish.nusd.is_none()) {
        return None;
    }
    let cap = i128::from(cap_nusd.max(0));
    let wished = |wish: &Wish| wish.nusd.map(|nusd| i128::from(nusd.max(0)));
    let sum: i128 = wishes.iter().filter_map(wished).sum();
    let given = |wished: i128| if sum > cap { wished * cap / sum } else { wished };
    let rest = u64::try_from((cap - sum).max(0)).unwrap_or(0);
    let open = |wish: &Wish| if wish.nusd.is_none() { wish.weight } else { 0.0 };
    let weights: Vec<f64> = wishes.iter().map(open).collect();
    let shares = apportion(rest, &weights);
    let amounts = wishes.iter().zip(shares).map(|(wish, share)| match wished(wish) {
        Some(wished) => i64::try_from(given(wished)).unwrap_or(cap_nusd),
        None => i64::try_from(share).unwrap_or(cap_nusd),
    });
    Some(amounts.collect())
}

/// Each operator's purse under the run's cap, where anything is allotted and there is a cap.
#[must_use]
pub fn purses(cap_nusd: Option<i64>, wishes: &[Wish], spent: &[i64]) -> Vec<Option<Purse>> {
    let Some(allotted) = cap_nusd.and_then(|cap| allotments(cap, wishes)) else {
        return vec![None; wishes.len()];
    };
    let purse = |(allotted_nusd, spent_nusd)| Some(Purse { allotted_nusd, spent_nusd });
    allotted.into_iter().zip(spent.iter().copied()).map(purse).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Wish, allotments};

    fn wish(nusd: Option<i64>) -> Wish {
        Wish { nusd, weight: 1.0 }
    }

    #[test]
    fn wishes_are_kept_where_they_fit_and_the_rest_goes_by_weight() {
        let heavy = Wish { nusd: None, weight: 3.0 };
        for (cap, wishes, wanted) in [
            (100, vec![wish(None), wish(None)], None),
            (100, vec![wish(Some(30)), wish(Some(20))], Some(vec![30, 20])),
            (100, vec![wish(Some(20)), wish(None), heavy], Some(vec![20, 20, 60])),
            (100, vec![wish(Some(300)), wish(Some(100)), heavy], Some(vec![75, 25, 0])),
            (0, vec![wish(Some(5)), wish(None)], Some(vec![0, 0])),
            (-7, vec![wish(Some(5))], Some(vec![0])),
        ] {
            assert_eq!(allotments(cap, &wishes), wanted, "{cap} {wishes:?}");
        }
    }

    fn any_wish() -> impl Strategy<Value = Wish> {
        let nusd = prop::option::of(prop_oneof![0..1_000_i64, Just(i64::MAX), any::<i64>()]);
        (nusd, 0.01..100.0_f64).prop_map(|(nusd, weight)| Wish { nusd, weight })
    }

    proptest! {
        #[test]
        fn the_sum_is_never_above_the_cap_and_no_wish_is_exceeded(
            cap in prop_oneof![0..2_000_i64, any::<i64>()],
            wishes in prop::collection::vec(any_wish(), 1..20),
        ) {
            let Some(amounts) = allotments(cap, &wishes) else { return Ok(()) };
            prop_assert_eq!(amounts.len(), wishes.len());
            let sum: i128 = amounts.iter().map(|nusd| i128::from(*nusd)).sum();
            prop_assert!(sum <= i128::from(cap.max(0)), "{:?}", amounts);
            for (amount, wish) in amounts.iter().zip(&wishes) {
                prop_assert!(*amount >= 0);
                prop_assert!(wish.nusd.is_none_or(|nusd| *amount <= nusd.max(0)));
            }
            // Whoever names nothing shares all that nobody was allotted.
            if wishes.iter().any(|wish| wish.nusd.is_none()) {
                let wished = wishes.iter().filter_map(|wish| wish.nusd);
                let wished: i128 = wished.map(|nusd| i128::from(nusd.max(0))).sum();
                let all = wished > i128::from(cap.max(0)) || sum == i128::from(cap.max(0));
                prop_assert!(all, "{:?}", amounts);
            }
        }
    }
}
