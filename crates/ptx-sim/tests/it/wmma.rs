//! `wmma` tiles as NVRTC compiles them, against products by definition.

use crate::fixtures::{Bench, Plain, variants};

/// A kernel of the fixture: its tile, and whether A and B lie by rows.
struct Tile {
    kernel: &'static str,
    shape: [usize; 3],
    by_rows: [bool; 2],
}

/// Small whole numbers: every format and every sum of theirs holds them exactly.
fn whole(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 31 + seed * 7 + i / 5) % 9) as f32 - 4.0).collect()
}

/// A matrix by rows as it lies in memory, with two more elements (of no meaning) in each row or
/// column; and the stride that this makes.
fn laid_out(values: &[f32], columns: usize, by_rows: bool) -> (Vec<f32>, usize) {
    let rows = values.len() / columns;
    let (length, count) = if by_rows { (columns, rows) } else { (rows, columns) };
    let stride = length + 8;
    let mut memory = vec![77.0; stride * count];
    for (i, value) in values.iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let at = if by_rows { row * stride + column } else { column * stride + row };
        memory[at] = *value;
    }
    (memory, stride)
}

/// Twice the product, as the kernel has it.
fn check<S: Plain, C: Plain>(tile: &Tile, to: fn(f32) -> S, from: fn(C) -> f32, zero: C) {
    let ([m, n, tile_k], k) = (tile.shape, 2 * tile.shape[2]);
    let (a, b) = (whole(m * k, 1), whole(k * n, 2));
    let cell = |i: usize| (0..k).map(|p| a[i / n * k + p] * b[p * n + i % n]).sum::<f32>();
    let want: Vec<f32> = (0..m * n).map(|i| 2.0 * cell(i)).collect();
    let ((am, a_stride), (bm, b_stride)) =
        (laid_out(&a, k, tile.by_rows[0]), laid_out(&b, n, tile.by_rows[1]));
    let cast = |values: &[f32]| -> Vec<S> { values.iter().map(|x| to(*x)).collect() };
    for ptx in variants("wmma") {
        let mut bench = Bench::new(ptx, tile.kernel, [1, 1, 1], [32, 1, 1]);
        bench.input("A", &cast(&am));
        bench.input("B", &cast(&bm));
        let out = bench.buffer("C", &vec![zero; m * n]);
        [k, a_stride, b_stride].iter().for_each(|v| bench.scalar(*v as i32));
        let report = bench.complete();
        let got: Vec<f32> = bench.read::<C>(out, m * n).into_iter().map(from).collect();
        assert_eq!(got, want, "{}", tile.kernel);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let flops = (2 * m * n * k) as u64;
        assert_eq!(report.counters.tensor_flops, flops, "{tile_k}");
    }
}

fn half(x: f32) -> u16 {
    half::f16::from_f32(x).to_bits()
}

#[test]
fn tiles_of_every_format_are_products() {
    let tile = |kernel, shape, by_rows| Tile { kernel, shape, by_rows };
    let same = |x: f32| x;
    check(&tile("wmma_f16", [16, 16, 16], [true, false]), half, same, 0.0_f32);
    let from_half = |x: u16| half::f16::from_bits(x).to_f32();
    check(&tile("wmma_f16_f16", [32, 8, 16], [false, true]), half, from_half, 0_u16);
    let brain = |x: f32| (x.to_bits() >> 16) as u16;
    check(&tile("wmma_bf16", [8, 32, 16], [true, true]), brain, same, 0.0_f32);
    let byte = |x: f32| x as i8 as u8;
    check(&tile("wmma_s8", [16, 16, 16], [true, false]), byte, |x: i32| x as f32, 0_i32);
    check(&tile("wmma_tf32", [16, 16, 8], [true, true]), same, same, 0.0_f32);
    check(&tile("wmma_f64", [8, 8, 4], [true, false]), f64::from, |x: f64| x as f32, 0.0_f64);
}
