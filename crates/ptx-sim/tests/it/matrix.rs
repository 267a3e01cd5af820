//! Tensor-core instructions against products by definition, with the places of elements as the
//! PTX manual lists them for each shape.

use crate::fixtures::Bench;

/// Row and column of element `i` of the lane with this group (lane / 4) and place in it (lane % 4).
type Places = fn(usize, usize, usize) -> (usize, usize);

/// One form of `mma`: shape, formats of D, A, B, C, places of A and of B.
struct Form {
    shape: [usize; 3],
    formats: [&'static str; 4],
    a: Places,
    b: Places,
}

const PAIRS_16: Places =
    |i, g, t| (if i % 4 < 2 { g } else { g + 8 }, t * 2 + (i & 1) + if i < 4 { 0 } else { 8 });
const PAIRS_8: Places = |i, g, t| (if i < 2 { g } else { g + 8 }, t * 2 + (i & 1));
const PAIRS_OF_B: Places = |i, g, t| (t * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, g);
const SINGLES: Places =
    |i, g, t| (if i % 2 == 0 { g } else { g + 8 }, t + if i < 2 { 0 } else { 4 });
const SINGLES_OF_B: Places = |i, g, t| (t + 4 * i, g);
const BYTES_32: Places = |i, g, t| {
    (if i / 4 % 2 == 0 { g } else { g + 8 }, t * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
};
const BYTES_OF_B: Places = |i, g, t| (t * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, g);
const SMALL: Places = |i, g, t| (g, t * 4 + i);
const DOUBLES_16: Places = |i, g, t| (if i % 2 == 0 { g } else { g + 8 }, i / 2 * 4 + t);

const FORMS: [Form; 20] = [
    Form { shape: [16, 8, 16], formats: ["f32", "f16", "f16", "f32"], a: PAIRS_16, b: PAIRS_OF_B },
    Form { shape: [16, 8, 16], formats: ["f16", "f16", "f16", "f16"], a: PAIRS_16, b: PAIRS_OF_B },
    Form {
        shape: [16, 8, 16],
        formats: ["f32", "bf16", "bf16", "f32"],
        a: PAIRS_16,
        b: PAIRS_OF_B,
    },
    Form { shape: [16, 8, 8], formats: ["f32", "f16", "f16", "f32"], a: PAIRS_8, b: PAIRS_OF_B },
    Form { shape: [16, 8, 8], formats: ["f16", "f16", "f16", "f16"], a: PAIRS_8, b: PAIRS_OF_B },
    Form { shape: [16, 8, 8], formats: ["f32", "bf16", "bf16", "f32"], a: PAIRS_8, b: PAIRS_OF_B },
    Form {
        shape: [16, 8, 8],
        formats: ["f32", "tf32", "tf32", "f32"],
        a: SINGLES,
        b: SINGLES_OF_B,
    },
    Form {
        shape: [16, 8, 4],
        formats: ["f32", "tf32", "tf32", "f32"],
        a: SINGLES,
        b: SINGLES_OF_B,
    },
    Form { shape: [16, 8, 32], formats: ["s32", "s8", "s8", "s32"], a: BYTES_32, b: BYTES_OF_B },
    Form { shape: [16, 8, 32], formats: ["s32", "u8", "s8", "s32"], a: BYTES_32, b: BYTES_OF_B },
    Form { shape: [16, 8, 16], formats: ["s32", "s8", "u8", "s32"], a: BYTES_32, b: BYTES_OF_B },
    Form { shape: [8, 8, 16], formats: ["s32", "u8", "u8", "s32"], a: SMALL, b: BYTES_OF_B },
    Form {
        shape: [16, 8, 32],
        formats: ["f32", "e4m3", "e4m3", "f32"],
        a: BYTES_32,
        b: BYTES_OF_B,
    },
    Form {
        shape: [16, 8, 32],
        formats: ["f32", "e5m2", "e4m3", "f32"],
        a: BYTES_32,
        b: BYTES_OF_B,
    },
    Form {
        shape: [16, 8, 32],
        formats: ["f32", "e4m3", "e5m2", "f32"],
        a: BYTES_32,
        b: BYTES_OF_B,
    },
    Form {
        shape: [16, 8, 32],
        formats: ["f16", "e5m2", "e5m2", "f16"],
        a: BYTES_32,
        b: BYTES_OF_B,
    },
    Form {
        shape: [8, 8, 4],
        formats: ["f64", "f64", "f64", "f64"],
        a: |_, g, t| (g, t),
        b: SINGLES_OF_B,
    },
    Form { shape: [16, 8, 4], formats: ["f64", "f64", "f64", "f64"], a: SINGLES, b: SINGLES_OF_B },
    Form { shape: [16, 8, 8], formats: ["f64", "f64", "f64", "f64"], a: SINGLES, b: SINGLES_OF_B },
    Form {
        shape: [16, 8, 16],
        formats: ["f64", "f64", "f64", "f64"],
        a: DOUBLES_16,
        b: SINGLES_OF_B,
    },
];

fn bits_of(format: &str) -> usize {
    match format {
        "f64" => 64,
        "f16" | "bf16" => 16,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        _ => 32,
    }
}

/// A small whole number in a format; `value` is at most 3 in size.
fn encoded(format: &str, value: i64) -> u64 {
    let float = value as f32;
    let half = u64::from(half::f16::from_f32(float).to_bits());
    match format {
        "f64" => (value as f64).to_bits(),
        "f32" | "tf32" => float.to_bits().into(),
        "f16" => half,
        "bf16" => u64::from(float.to_bits() >> 16),
        "e5m2" => half >> 8,
        // Whole numbers up to 3 by sign, exponent (bias 7) and mantissa.
        "e4m3" => [0, 0x38, 0x40, 0x44][value.unsigned_abs() as usize] | u64::from(value < 0) << 7,
        "s32" => u64::from(value as i32 as u32),
        _ => u64::from(value as u8),
    }
}

fn decoded(format: &str, bits: u64) -> f64 {
    match format {
        "f64" => f64::from_bits(bits),
        "f32" => f32::from_bits(bits as u32).into(),
        "f16" => half::f16::from_bits(bits as u16).to_f64(),
        "s32" => f64::from(bits as i32),
        other => panic!("{other} is no format of D"),
    }
}

/// Whole numbers from -3 to 3, or from 0 where there is no sign.
fn numbers(count: usize, seed: usize, format: &str) -> Vec<i64> {
    let signed = |i: usize| ((i * 37 + seed * 11 + i / 7) % 7) as i64 - 3;
    (0..count).map(|i| if format == "u8" { signed(i).abs() } else { signed(i) }).collect()
}

/// Registers of each lane, one lane after the other, in words of 32 bits.
fn packed(
    format: &str,
    elements: usize,
    columns: usize,
    values: &[i64],
    at: impl Fn(usize, usize, usize) -> (usize, usize),
) -> Vec<u32> {
    let bits = bits_of(format);
    let mut words = Vec::new();
    for lane in 0..32 {
        let value = |i: usize| {
            let (row, column) = at(i, lane / 4, lane % 4);
            encoded(format, values[row * columns + column])
        };
        if bits == 64 {
            words.extend((0..elements).map(value).flat_map(|x| [x as u32, (x >> 32) as u32]));
            continue;
        }
        let per = 32 / bits;
        for register in 0..elements / per {
            let part = |i: usize| (value(register * per + i) as u32) << (i * bits);
            words.push((0..per).map(part).fold(0, |word, part| word | part));
        }
    }
    words
}

/// `{%a0, ..}` of so many elements and the loads that fill it from its own buffer.
fn registers(name: &str, format: &str, elements: usize) -> (String, String) {
    let bits = bits_of(format).max(32);
    let count = elements * bits_of(format) / bits;
    let list: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    let stride = count * bits / 8;
    let mut loads = format!(
        ".reg .b{bits} %{name}<{count}>; ld.param.u64 %rd1, [{name}]; \
         mad.wide.u32 %{name}p, %t, {stride}, %rd1;\n"
    );
    for (i, register) in list.iter().enumerate() {
        loads += &format!("ld.global.b{bits} {register}, [%{name}p+{}];\n", i * bits / 8);
    }
    (format!("{{{}}}", list.join(",")), loads)
}

fn product(form: &Form) -> Vec<f64> {
    let [m, n, k] = form.shape;
    let [_, a, b, c] = form.formats;
    let (av, bv, cv) = (numbers(m * k, 1, a), numbers(k * n, 2, b), numbers(m * n, 3, c));
    let cell = |i: usize| (0..k).map(|p| av[i / n * k + p] * bv[p * n + i % n]).sum::<i64>();
    (0..m * n).map(|i| (cell(i) + cv[i]) as f64).collect()
}

/// D as the simulator has it, by rows.
fn simulated(form: &Form) -> Vec<f64> {
    let [m, n, k] = form.shape;
    let [d, a, b, c] = form.formats;
    let totals: Places = |i, g, t| (if i < 2 { g } else { g + 8 }, t * 2 + (i & 1));
    let [of_a, of_b, of_c] = [m * k / 32, k * n / 32, m * n / 32];
    let [(al, aload), (bl, bload), (cl, cload), (dl, _)] = [
        registers("a", a, of_a),
        registers("b", b, of_b),
        registers("c", c, of_c),
        registers("d", d, of_c),
    ];
    let bits = bits_of(d).max(32);
    let count = of_c * bits_of(d) / bits;
    let stores: String =
        (0..count).map(|i| format!("st.global.b{bits} [%dp+{}], %d{i};\n", i * bits / 8)).collect();
    let ptx = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, \
         .param .u64 b, .param .u64 c, .param .u64 d) {{\n.reg .b32 %t; \
         .reg .b64 %rd<9>, %ap, %bp, %cp, %dp; .reg .b{bits} %d<{count}>;\nmov.u32 %t, %tid.x;\n\
         {aload}{bload}{cload}\
         mma.sync.aligned.m{m}n{n}k{k}.row.col.{d}.{a}.{b}.{c} {dl}, {al}, {bl}, {cl};\n\
         ld.param.u64 %rd1, [d]; mad.wide.u32 %dp, %t, {}, %rd1;\n{stores}ret; }}",
        count * bits / 8
    );
    let mut bench = Bench::new(&ptx, "k", [1, 1, 1], [32, 1, 1]);
    bench.input("a", &packed(a, of_a, k, &numbers(m * k, 1, a), form.a));
    bench.input("b", &packed(b, of_b, n, &numbers(k * n, 2, b), form.b));
    bench.input("c", &packed(c, of_c, n, &numbers(m * n, 3, c), totals));
    let words = 32 * count * bits / 32;
    let out = bench.buffer("d", &vec![0_u32; words]);
    let report = bench.complete();
    assert_eq!(report.counters.tensor_flops, 2 * (m * n * k) as u64);
    let words: Vec<u32> = bench.read(out, words);
    let mut matrix = vec![f64::NAN; m * n];
    let each = words.len() / 32;
    for (lane, own) in words.chunks(each).enumerate() {
        for i in 0..of_c {
            let (row, column) = totals(i, lane / 4, lane % 4);
            let element = match bits_of(d) {
                64 => u64::from(own[i * 2]) | u64::from(own[i * 2 + 1]) << 32,
                32 => own[i].into(),
                _ => u64::from(own[i / 2] >> (i % 2 * 16) & 0xffff),
            };
            matrix[row * n + column] = decoded(d, element);
        }
    }
    matrix
}

#[test]
fn products_of_every_form_are_those_of_the_definition() {
    for form in &FORMS {
        let name = format!("{:?} {:?}", form.shape, form.formats);
        assert_eq!(simulated(form), product(form), "{name}");
    }
}

/// Runs a body on one word of each lane, `%a`, with the result `%d`, and 512 bytes shared.
fn on_words(body: &str, words: &[u32]) -> Vec<u32> {
    let ptx = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, \
         .param .u64 out) {{\n.shared .align 16 .b8 sh[512]; .reg .b32 %a, %d, %t<9>; \
         .reg .b64 %rd<9>;\nld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; \
         mov.u32 %t1, %tid.x; mad.wide.u32 %rd3, %t1, 4, %rd1; mad.wide.u32 %rd4, %t1, 4, %rd2;\n\
         ld.global.u32 %a, [%rd3]; mov.u32 %t2, sh; mad.lo.u32 %t3, %t1, 4, %t2; \
         mad.lo.u32 %t4, %t1, 16, %t2;\n{body}\nst.global.u32 [%rd4], %d; ret; }}"
    );
    let mut bench = Bench::new(&ptx, "k", [1, 1, 1], [32, 1, 1]);
    bench.input("in", words);
    let out = bench.buffer("out", &[0_u32; 32]);
    bench.complete();
    bench.read(out, 32)
}

/// Words of an 8×8 matrix whose element at (r, c) is 16·r + c, or of its transpose.
fn eight_by_eight(transposed: bool) -> Vec<u32> {
    let element = |row: u32, column: u32| {
        if transposed { 16 * column + row } else { 16 * row + column }
    };
    let pair = |lane: u32| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        element(row, column) | element(row, column + 1) << 16
    };
    (0..32).map(pair).collect()
}

#[test]
fn matrices_are_transposed_loaded_and_stored_by_rows() {
    let [plain, turned] = [false, true].map(eight_by_eight);
    let fill = "st.shared.b32 [%t3], %a; bar.sync 0;";
    let read = "bar.sync 0; ld.shared.b32 %d, [%t3];";
    let m8n8 = "sync.aligned.m8n8";
    for (body, want) in [
        (format!("movmatrix.{m8n8}.trans.b16 %d, %a;"), &turned),
        (format!("{fill} ldmatrix.{m8n8}.x1.shared.b16 {{%d}}, [%t4];"), &plain),
        (format!("{fill} ldmatrix.{m8n8}.x1.trans.shared.b16 {{%d}}, [%t4];"), &turned),
        (format!("stmatrix.{m8n8}.x1.shared.b16 [%t4], {{%a}}; {read}"), &plain),
        (format!("stmatrix.{m8n8}.x1.trans.shared.b16 [%t4], {{%a}}; {read}"), &turned),
    ] {
        assert_eq!(on_words(&body, &plain), *want, "{body}");
    }
}

#[test]
fn each_of_four_matrices_has_the_rows_of_its_eight_lanes() {
    // Lane i names row i of four matrices that lie one after the other.
    let body = "st.shared.b32 [%t3], %a; st.shared.b32 [%t3+128], 7; st.shared.b32 [%t3+256], 8; \
                st.shared.b32 [%t3+384], 9; bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16 \
                {%d, %t5, %t6, %t7}, [%t4]; add.u32 %d, %d, %t5; mad.lo.u32 %d, %t6, 0x100, %d; \
                mad.lo.u32 %d, %t7, 0x1000, %d;";
    let plain = eight_by_eight(false);
    let want: Vec<u32> = plain.iter().map(|word| word + 7 + 0x800 + 0x9000).collect();
    assert_eq!(on_words(body, &plain), want);
}
