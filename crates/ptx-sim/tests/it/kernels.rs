//! Whole kernels against CPU references, for every architecture's PTX.

use crate::fixtures::{Bench, values, variants};
use ptx_sim::BlockSelection;

#[test]
fn saxpy_is_bit_exact_with_a_ragged_tail() {
    for ptx in variants("basic") {
        let (x, y) = (values(1000, 1), values(1000, 2));
        let mut bench = Bench::new(ptx, "saxpy", [4, 1, 1], [256, 1, 1]);
        bench.input("x", &x);
        let out = bench.buffer("y", &y);
        bench.scalar(1.7_f32);
        bench.scalar(1000_i32);
        let report = bench.complete();
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.7_f32.mul_add(*x, *y)).collect();
        assert_eq!(bench.read::<f32>(out, 1000), want);
        assert_eq!(report.counters.fp32_flops, 2000);
        assert_eq!(report.counters.global_store_bytes, 4000);
        assert_eq!(report.counters.global_store_sectors, 125);
        assert_eq!(report.counters.global_load_sectors, 250);
        assert_eq!(report.counters.divergent_branches, 1);
        assert_eq!(report.counters.blocks, 4);
    }
}

#[test]
fn vector_copies_count_their_sectors() {
    for ptx in variants("basic") {
        let x = values(1024, 3);
        let mut bench = Bench::new(ptx, "copy4", [1, 1, 1], [256, 1, 1]);
        bench.input("x", &x);
        let out = bench.buffer("y", &vec![0_f32; 1024]);
        bench.scalar(256_i32);
        let report = bench.complete();
        assert_eq!(bench.read::<f32>(out, 1024), x);
        assert_eq!(report.counters.global_load_requests, 8);
        assert_eq!(report.counters.global_load_sectors, 128);
    }
}

fn matmul(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let cell =
        |i: usize| (0..k).fold(0_f32, |acc, p| a[i / n * k + p].mul_add(b[p * n + i % n], acc));
    (0..m * n).map(cell).collect()
}

#[test]
fn both_matmuls_are_bit_exact_also_in_parallel() {
    for (ptx, kernel) in variants("basic").flat_map(|p| [(p, "matmul_naive"), (p, "matmul_tiled")])
    {
        let [m, n, k] = [37, 50, 41];
        let (a, b) = (values(m * k, 4), values(k * n, 5));
        for threads in [1, 2] {
            let mut bench = Bench::new(ptx, kernel, [4, 3, 1], [16, 16, 1]);
            bench.threads = threads;
            bench.input("A", &a);
            bench.input("B", &b);
            let out = bench.buffer("C", &vec![f32::NAN; m * n]);
            [m, n, k].iter().for_each(|v| bench.scalar(*v as i32));
            let report = bench.complete();
            assert_eq!(bench.read::<f32>(out, m * n), matmul(&a, &b, [m, n, k]), "{kernel}");
            assert!(report.findings.is_empty(), "{:?}", report.findings);
        }
    }
}

#[test]
fn a_sample_of_blocks_writes_only_its_tiles() {
    let ptx = variants("basic").next().unwrap();
    let mut bench = Bench::new(ptx, "saxpy", [4, 1, 1], [256, 1, 1]);
    bench.blocks = BlockSelection::Sample(vec![3, 1]);
    bench.input("x", &vec![1_f32; 1024]);
    let out = bench.buffer("y", &vec![0_f32; 1024]);
    bench.scalar(2_f32);
    bench.scalar(1024_i32);
    assert_eq!(bench.complete().counters.blocks, 2);
    let got = bench.read::<f32>(out, 1024);
    let want: Vec<f32> = (0..1024).map(|i| if (i / 256) % 2 == 1 { 2.0 } else { 0.0 }).collect();
    assert_eq!(got, want);
}

#[test]
fn warp_softmax_matches_a_double_reference() {
    for ptx in variants("basic") {
        let (rows, cols) = (7, 100);
        let x = values(rows * cols, 6);
        let mut bench = Bench::new(ptx, "softmax_warp", [2, 1, 1], [128, 1, 1]);
        bench.input("in", &x);
        let out = bench.buffer("out", &vec![0_f32; rows * cols]);
        bench.scalar(rows as i32);
        bench.scalar(cols as i32);
        bench.complete();
        let got = bench.read::<f32>(out, rows * cols);
        for (row, got) in x.chunks(cols).zip(got.chunks(cols)) {
            let sum: f64 = row.iter().map(|v| f64::from(*v).exp()).sum();
            for (v, got) in row.iter().zip(got) {
                let want = f64::from(*v).exp() / sum;
                assert!((f64::from(*got) - want).abs() <= want * 1e-6, "{got} {want}");
            }
        }
    }
}

#[test]
fn block_reduction_uses_dynamic_shared_memory() {
    for ptx in variants("basic") {
        let x: Vec<f32> = (0..5000).map(|i| (i % 17) as f32).collect();
        let mut bench = Bench::new(ptx, "block_sum", [3, 1, 1], [256, 1, 1]);
        bench.shared_bytes = 32;
        bench.input("x", &x);
        let out = bench.buffer("out", &[0_f32]);
        bench.scalar(5000_i32);
        let report = bench.complete();
        assert_eq!(bench.read::<f32>(out, 1), [x.iter().sum::<f32>()]);
        assert_eq!(report.counters.atomics, 3);
        assert_eq!(report.counters.barriers, 24);
    }
}

#[test]
fn double_reference_kernel_is_accurate_to_an_ulp() {
    for ptx in variants("basic") {
        let (rows, cols) = (40, 9);
        let x = values(rows * cols, 7);
        let mut bench = Bench::new(ptx, "softmax_f64", [2, 1, 1], [32, 1, 1]);
        bench.input("x", &x);
        let out = bench.buffer("out", &vec![0_f64; rows * cols]);
        let norm = bench.buffer("norm", &vec![0_f64; rows]);
        bench.scalar(rows as i32);
        bench.scalar(cols as i32);
        let report = bench.complete();
        assert!(report.counters.fp64_flops > 10_000);
        let (got, norms) = (bench.read::<f64>(out, rows * cols), bench.read::<f64>(norm, rows));
        for (r, row) in x.chunks(cols).enumerate() {
            let most = row.iter().fold(f64::MIN, |m, v| m.max(f64::from(*v)));
            let e: Vec<f64> = row.iter().map(|v| (f64::from(*v) - most).exp()).collect();
            let sum: f64 = e.iter().sum();
            let square: f64 = e.iter().map(|e| e * e).sum();
            assert!((norms[r] - square.sqrt()).abs() < 1e-14);
            for (c, e) in e.iter().enumerate() {
                let got = got[r * cols + c];
                assert!((got - e / sum).abs() <= 4e-16 * (e / sum).max(1e-3), "{got} {}", e / sum);
            }
        }
    }
}

#[test]
fn divergent_loops_reconverge() {
    for ptx in variants("basic") {
        let n: Vec<i32> = (1..=64).collect();
        let mut bench = Bench::new(ptx, "collatz", [1, 1, 1], [64, 1, 1]);
        bench.input("n", &n);
        let out = bench.buffer("steps", &vec![-1_i32; 64]);
        bench.scalar(64_i32);
        let report = bench.complete();
        let steps = |n: &i32| {
            let (mut v, mut s) = (*n as u32, 0);
            while v != 1 {
                v = if v & 1 == 1 { 3 * v + 1 } else { v / 2 };
                s += 1;
            }
            s
        };
        assert_eq!(bench.read::<i32>(out, 64), n.iter().map(steps).collect::<Vec<i32>>());
        // The final store of a warp is one request: its lanes came together again.
        assert_eq!(report.counters.global_store_requests, 2);
    }
}

#[test]
fn library_functions_agree_with_doubles() {
    for ptx in variants("basic") {
        let x = values(256, 9);
        let mut bench = Bench::new(ptx, "gelu", [1, 1, 1], [256, 1, 1]);
        bench.input("x", &x);
        let out = bench.buffer("y", &vec![0_f32; 256]);
        bench.scalar(256_i32);
        bench.complete();
        for (x, got) in x.iter().zip(bench.read::<f32>(out, 256)) {
            let v = f64::from(*x);
            let want = 0.5 * v * (1.0 + erf(v * std::f64::consts::FRAC_1_SQRT_2))
                + v.tanh()
                + (v.abs() + 1.0).ln()
                + v.sin();
            assert!((f64::from(got) - want).abs() < 2e-6, "{x} {got} {want}");
        }
    }
}

/// Error function by its Taylor series.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn a_product_by_tensor_cores_with_copies_under_way() {
    for ptx in variants("matrix") {
        for [m, n, k] in [[32, 32, 16], [37, 72, 56], [5, 8, 8]] {
            let whole = |count: usize, seed: usize| -> Vec<f32> {
                (0..count).map(|i| ((i * 31 + seed * 7 + i / 5) % 17) as f32 - 8.0).collect()
            };
            let halves = |values: &[f32]| -> Vec<u16> {
                values.iter().map(|x| half::f16::from_f32(*x).to_bits()).collect()
            };
            let (a, b) = (whole(m * k, 1), whole(k * n, 2));
            let grid = [n.div_ceil(32) as u32, m.div_ceil(32) as u32, 1];
            let mut bench = Bench::new(ptx, "hgemm", grid, [64, 1, 1]);
            bench.input("A", &halves(&a));
            bench.input("B", &halves(&b));
            let out = bench.buffer("C", &vec![f32::NAN; m * n]);
            [m, n, k].iter().for_each(|v| bench.scalar(*v as i32));
            let report = bench.complete();
            assert_eq!(bench.read::<f32>(out, m * n), matmul(&a, &b, [m, n, k]), "{m} {n} {k}");
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            let tiles = u64::from(grid[0] * grid[1]) * k.div_ceil(16) as u64;
            assert_eq!(report.counters.tensor_flops, tiles * 2 * 32 * 32 * 16);
        }
    }
}
