//! Single opcodes in hand-written PTX against slow scalar references.

use crate::fixtures::Bench;
use proptest::prelude::*;

/// Runs `body` once for each lane on `%a`, `%b`, `%c` (32-bit), result `%d`.
pub(crate) fn run32(body: &str, rows: &[[u32; 3]]) -> Vec<u32> {
    let ptx = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .pred %p, %q; .reg .b16 %h<9>; .reg .b32 %a, %b, %c, %d, %t<9>;\n\
         .reg .b64 %rd<9>, %x, %y, %z, %w;\n\
         ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %t1, %tid.x;\n\
         mad.wide.u32 %rd3, %t1, 12, %rd1; mad.wide.u32 %rd4, %t1, 4, %rd2;\n\
         ld.global.u32 %a, [%rd3]; ld.global.u32 %b, [%rd3+4]; ld.global.u32 %c, [%rd3+8];\n\
         {body}\nst.global.u32 [%rd4], %d; ret; }}"
    );
    let mut bench = Bench::new(&ptx, "k", [1, 1, 1], [rows.len() as u32, 1, 1]);
    bench.input("in", &rows.concat());
    let out = bench.buffer("out", &vec![0_u32; rows.len()]);
    bench.complete();
    bench.read(out, rows.len())
}

/// The same on 64-bit values.
fn run64(body: &str, rows: &[[u64; 3]]) -> Vec<u64> {
    let ptx = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .pred %p, %q; .reg .b32 %t<9>, %e; .reg .b64 %rd<9>, %a, %b, %c, %d;\n\
         ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %t1, %tid.x;\n\
         mad.wide.u32 %rd3, %t1, 24, %rd1; mad.wide.u32 %rd4, %t1, 8, %rd2;\n\
         ld.global.u64 %a, [%rd3]; ld.global.u64 %b, [%rd3+8]; ld.global.u64 %c, [%rd3+16];\n\
         cvt.u32.u64 %e, %b;\n{body}\nst.global.u64 [%rd4], %d; ret; }}"
    );
    let mut bench = Bench::new(&ptx, "k", [1, 1, 1], [rows.len() as u32, 1, 1]);
    bench.input("in", &rows.concat());
    let out = bench.buffer("out", &vec![0_u64; rows.len()]);
    bench.complete();
    bench.read(out, rows.len())
}

type Case32 = (&'static str, fn(u32, u32, u32) -> u32);

fn big(x: u32) -> i128 {
    i128::from(x)
}

fn small(x: u32) -> i128 {
    i128::from(x as i32)
}

const INTEGERS: [Case32; 40] = [
    ("add.s32 %d, %a, %b;", |a, b, _| (big(a) + big(b)) as u32),
    ("sub.s32 %d, %a, %b;", |a, b, _| (big(a) - big(b)) as u32),
    ("mul.lo.s32 %d, %a, %b;", |a, b, _| (big(a) * big(b)) as u32),
    ("mul.hi.s32 %d, %a, %b;", |a, b, _| ((small(a) * small(b)) >> 32) as u32),
    ("mul.hi.u32 %d, %a, %b;", |a, b, _| ((big(a) * big(b)) >> 32) as u32),
    ("mad.lo.s32 %d, %a, %b, %c;", |a, b, c| (big(a) * big(b) + big(c)) as u32),
    ("mad.hi.u32 %d, %a, %b, %c;", |a, b, c| (((big(a) * big(b)) >> 32) + big(c)) as u32),
    ("shl.b32 %d, %a, %b;", |a, b, _| if b > 31 { 0 } else { a << b }),
    ("shr.u32 %d, %a, %b;", |a, b, _| if b > 31 { 0 } else { a >> b }),
    ("shr.s32 %d, %a, %b;", |a, b, _| (small(a) >> b.min(100)) as u32),
    ("and.b32 %d, %a, %b; not.b32 %d, %d;", |a, b, _| !(a & b)),
    ("lop3.b32 %d, %a, %b, %c, 0x96;", |a, b, c| a ^ b ^ c),
    ("lop3.b32 %d, %a, %b, %c, 0xE8;", |a, b, c| (a & b) | (b & c) | (a & c)),
    ("lop3.b32 %d, %a, %b, %c, 0xCA;", |a, b, c| (a & b) | (!a & c)),
    ("popc.b32 %d, %a;", |a, _, _| (0..32).map(|i| a >> i & 1).sum()),
    ("clz.b32 %d, %a;", |a, _, _| (0..32).rev().take_while(|i| a >> i & 1 == 0).count() as u32),
    ("brev.b32 %d, %a;", |a, _, _| (0..32).fold(0, |r, i| r | (a >> i & 1) << (31 - i))),
    ("bfind.u32 %d, %a;", |a, _, _| (0..32).rev().find(|i| a >> i & 1 == 1).unwrap_or(u32::MAX)),
    ("bfind.s32 %d, %a;", |a, _, _| {
        let a = if a >> 31 == 1 { !a } else { a };
        (0..32).rev().find(|i| a >> i & 1 == 1).unwrap_or(u32::MAX)
    }),
    ("bfe.u32 %d, %a, %b, %c;", |a, b, c| bfe(a, b, c, false)),
    ("bfe.s32 %d, %a, %b, %c;", |a, b, c| bfe(a, b, c, true)),
    ("bfi.b32 %d, %a, %b, %c, 7;", |a, b, c| {
        let position = c & 0xff;
        (0..7).fold(b, |f, i| {
            if position + i > 31 {
                f
            } else {
                f & !(1 << (position + i)) | (a >> i & 1) << (position + i)
            }
        })
    }),
    ("shf.l.wrap.b32 %d, %a, %b, %c;", |a, b, c| {
        (((u64::from(b) << 32 | u64::from(a)) << (c & 31)) >> 32) as u32
    }),
    ("shf.r.clamp.b32 %d, %a, %b, %c;", |a, b, c| {
        ((u128::from(b) << 32 | u128::from(a)) >> c.min(32)) as u32
    }),
    ("prmt.b32 %d, %a, %b, %c;", |a, b, c| {
        let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
        u32::from_le_bytes(std::array::from_fn(|i| {
            let s = c >> (4 * i);
            let byte = bytes[(s & 7) as usize];
            if s & 8 == 0 {
                byte
            } else if byte & 0x80 != 0 {
                0xff
            } else {
                0
            }
        }))
    }),
    ("min.s32 %d, %a, %b; max.s32 %d, %d, %c;", |a, b, c| {
        small(a).min(small(b)).max(small(c)) as u32
    }),
    ("min.u32 %d, %a, %b; max.u32 %d, %d, %c;", |a, b, c| a.min(b).max(c)),
    ("abs.s32 %d, %a; neg.s32 %d, %d;", |a, _, _| (-small(a).abs()) as u32),
    ("div.s32 %d, %a, %b;", |a, b, _| if b == 0 { u32::MAX } else { (small(a) / small(b)) as u32 }),
    ("rem.s32 %d, %a, %b;", |a, b, _| if b == 0 { a } else { (small(a) % small(b)) as u32 }),
    ("div.u32 %d, %a, %b;", |a, b, _| a.checked_div(b).unwrap_or(u32::MAX)),
    ("sad.s32 %d, %a, %b, %c;", |a, b, c| ((small(a) - small(b)).abs() + big(c)) as u32),
    ("setp.lt.s32 %p|%q, %a, %b; selp.b32 %d, %a, %c, %q;", |a, b, c| {
        if small(a) < small(b) { c } else { a }
    }),
    (
        "setp.gt.u32 %p, %a, %b; setp.ne.and.s32 %q, %b, %c, !%p; selp.b32 %d, 1, 0, %q;",
        |a, b, c| u32::from(b != c && a <= b),
    ),
    (
        "cvt.u16.u32 %h1, %a; cvt.u16.u32 %h2, %b; add.s16 %h3, %h1, %h2; cvt.s32.s16 %d, %h3;",
        |a, b, _| (a as i16).wrapping_add(b as i16) as i32 as u32,
    ),
    ("cvt.u16.u32 %h1, %a; shr.s16 %h2, %h1, 3; mul.wide.s16 %d, %h1, %h2;", |a, _, _| {
        (i32::from(a as i16) * i32::from(a as i16 >> 3)) as u32
    }),
    ("mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};", |a, _, _| a.rotate_left(16)),
    ("mov.b64 %x, {%a, %b}; shr.u64 %x, %x, 8; mov.b64 {_, %d}, %x;", |_, b, _| b >> 8),
    ("add.cc.u32 %t2, %a, %b; addc.u32 %d, %c, 0;", |a, b, c| {
        c.wrapping_add(u32::from(big(a) + big(b) >= 1 << 32))
    }),
    ("sub.cc.u32 %t2, %a, %b; subc.u32 %d, %c, 0;", |a, b, c| c.wrapping_sub(u32::from(a < b))),
];

fn bfe(a: u32, position: u32, length: u32, signed: bool) -> u32 {
    let (position, length) = (position & 0xff, length & 0xff);
    let sign = if !signed || length == 0 { 0 } else { a >> (position + length - 1).min(31) & 1 };
    (0..32).fold(0, |d, i| {
        let bit = if i < length && position + i <= 31 { a >> (position + i) & 1 } else { sign };
        d | bit << i
    })
}

const EDGES: [u32; 16] = [
    0,
    1,
    2,
    5,
    31,
    32,
    33,
    0x7f,
    0xff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ffff,
    0x0001_0000,
    0xfffe_dcba,
];

fn edge_or_any() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![prop::sample::select(&EDGES[..]), any::<u32>(), 0..40_u32]
}

fn float_bits() -> impl Strategy<Value = u32> + Clone {
    const SPECIAL: [u32; 14] = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7f80_0001,
        0x3f80_0000,
        0x3f80_0001,
    ];
    prop_oneof![prop::sample::select(&SPECIAL[..]), any::<u32>(), 0x3e00_0000..0x4200_0000_u32]
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

/// Rounds a quotient-free exact value given as a ratio of big integers: here only sums and
/// products of singles, as an integer multiple of 2^-300.
fn directed(exact: i128, scale: i32, up: bool) -> f32 {
    // Walks from the nearest double-rounded guess to the exact neighbour.
    let value = |x: f32| {
        let bits = x.to_bits();
        let exponent = ((bits >> 23 & 0xff) as i32).max(1) - 150;
        let mantissa =
            i128::from(bits & 0x7f_ffff) | if bits >> 23 & 0xff != 0 { 1 << 23 } else { 0 };
        (if bits >> 31 == 1 { -mantissa } else { mantissa }) << (exponent - scale)
    };
    let mut guess = (exact as f64 * 2_f64.powi(scale)) as f32;
    while value(guess) > exact {
        guess = guess.next_down();
    }
    while value(guess.next_up()) <= exact {
        guess = guess.next_up();
    }
    if up && value(guess) < exact { guess.next_up() } else { guess }
}

const FLOATS: [Case32; 22] = [
    ("add.f32 %d, %a, %b;", |a, b, _| canonical(f(a) + f(b))),
    ("sub.rn.f32 %d, %a, %b;", |a, b, _| canonical(f(a) - f(b))),
    ("mul.f32 %d, %a, %b;", |a, b, _| canonical(f(a) * f(b))),
    ("fma.rn.f32 %d, %a, %b, %c;", |a, b, c| canonical(f(a).mul_add(f(b), f(c)))),
    ("div.rn.f32 %d, %a, %b;", |a, b, _| canonical(f(a) / f(b))),
    ("rcp.rn.f32 %d, %a;", |a, _, _| canonical(1.0 / f(a))),
    ("sqrt.rn.f32 %d, %a;", |a, _, _| canonical(f(a).sqrt())),
    ("neg.f32 %d, %a;", |a, _, _| canonical(f(a ^ 0x8000_0000))),
    ("abs.f32 %d, %a;", |a, _, _| canonical(f(a & 0x7fff_ffff))),
    ("min.f32 %d, %a, %b;", |a, b, _| extreme(a, b, false)),
    ("max.f32 %d, %a, %b;", |a, b, _| extreme(a, b, true)),
    ("setp.lt.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", |a, b, _| u32::from(f(a) < f(b))),
    ("setp.gtu.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", |a, b, _| {
        u32::from(f(a) > f(b) || f(a).is_nan() || f(b).is_nan())
    }),
    ("setp.ne.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", |a, b, _| {
        u32::from(!f(a).is_nan() && !f(b).is_nan() && f(a) != f(b))
    }),
    ("setp.neu.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", |a, b, _| u32::from(f(a) != f(b))),
    ("setp.num.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", |a, b, _| {
        u32::from(!f(a).is_nan() && !f(b).is_nan())
    }),
    ("cvt.rzi.s32.f32 %d, %a;", |a, _, _| f(a) as i32 as u32),
    ("cvt.rni.u32.f32 %d, %a;", |a, _, _| f(a).round_ties_even() as u32),
    ("cvt.rmi.f32.f32 %d, %a;", |a, _, _| canonical(f(a).floor())),
    ("cvt.sat.f32.f32 %d, %a;", |a, _, _| if f(a) > 0.0 { f(a).min(1.0).to_bits() } else { 0 }),
    ("cvt.rn.f32.s32 %d, %a;", |a, _, _| (a as i32 as f32).to_bits()),
    ("add.ftz.f32 %d, %a, %b;", |a, b, _| flush(canonical(f(flush(a)) + f(flush(b))))),
];

fn flush(bits: u32) -> u32 {
    if f(bits).is_subnormal() { bits & 0x8000_0000 } else { bits }
}

fn extreme(a: u32, b: u32, largest: bool) -> u32 {
    let (x, y) = (f(a), f(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => 0x7fff_ffff,
        (true, false) => b,
        (false, true) => a,
        (false, false) if x == y => {
            if largest {
                a & b
            } else {
                a | b
            }
        }
        (false, false) => {
            if (x > y) == largest {
                a
            } else {
                b
            }
        }
    }
}

/// Up to 70 rows of three operands: more than two warps, the last one ragged.
fn rows_of<T: Clone + std::fmt::Debug>(
    one: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<[T; 3]>> {
    prop::collection::vec([one.clone(), one.clone(), one], 1..70)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn integer_opcodes(rows in rows_of(edge_or_any())) {
        for (body, reference) in INTEGERS {
            let want: Vec<u32> = rows.iter().map(|[a, b, c]| reference(*a, *b, *c)).collect();
            prop_assert_eq!(run32(body, &rows), want, "{}", body);
        }
    }

    #[test]
    fn float_opcodes(rows in rows_of(float_bits())) {
        for (body, reference) in FLOATS {
            let want: Vec<u32> = rows.iter().map(|[a, b, c]| reference(*a, *b, *c)).collect();
            prop_assert_eq!(run32(body, &rows), want, "{}", body);
        }
    }

    #[test]
    fn directed_rounding_brackets_the_exact_value(
        rows in rows_of(0x3d80_0000..0x4200_0000_u32),
        signs in any::<[bool; 3]>(),
    ) {
        let sign = |r: &[u32; 3]| std::array::from_fn(|i| r[i] | u32::from(signs[i]) << 31);
        let rows: Vec<[u32; 3]> = rows.iter().map(sign).collect();
        // Every operand is a multiple of 2^-32, every product one of 2^-64.
        let fixed = |bits: u32| (f64::from(f(bits)) * 2_f64.powi(32)) as i128;
        for (mode, up) in [("rm", false), ("rp", true)] {
            let fma = run32(&format!("fma.{mode}.f32 %d, %a, %b, %c;"), &rows);
            let add = run32(&format!("add.{mode}.f32 %d, %a, %c;"), &rows);
            for (i, [a, b, c]) in rows.iter().enumerate() {
                let exact = fixed(*a) * fixed(*b) + (fixed(*c) << 32);
                let sum = (fixed(*a) + fixed(*c)) << 32;
                if exact != 0 && sum != 0 && exact.abs() > 1 << 50 && sum.abs() > 1 << 50 {
                    prop_assert_eq!(f(fma[i]), directed(exact << 32, -96, up), "fma {}", mode);
                    prop_assert_eq!(f(add[i]), directed(sum << 32, -96, up), "add {}", mode);
                }
            }
        }
    }

    #[test]
    fn wide_integer_opcodes(rows in rows_of(any::<u64>()), shift in 0..70_u64) {
        let small = |[a, b, c]: &[u64; 3]| [*a, if b & 1 == 0 { shift } else { *b }, *c];
        let rows: Vec<[u64; 3]> = rows.iter().map(small).collect();
        type Case64 = (&'static str, fn(u64, u64, u64) -> u64);
        let cases: [Case64; 9] = [
            ("add.s64 %d, %a, %b;", |a, b, _| a.wrapping_add(b)),
            ("mad.lo.s64 %d, %a, %b, %c;", |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            ("mul.hi.s64 %d, %a, %b;", |a, b, _| {
                ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
            }),
            ("shl.b64 %d, %a, %e;", |a, b, _| if b as u32 > 63 { 0 } else { a << (b as u32) }),
            ("shr.s64 %d, %a, %e;", |a, b, _| ((a as i64) >> (b as u32).min(63)) as u64),
            ("rem.u64 %d, %a, %b;", |a, b, _| if b == 0 { a } else { a % b }),
            ("add.cc.s64 %c, %a, %b; addc.s64 %d, 0, 0;", |a, b, _| {
                u64::from(a.checked_add(b).is_none())
            }),
            ("add.f64 %d, %a, %b;", |a, b, _| {
                canonical64(f64::from_bits(a) + f64::from_bits(b))
            }),
            ("fma.rn.f64 %d, %a, %b, %c;", |a, b, c| {
                canonical64(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)))
            }),
        ];
        for (body, reference) in cases {
            let want: Vec<u64> = rows.iter().map(|[a, b, c]| reference(*a, *b, *c)).collect();
            prop_assert_eq!(run64(body, &rows), want, "{}", body);
        }
    }

    #[test]
    fn double_directed_results_bracket_the_nearest_one(rows in rows_of(any::<u64>())) {
        const OPS: [&str; 4] = [
            "add.{}.f64 %d, %a, %b;",
            "mul.{}.f64 %d, %a, %b;",
            "fma.{}.f64 %d, %a, %b, %c;",
            "div.{}.f64 %d, %a, %b;",
        ];
        for op in OPS {
            let run = |mode: &str| run64(&op.replace("{}", mode), &rows);
            let (down, near, up, zero) = (run("rm"), run("rn"), run("rp"), run("rz"));
            for i in 0..rows.len() {
                let [d, n, u, z] = [down[i], near[i], up[i], zero[i]].map(f64::from_bits);
                if !n.is_nan() {
                    prop_assert!(d <= n && n <= u, "{} {:?}", op, rows[i]);
                    prop_assert!(d == u || d.next_up() == u, "{} {:?}", op, rows[i]);
                    prop_assert_eq!(z, if n > 0.0 { d } else if n < 0.0 { u } else { n });
                }
            }
        }
    }
}

fn canonical64(x: f64) -> u64 {
    if x.is_nan() { 0x7fff_ffff_ffff_ffff } else { x.to_bits() }
}

#[test]
fn half_conversions_are_exhaustively_right() {
    let all: Vec<[u32; 3]> = (0..=0xffff_u32).map(|h| [h, 0, 0]).collect();
    for chunk in all.chunks(1024) {
        let got = run32("cvt.u16.u32 %h1, %a; cvt.f32.f16 %d, %h1;", chunk);
        let back = run32(
            "cvt.u16.u32 %h1, %a; cvt.f32.f16 %t2, %h1; cvt.rn.f16.f32 %h2, %t2;\n\
             cvt.u32.u16 %d, %h2;",
            chunk,
        );
        let brain =
            run32("shl.b32 %t2, %a, 16; cvt.rn.bf16.f32 %h2, %t2; cvt.u32.u16 %d, %h2;", chunk);
        for (i, [h, ..]) in chunk.iter().enumerate() {
            let (sign, exponent, mantissa) = (h >> 15, h >> 10 & 31, f64::from(h & 0x3ff));
            let magnitude = match exponent {
                0 => mantissa * 2_f64.powi(-24),
                31 => {
                    if h & 0x3ff == 0 {
                        f64::INFINITY
                    } else {
                        f64::NAN
                    }
                }
                e => (1024.0 + mantissa) * 2_f64.powi(e as i32 - 25),
            };
            let want = if sign == 1 { -magnitude } else { magnitude } as f32;
            assert_eq!(got[i], canonical(want), "{h:#x}");
            assert_eq!(back[i], if want.is_nan() { 0x7fff } else { *h });
            assert_eq!(brain[i], if f(h << 16).is_nan() { 0x7fff } else { *h });
        }
    }
}

#[test]
fn packed_half_arithmetic() {
    let rows = [[0x3c00_4000, 0x4200_3c00, 0x3c00_3c00]];
    assert_eq!(run32("fma.rn.f16x2 %d, %a, %b, %c;", &rows), [0x4400_4200]);
    assert_eq!(run32("add.f16x2 %d, %a, %b;", &rows), [0x4400_4200]);
    assert_eq!(
        run32("cvt.rn.f16x2.f32 %d, %a, %b;", &[[0x4000_0000, 0x3f80_0000, 0]]),
        [0x4000_3c00]
    );
}

#[test]
fn approximate_functions_are_within_their_bounds() {
    let rows: Vec<[u32; 3]> =
        (0..900).map(|i| [(0.01 + i as f32 * 0.013_f32).to_bits(), 0, 0]).collect();
    type Approximation = (&'static str, fn(f64) -> f64);
    let cases: [Approximation; 7] = [
        ("ex2.approx.ftz.f32 %d, %a;", f64::exp2),
        ("lg2.approx.f32 %d, %a;", f64::log2),
        ("rcp.approx.f32 %d, %a;", |x| 1.0 / x),
        ("rsqrt.approx.f32 %d, %a;", |x| 1.0 / x.sqrt()),
        ("sin.approx.f32 %d, %a;", f64::sin),
        ("tanh.approx.f32 %d, %a;", f64::tanh),
        ("sqrt.approx.f32 %d, %a;", f64::sqrt),
    ];
    for (body, reference) in cases {
        for ([a, ..], got) in rows.iter().zip(run32(body, &rows)) {
            assert_eq!(f(got), reference(f64::from(f(*a))) as f32, "{body} {}", f(*a));
        }
    }
}
