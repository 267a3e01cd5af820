//! The table of counts.

use pipeline::report::Counters;

/// One line for each thing that was counted, with what the number should be compared with.
pub(super) fn table(counters: &Counters) -> Vec<String> {
    let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
    let active = ratio(counters.lane_instructions, counters.warp_instructions);
    let loads = ratio(counters.load_sectors, counters.load_requests);
    let stores = ratio(counters.store_sectors, counters.store_requests);
    let wavefronts = ratio(counters.shared_wavefronts, counters.shared_requests);
    let divergent = 100.0 * ratio(counters.divergent_branches, counters.branches);
    let sectors = "sectors of 32 bytes per request; 4 is ideal for 4-byte elements";
    let rows = [
        (
            "warp instructions",
            counters.warp_instructions,
            format!("{active:.1} of 32 lanes active"),
        ),
        ("fp32 operations", counters.fp32_flops, String::new()),
        ("bytes asked for", counters.requested_bytes, "global memory".to_owned()),
        ("global load requests", counters.load_requests, format!("{loads:.2} {sectors}")),
        ("global load sectors", counters.load_sectors, String::new()),
        (
            "global store requests",
            counters.store_requests,
            format!("{stores:.2} sectors per request"),
        ),
        ("global store sectors", counters.store_sectors, String::new()),
        ("shared requests", counters.shared_requests, String::new()),
        (
            "shared wavefronts",
            counters.shared_wavefronts,
            format!("{wavefronts:.2} per request; more than 1 is bank conflicts or wide accesses"),
        ),
        ("branches", counters.branches, format!("{divergent:.1} % divergent")),
        ("divergent branches", counters.divergent_branches, String::new()),
        ("atomics", counters.atomics, String::new()),
        ("barriers", counters.barriers, "one per warp".to_owned()),
    ];
    let line = |(name, value, note): (&str, f64, String)| {
        let note = if value == 0.0 { String::new() } else { note };
        format!("{name:<22} {:>18}   {note}", grouped(value as u64)).trim_end().to_owned()
    };
    rows.into_iter().map(line).collect()
}

/// `1234567` as `1,234,567`.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{grouped, table};
    use pipeline::report::Counters;

    #[test]
    fn counts_are_grouped_and_compared() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let counters = Counters { load_requests: 4.0, load_sectors: 32.0, ..Counters::default() };
        let lines = table(&counters);
        assert!(lines.iter().any(|line| line.contains("8.00 sectors of 32 bytes per request")));
        assert!(lines.iter().any(|line| line.starts_with("atomics") && line.ends_with(" 0")));
    }
}
