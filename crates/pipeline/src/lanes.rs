//! When things were busy: spans of time as a few columns that fit on any page.
//!
//! A night has more spans than a page has points, so each column holds the mean number of spans
//! that were open in it. Nothing is lost but places: the columns add up to the length of all spans.

/// A time from its begin to its end, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from_us: i64,
    pub to_us: i64,
}

impl Span {
    /// Its length in microseconds; 0 where the end is not after the begin.
    #[must_use]
    pub fn length_us(self) -> u64 {
        if self.to_us > self.from_us { self.to_us.abs_diff(self.from_us) } else { 0 }
    }

    /// The shortest span around all; `None` without any.
    #[must_use]
    pub fn around(spans: impl IntoIterator<Item = Self>) -> Option<Self> {
        spans.into_iter().reduce(|all, span| Self {
            from_us: all.from_us.min(span.from_us),
            to_us: all.to_us.max(span.to_us),
        })
    }
}

/// The mean number of spans open at once in each of `count` equal columns of `window`.
#[must_use]
pub fn columns(spans: &[Span], window: Span, count: usize) -> Vec<f64> {
    let mut columns = vec![0.0; count];
    let width = window.length_us() as f64 / count.max(1) as f64;
    if width <= 0.0 {
        return columns;
    }
    for span in spans {
        let from = span.from_us.clamp(window.from_us, window.to_us);
        let to = span.to_us.clamp(window.from_us, window.to_us);
        if to <= from {
            continue;
        }
        let [from, to] = [from, to].map(|at| at.abs_diff(window.from_us) as f64 / width);
        let last = (to.ceil() as usize).min(count);
        for (index, column) in columns.iter_mut().enumerate().take(last).skip(from as usize) {
            let begin = from.max(index as f64);
            let end = to.min(index as f64 + 1.0);
            *column += (end - begin).max(0.0);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Span, columns};

    fn span(from_us: i64, to_us: i64) -> Span {
        Span { from_us, to_us }
    }

    #[test]
    fn a_column_holds_the_mean_number_of_open_spans() {
        let window = span(100, 500);
        for (spans, expected) in [
            (vec![], [0.0, 0.0, 0.0, 0.0]),
            (vec![span(100, 500)], [1.0, 1.0, 1.0, 1.0]),
            (vec![span(150, 250)], [0.5, 0.5, 0.0, 0.0]),
            (vec![span(150, 250), span(100, 200)], [1.5, 0.5, 0.0, 0.0]),
            // What lies outside is cut off; what ends before it begins is none.
            (vec![span(0, 200), span(450, 900), span(600, 700)], [1.0, 0.0, 0.0, 0.5]),
            (vec![span(300, 200), span(300, 300)], [0.0, 0.0, 0.0, 0.0]),
        ] {
            assert_eq!(columns(&spans, window, 4), expected, "{spans:?}");
        }
        assert!(columns(&[window], window, 0).is_empty());
        assert_eq!(columns(&[window], span(7, 7), 2), [0.0, 0.0]);
    }

    #[test]
    fn all_spans_lie_in_the_one_around_them() {
        assert_eq!(Span::around([]), None);
        assert_eq!(Span::around([span(5, 9), span(-2, 3)]), Some(span(-2, 9)));
    }

    proptest! {
        #[test]
        fn columns_add_up_to_the_length_of_all_spans(
            spans in prop::collection::vec((0..1_000_000_i64, 0..1_000_000_i64), 0..30),
            count in 1..300_usize,
        ) {
            let spans: Vec<Span> = spans.into_iter().map(|(from, to)| span(from, to)).collect();
            let window = span(0, 1_000_000);
            let width = 1e6 / count as f64;
            let found = columns(&spans, window, count).iter().sum::<f64>() * width;
            let expected: u64 = spans.iter().map(|span| span.length_us()).sum();
            prop_assert!((found - expected as f64).abs() < 1e-3);
        }
    }
}
