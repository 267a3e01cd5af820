//! What gains of parts are worth to the whole, and how a budget is divided among them.
//!
//! The whole is the listed operators together. A part that is not mended keeps a gain of 1, so that
//! nothing is promised for it. Start at [`gain_of_whole`]; [`apportion`] divides without a rest.

/// One part of a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Of the whole's time, from 0 to 1.
    pub share: f64,
    /// How many times as fast the part becomes.
    pub gain: f64,
}

/// Shares of weights that are finite and above 0; others have none.
#[must_use]
pub fn shares(weights: &[f64]) -> Vec<f64> {
    let counted = |weight: f64| if weight.is_finite() && weight > 0.0 { weight } else { 0.0 };
    // The largest one first, so that their sum stays finite.
    let largest = weights.iter().copied().map(counted).fold(0.0, f64::max);
    if largest == 0.0 {
        return vec![0.0; weights.len()];
    }
    let scaled: Vec<f64> = weights.iter().map(|weight| counted(*weight) / largest).collect();
    let sum: f64 = scaled.iter().sum();
    scaled.into_iter().map(|weight| weight / sum).collect()
}

/// Share of the whole's time that a part no longer takes; negative for one that becomes slower. A
/// gain that is no number above 0 saves nothing.
#[must_use]
pub fn saved(part: Part) -> f64 {
    let known = part.gain.is_finite() && part.gain > 0.0;
    if known { part.share * (1.0 - 1.0 / part.gain) } else { 0.0 }
}

/// How many times as fast the whole becomes (Amdahl). What no part covers stays as it is.
#[must_use]
pub fn gain_of_whole(parts: impl IntoIterator<Item = Part>) -> f64 {
    let left = 1.0 - parts.into_iter().map(saved).sum::<f64>();
    // A rounding error must not turn a part that is all of the whole into nothing or less.
    1.0 / left.max(f64::EPSILON)
}

/// Divides `total` by `weights` with the largest remainder: the parts add up to `total`, and each
/// is its exact share rounded down or up. Nobody gets anything where no weight counts.
#[must_use]
pub fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let shares = shares(weights);
    let mut left = total;
    let mut parts = Vec::with_capacity(shares.len());
    let mut rests: Vec<(usize, f64)> = Vec::new();
    for (index, share) in shares.iter().enumerate() {
        let exact = total as f64 * share;
        let whole = (exact.floor() as u64).min(left);
        left -= whole;
        parts.push(whole);
        if *share > 0.0 {
            rests.push((index, exact - exact.floor()));
        }
    }
    // Stable: of equal remainders the earlier one is rounded up.
    rests.sort_by(|a, b| b.1.total_cmp(&a.1));
    let given = rests.len() as u64;
    for (place, (index, _)) in rests.iter().enumerate() {
        // More than one each only where the numbers are too large to be divided exactly.
        let more = left / given + u64::from((place as u64) < left % given);
        parts[*index] += more;
    }
    parts
}

/// As [`apportion`], but whoever has a weight gets at least 1 while there is enough for all of
/// them; the largest parts give it.
#[must_use]
pub fn apportion_to_each(total: u64, weights: &[f64]) -> Vec<u64> {
    let mut parts = apportion(total, weights);
    let waiting: Vec<usize> = shares(weights)
        .iter()
        .zip(&parts)
        .enumerate()
        .filter_map(|(index, (share, part))| (*share > 0.0 && *part == 0).then_some(index))
        .collect();
    for index in waiting {
        let largest = (0..parts.len()).rev().max_by_key(|at| parts[*at]);
        match largest {
            Some(giver) if parts[giver] > 1 => {
                parts[giver] -= 1;
                parts[index] = 1;
            }
            Some(_) | None => break,
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Part, apportion, apportion_to_each, gain_of_whole, shares};

    fn part(share: f64, gain: f64) -> Part {
        Part { share, gain }
    }

    #[test]
    fn a_part_is_worth_its_share() {
        for (parts, whole) in [
            (vec![], 1.0),
            (vec![part(0.5, 2.0)], 1.0 / 0.75),
            (vec![part(0.5, 1.0), part(0.5, 1.0)], 1.0),
            (vec![part(1.0, 4.0)], 4.0),
            (vec![part(0.25, 2.0), part(0.25, 5.0)], 1.0 / (0.5 + 0.125 + 0.05)),
            // Slower parts count against the whole.
            (vec![part(0.5, 0.5)], 1.0 / 1.5),
            // Nobody knows: nothing is promised.
            (vec![part(0.5, f64::NAN), part(0.5, 0.0)], 1.0),
            (vec![part(0.5, f64::INFINITY)], 1.0),
        ] {
            let found = gain_of_whole(parts.clone());
            assert!((found - whole).abs() < 1e-12, "{parts:?}: {found}, expected {whole}");
        }
    }

    #[test]
    fn shares_count_only_weights_that_are_numbers() {
        assert_eq!(shares(&[1.0, 3.0]), [0.25, 0.75]);
        assert_eq!(shares(&[0.0, 2.0, -1.0, f64::NAN, f64::INFINITY]), [0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(shares(&[f64::MAX, f64::MAX]), [0.5, 0.5]);
        assert_eq!(shares(&[0.0, 0.0]), [0.0, 0.0]);
        assert!(shares(&[]).is_empty());
    }

    #[test]
    fn budgets_are_divided_without_a_rest() {
        for (total, weights, parts) in [
            (10, vec![1.0, 1.0, 1.0], vec![4, 3, 3]),
            (10, vec![6.0, 3.0, 1.0], vec![6, 3, 1]),
            // Hamilton's textbook case: 5.5, 3.3, 1.2 of ten.
            (10, vec![0.55, 0.33, 0.12], vec![6, 3, 1]),
            (7, vec![0.0, 0.0], vec![0, 0]),
            (7, vec![0.0, 2.0], vec![0, 7]),
            (0, vec![1.0, 2.0], vec![0, 0]),
            (5, vec![], vec![]),
        ] {
            assert_eq!(apportion(total, &weights), parts, "{total} by {weights:?}");
        }
        assert_eq!(apportion_to_each(20, &[99.0, 0.5, 0.5, 0.0]), [18, 1, 1, 0]);
        assert_eq!(apportion_to_each(2, &[1.0, 1.0, 1.0]), [1, 1, 0]);
        assert_eq!(apportion_to_each(3, &[98.0, 1.0, 1.0]), [1, 1, 1]);
    }

    fn weights() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(prop_oneof![Just(0.0), 1e-6..1e6_f64], 1..40)
    }

    proptest! {
        #[test]
        fn sums_are_exact(total in 0..2_u64.pow(60), weights in weights()) {
            let parts = apportion(total, &weights);
            let some = weights.iter().any(|weight| *weight > 0.0);
            prop_assert_eq!(parts.iter().sum::<u64>(), if some { total } else { 0 });
            let none = weights.iter().zip(&parts).filter(|(weight, _)| **weight == 0.0);
            prop_assert!(none.into_iter().all(|(_, part)| *part == 0));
        }

        #[test]
        fn each_part_is_its_share_rounded(total in 0..1_000_000_u64, weights in weights()) {
            let shares = shares(&weights);
            for (part, share) in apportion(total, &weights).into_iter().zip(shares) {
                prop_assert!((part as f64 - total as f64 * share).abs() < 1.0 + 1e-6);
            }
        }

        #[test]
        fn whoever_counts_gets_one_while_there_is_enough(
            total in 0..200_u64, weights in weights()
        ) {
            let parts = apportion_to_each(total, &weights);
            let counted = weights.iter().filter(|weight| **weight > 0.0).count() as u64;
            prop_assert_eq!(parts.iter().sum::<u64>(), if counted > 0 { total } else { 0 });
            let served = parts.iter().filter(|part| **part > 0).count() as u64;
            prop_assert_eq!(served, counted.min(total));
        }

        #[test]
        fn the_whole_gains_no_more_than_its_best_part(
            parts in prop::collection::vec((1e-3..1e3_f64, 0.1..100.0_f64), 1..20)
        ) {
            let weights: Vec<f64> = parts.iter().map(|(weight, _)| *weight).collect();
            let gains = parts.iter().map(|(_, gain)| *gain);
            let (low, high) = gains.clone().fold((f64::MAX, 0.0_f64), |(low, high), gain| {
                (low.min(gain), high.max(gain))
            });
            let parts: Vec<Part> = shares(&weights).into_iter().zip(gains)
                .map(|(share, gain)| Part { share, gain }).collect();
            let whole = gain_of_whole(parts.clone());
            prop_assert!(whole >= low * (1.0 - 1e-9) && whole <= high * (1.0 + 1e-9));
            // One more gain helps, and never more than its share allows.
            let mut better = parts.clone();
            better[0].gain *= 2.0;
            prop_assert!(gain_of_whole(better) >= whole);
            let alone = gain_of_whole([parts[0]]);
            prop_assert!(alone <= 1.0 / (1.0 - parts[0].share).max(f64::EPSILON) * (1.0 + 1e-9));
        }
    }
}
