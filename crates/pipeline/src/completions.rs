//! How long a model's answers are: what output limit to send, and below which one a call is not
//! worth making.
//!
//! A limit that is far above every answer ties up money that nobody spends; one that cuts answers
//! off wastes what they cost. Lengths come in, in the order of the answers; nothing is stored here.

use std::collections::VecDeque;

use crate::attempt::Mode;
use crate::limits::{COMPLETIONS_KEPT, COMPLETIONS_MIN, OUTPUT_TOKENS_MIN};

/// The limit above the 99th percentile, as a ratio.
const MARGIN: [u64; 2] = [5, 4];

/// Lengths of the latest answers, in tokens, one list for each mode.
#[derive(Clone, Debug, Default)]
pub struct Completions {
    lengths: [VecDeque<u64>; Mode::ALL.len()],
}

impl Completions {
    /// Takes note of an answer of `tokens`. One that its limit cut off would have been longer, so
    /// it counts twice, and the limit grows again.
    pub fn note(&mut self, mode: Mode, tokens: u64, was_cut: bool) {
        let lengths = &mut self.lengths[mode as usize];
        if lengths.len() == COMPLETIONS_KEPT {
            lengths.pop_front();
        }
        lengths.push_back(if was_cut { tokens.saturating_mul(2) } else { tokens });
    }

    /// The output limit to send where the model may answer up to `wanted` tokens: a quarter above
    /// the 99th percentile once enough answers were seen.
    #[must_use]
    pub fn limit(&self, mode: Mode, wanted: u64) -> u64 {
        let lengths = &self.lengths[mode as usize];
        if lengths.len() < COMPLETIONS_MIN {
            return wanted;
        }
        let [over, under] = MARGIN;
        let limit = percentile(lengths, 99).saturating_mul(over) / under;
        limit.max(OUTPUT_TOKENS_MIN).min(wanted)
    }

    /// The smallest output limit that is worth sending where `limit` is the one that is wanted:
    /// nine of ten answers fit into it.
    #[must_use]
    pub fn useful(&self, mode: Mode, limit: u64) -> u64 {
        let usual = percentile(&self.lengths[mode as usize], 90);
        usual.max(OUTPUT_TOKENS_MIN).min(limit)
    }
}

/// The nearest-rank percentile; zero where nothing was seen.
fn percentile(lengths: &VecDeque<u64>, percent: usize) -> u64 {
    let mut sorted: Vec<u64> = lengths.iter().copied().collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Completions;
    use crate::attempt::Mode;

    fn seen(lengths: impl IntoIterator<Item = u64>) -> Completions {
        let mut completions = Completions::default();
        for tokens in lengths {
            completions.note(Mode::Repair, tokens, false);
        }
        completions
    }

    #[test]
    fn a_limit_follows_what_was_seen_once_it_is_enough() {
        for (lengths, limit, useful) in [
            (seen([]), 64_000, 4_000),
            (seen([12_000; 19]), 64_000, 12_000),
            (seen([12_000; 20]), 15_000, 12_000),
            (seen([100; 20]), 4_000, 4_000),
            (seen([60_000; 20]), 64_000, 60_000),
            (seen((1..=100).map(|it| it * 200)), 24_750, 18_000),
        ] {
            assert_eq!(lengths.limit(Mode::Repair, 64_000), limit);
            assert_eq!(lengths.useful(Mode::Repair, limit), useful);
            assert_eq!(lengths.limit(Mode::First, 64_000), 64_000, "each mode has its own");
        }
    }

    #[test]
    fn a_limit_that_cuts_answers_off_grows_again() {
        let mut completions = seen([8_000; 40]);
        assert_eq!(completions.limit(Mode::Repair, 64_000), 10_000);
        completions.note(Mode::Repair, 10_000, true);
        assert_eq!(completions.limit(Mode::Repair, 64_000), 25_000);
        for _ in 0..super::COMPLETIONS_KEPT {
            completions.note(Mode::Repair, 5_000, false);
        }
        assert_eq!(completions.limit(Mode::Repair, 64_000), 6_250, "old ones are forgotten");
    }
}
