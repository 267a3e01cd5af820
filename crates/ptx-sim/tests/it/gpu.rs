//! Every form of `gpu/forms.txt` against what an H200 gave, bit for bit where PTX is exact.
//!
//! `gpu/golden.py` made `gpu/golden.bin` on the GPU; inputs are generated alike on both sides. A
//! disagreement is a bug of the simulator, or is listed in [`KNOWN`] with its reason.

use crate::fixtures::Bench;
use ptx_sim::{DecodeError, Program, syntax};

const FORMS: &str = include_str!("../gpu/forms.txt");
const GOLDEN: &[u8] = include_bytes!("../gpu/golden.bin");
const ROWS: usize = 256;

/// Forms that are allowed to differ, with the reason.
const KNOWN: [(&str, &str); 1] = [(
    "cvt.rna.tf32.f32 %d, %a;",
    "a signalling NaN whose payload lies below tf32's mantissa becomes an infinity on the GPU",
)];

const EDGES_32: [u32; 50] = [
    0,
    1,
    2,
    5,
    31,
    32,
    33,
    63,
    255,
    0x7fff,
    0x8000,
    0xffff,
    0x10000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0xffff_fffe,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4049_0fdb,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffc0_0001,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x4b00_0000,
    0x4b80_0000,
    0x4eff_ffff,
    0x4f00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0xcf00_0000,
    0x3380_0000,
    0x477f_e000,
    0x477f_f000,
    0x3880_0000,
    0x3300_0000,
    0x3c00_3c00,
    0x7c00_7c00,
    0x7e00_fc00,
    0x0001_0001,
    0x3f80_3f80,
    0x7f80_7f80,
];
const EDGES_64: [u64; 39] = [
    0,
    1,
    2,
    9,
    31,
    32,
    63,
    64,
    65,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
    u64::MAX - 1,
    0x1_0000_0000,
    0xffff_ffff,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x0000_0000_0000_0001,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0x41f0_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x3810_0000_0000_0000,
    0x36a0_0000_0000_0000,
    0x3690_0000_0000_0001,
    0x4340_0000_0000_0000,
    0x3f80_0000_3f80_0000,
];

fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn value_32(index: u64) -> u32 {
    let x = mix(index);
    match x % 3 {
        0 => EDGES_32[(x >> 8) as usize % EDGES_32.len()],
        1 => (x >> 32) as u32,
        _ => {
            let sign = ((x >> 7) & 1) as u32;
            let exponent = 117 + ((x >> 8) % 21) as u32;
            sign << 31 | exponent << 23 | (x >> 40) as u32 & 0x7f_ffff
        }
    }
}

fn value_64(index: u64) -> u64 {
    let x = mix(index);
    match x % 3 {
        0 => EDGES_64[(x >> 8) as usize % EDGES_64.len()],
        1 => mix(x),
        _ => {
            let exponent = 1013 + (x >> 8) % 21;
            ((x >> 7) & 1) << 63 | exponent << 52 | mix(x) & 0xf_ffff_ffff_ffff
        }
    }
}

struct Form<'a> {
    width: usize,
    tolerance: &'a str,
    body: &'a str,
    golden: Vec<u64>,
}

fn forms() -> Vec<Form<'static>> {
    let mut bytes = GOLDEN;
    let mut forms = Vec::new();
    for line in FORMS.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, ' ');
        let width = parts.next().unwrap().parse::<usize>().unwrap() / 8;
        let (tolerance, body) = (parts.next().unwrap(), parts.next().unwrap());
        let (present, rest) = bytes.split_first().unwrap();
        bytes = rest;
        if *present == 1 {
            let (results, rest) = bytes.split_at(ROWS * width);
            bytes = rest;
            let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
            let golden = results.chunks_exact(width).map(word).collect();
            forms.push(Form { width, tolerance, body, golden });
        }
    }
    assert!(bytes.is_empty(), "golden.bin does not belong to forms.txt");
    forms
}

fn text(form: &Form<'_>) -> String {
    let (registers, load) = if form.width == 4 {
        (
            ".reg .pred %p, %q; .reg .b16 %h<9>; .reg .b32 %a, %b, %c, %d, %t<9>; \
             .reg .b64 %rd<9>, %x, %y, %z, %w;",
            "mad.wide.u32 %rd3, %t1, 12, %rd1; mad.wide.u32 %rd4, %t1, 4, %rd2;\n\
             ld.global.u32 %a, [%rd3]; ld.global.u32 %b, [%rd3+4]; ld.global.u32 %c, [%rd3+8];",
        )
    } else {
        (
            ".reg .pred %p, %q; .reg .b32 %t<9>, %e; .reg .b64 %rd<9>, %a, %b, %c, %d;",
            "mad.wide.u32 %rd3, %t1, 24, %rd1; mad.wide.u32 %rd4, %t1, 8, %rd2;\n\
             ld.global.u64 %a, [%rd3]; ld.global.u64 %b, [%rd3+8]; ld.global.u64 %c, [%rd3+16];\n\
             cvt.u32.u64 %e, %b;",
        )
    };
    let store = if form.width == 4 { "u32" } else { "u64" };
    format!(
        ".version 8.8\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n{registers}\n\
         ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %t1, %tid.x;\n{load}\n\
         {}\nst.global.{store} [%rd4], %d; ret; }}",
        form.body
    )
}

/// Results of the simulator; `None` where it says that it lacks the form.
fn simulated(form: &Form<'_>) -> Option<Vec<u64>> {
    let ptx = text(form);
    let module = syntax::parse(&ptx).unwrap_or_else(|error| panic!("{}: {error}", form.body));
    match Program::decode(&module, &["k"]) {
        Ok(_) => {}
        Err(DecodeError::Unsupported { .. }) => return None,
        Err(error) => panic!("{}: {error}", form.body),
    }
    let mut bench = Bench::new(&ptx, "k", [1, 1, 1], [ROWS as u32, 1, 1]);
    let indices = 0..3 * ROWS as u64;
    if form.width == 4 {
        bench.input("in", &indices.map(value_32).collect::<Vec<_>>());
        let out = bench.buffer("out", &[0_u32; ROWS]);
        bench.complete();
        return Some(bench.read::<u32>(out, ROWS).into_iter().map(u64::from).collect());
    }
    bench.input("in", &indices.map(value_64).collect::<Vec<_>>());
    let out = bench.buffer("out", &[0_u64; ROWS]);
    bench.complete();
    Some(bench.read(out, ROWS))
}

/// Whether a result agrees under the form's tolerance.
fn agrees(form: &Form<'_>, got: u64, want: u64) -> bool {
    if got == want {
        return true;
    }
    let (kind, number) = form.tolerance.split_at(1);
    let is_nan = |bits: u64| match form.width == 8 {
        true if form.body.contains("cvt.u64.u32 %d") => f32::from_bits(bits as u32).is_nan(),
        true => f64::from_bits(bits).is_nan(),
        false => f32::from_bits(bits as u32).is_nan(),
    };
    let (x, y) = (f32::from_bits(got as u32), f32::from_bits(want as u32));
    let ulps = |a: u64, b: u64| (a as i64).abs_diff(b as i64);
    let limit = || number.parse::<f64>().unwrap();
    match kind {
        "u" => ulps(got, want) <= limit() as u64 && x.is_sign_positive() == y.is_sign_positive(),
        "a" => (f64::from(x) - f64::from(y)).abs() <= limit() * f64::from(y).abs().max(1.0),
        "r" => (f64::from(x) - f64::from(y)).abs() <= limit() * f64::from(y).abs(),
        "n" => is_nan(got) && is_nan(want),
        "h" => ulps(got >> 32, want >> 32) <= 2,
        _ => false,
    }
}

#[test]
fn the_simulator_agrees_with_the_gpu() {
    let (mut wrong, mut lacking, mut known) = (Vec::new(), Vec::new(), Vec::new());
    let forms = forms();
    assert_eq!(forms.len(), 444);
    for form in &forms {
        let Some(got) = simulated(form) else {
            lacking.push(form.body);
            continue;
        };
        let bad: Vec<usize> =
            (0..ROWS).filter(|row| !agrees(form, got[*row], form.golden[*row])).collect();
        let Some(row) = bad.first() else { continue };
        if KNOWN.iter().any(|(body, _)| *body == form.body) {
            known.push(form.body);
            continue;
        }
        let input = |i: usize| match form.width {
            4 => u64::from(value_32((3 * row + i) as u64)),
            _ => value_64((3 * row + i) as u64),
        };
        wrong.push(format!(
            "{}: {} of {ROWS} rows, first {row}: a={:#x} b={:#x} c={:#x}: got {:#x}, GPU {:#x}",
            form.body,
            bad.len(),
            input(0),
            input(1),
            input(2),
            got[*row],
            form.golden[*row]
        ));
    }
    assert!(wrong.is_empty(), "{} forms differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(lacking, ["cnot.b32 %d, %a;"]);
    assert_eq!(known.len(), KNOWN.len(), "a known difference is gone: {known:?}");
}
