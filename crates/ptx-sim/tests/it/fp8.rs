//! Conversions of 8-bit floats against their definition, exhaustively.

use crate::opcodes::run32;

/// Every finite value of an 8-bit float, by its definition: bits, value.
fn finite_fp8(exponent_bits: u32, mantissa_bits: u32, largest: u32) -> Vec<(u32, f64)> {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let value = |bits: u32| {
        let (exponent, mantissa) = (bits >> mantissa_bits, bits & ((1 << mantissa_bits) - 1));
        let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
        match exponent {
            0 => fraction * 2_f64.powi(1 - bias),
            _ => (1.0 + fraction) * 2_f64.powi(exponent as i32 - bias),
        }
    };
    (0..=largest).map(|bits| (bits, value(bits))).collect()
}

/// The nearest of these; of two as near, the one with an even last bit.
fn nearest_fp8(finite: &[(u32, f64)], x: f64) -> u32 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let distance = |value: f64| (value - x.abs().min(1e6)).abs();
    let better = |a: &(u32, f64), b: &(u32, f64)| {
        distance(a.1).total_cmp(&distance(b.1)).then((a.0 & 1).cmp(&(b.0 & 1)))
    };
    sign | finite.iter().copied().min_by(better).unwrap().0
}

/// Name in PTX, finite values, whether there are infinities.
type Kind = (&'static str, Vec<(u32, f64)>, bool);

fn kinds() -> [Kind; 2] {
    [("e4m3x2", finite_fp8(4, 3, 0x7e), false), ("e5m2x2", finite_fp8(5, 2, 0x7b), true)]
}

/// The half that a pattern stands for.
fn half_of((_, finite, has_infinity): &Kind, bits: u32) -> u32 {
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let infinite = *has_infinity && bits & 0x7f == 0x7c;
    let otherwise = if infinite { f64::INFINITY } else { f64::NAN };
    let magnitude = finite.get((bits & 0x7f) as usize).map_or(otherwise, |it| it.1);
    let value = half::f16::from_f64(sign * magnitude);
    u32::from(if value.is_nan() { 0x7fff } else { value.to_bits() })
}

#[test]
fn every_value_is_widened_exactly_in_both_places() {
    for kind in kinds() {
        let all: Vec<[u32; 3]> = (0..=0xff).map(|bits| [bits << 8 | (bits ^ 0x41), 0, 0]).collect();
        let cvt = format!("cvt.u16.u32 %h1, %a; cvt.rn.f16x2.{} %d, %h1;", kind.0);
        for ([bits, ..], got) in all.iter().zip(run32(&cvt, &all)) {
            let want = half_of(&kind, bits >> 8) << 16 | half_of(&kind, bits & 0xff);
            assert_eq!(got, want, "{cvt} {bits:#x}");
        }
    }
}

/// Every value, the middle to the next and its neighbours, and what is too large or small.
fn telling_singles(finite: &[(u32, f64)]) -> Vec<f32> {
    let between = finite.windows(2).map(|pair| ((pair[0].1 + pair[1].1) / 2.0) as f32);
    let beside = between.flat_map(|x| [x.next_down(), x, x.next_up()]);
    let exact = finite.iter().map(|it| it.1 as f32);
    let beyond = [464.0, 480.0, 61_440.0, 65_536.0, 3e38, f32::INFINITY, 1e-40];
    beside.chain(exact).chain(beyond).collect()
}

#[test]
fn singles_are_rounded_to_nearest_and_saturate() {
    for (name, finite, _) in kinds() {
        let values = telling_singles(&finite);
        let rows: Vec<[u32; 3]> = values.iter().map(|x| [x.to_bits(), (-x).to_bits(), 0]).collect();
        for relu in ["", ".relu"] {
            let cvt =
                format!("cvt.rn.satfinite{relu}.{name}.f32 %h1, %a, %b; cvt.u32.u16 %d, %h1;");
            let got = rows.chunks(1024).flat_map(|rows| run32(&cvt, rows));
            for (x, got) in values.iter().zip(got) {
                let [up, down] = [*x, -x].map(|x| nearest_fp8(&finite, x.into()));
                let down = if relu.is_empty() { down } else { 0 };
                assert_eq!(got, up << 8 | down, "{cvt} {x:e}");
            }
        }
    }
}

#[test]
fn nans_and_pairs_of_halves() {
    for (name, finite, _) in kinds() {
        let from = |source: &str, row: [u32; 3]| {
            let cvt = format!("cvt.rn.satfinite.{name}.{source}; cvt.u32.u16 %d, %h1;");
            run32(&cvt, &[row])
        };
        assert_eq!(from("f32 %h1, %a, %b", [0x7fc0_0000, 0xffc0_0000, 0]), [0x7f7f]);
        let [one, minus_two] = [1.0, -2.0].map(|x| nearest_fp8(&finite, x));
        assert_eq!(from("f16x2 %h1, %a", [0x3c00_c000, 0, 0]), [one << 8 | minus_two]);
    }
}
