//! Locks, grid barriers, calls, module variables: what needs scheduling and memory spaces.

use crate::fixtures::{Bench, to_bytes, variants};

#[test]
fn spin_locks_between_lanes_and_blocks_make_progress() {
    for ptx in variants("concurrency") {
        let mut bench = Bench::new(ptx, "spin_lane", [2, 1, 1], [64, 1, 1]);
        let data = bench.buffer("data", &[0_i32]);
        bench.complete();
        assert_eq!(bench.read::<i32>(data, 1), [128]);
        let mut bench = Bench::new(ptx, "spin_block", [40, 1, 1], [64, 1, 1]);
        let data = bench.buffer("data", &[0_i32]);
        bench.complete();
        assert_eq!(bench.read::<i32>(data, 1), [40]);
    }
}

#[test]
fn a_grid_barrier_completes_when_all_blocks_are_resident() {
    for ptx in variants("concurrency") {
        let mut bench = Bench::new(ptx, "grid_barrier", [20, 1, 1], [32, 1, 1]);
        bench.buffer("arrived", &[0_u32]);
        let out = bench.buffer("out", &[-1_i32; 40]);
        bench.complete();
        let got = bench.read::<i32>(out, 40);
        let want: Vec<i32> = (0..20).chain((0..20).map(|b| (b + 1) % 20)).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn look_back_adds_up() {
    for ptx in variants("concurrency") {
        let mut bench = Bench::new(ptx, "look_back", [30, 1, 1], [32, 1, 1]);
        bench.buffer("flag", &[0_i32; 30]);
        let value = bench.buffer("value", &[1_i32; 30]);
        bench.complete();
        assert_eq!(bench.read::<i32>(value, 30), (1..=30).collect::<Vec<_>>());
    }
}

#[test]
fn histogram_with_shared_and_global_atomics() {
    for ptx in variants("concurrency") {
        let x: Vec<i32> = (0..1000).map(|i| i * i).collect();
        let mut bench = Bench::new(ptx, "histogram", [2, 1, 1], [128, 1, 1]);
        bench.input("x", &x);
        let bins = bench.buffer("bins", &[0_i32; 16]);
        bench.scalar(1000_i32);
        let report = bench.complete();
        let mut want = [0; 16];
        x.iter().for_each(|x| want[(x & 15) as usize] += 1);
        assert_eq!(bench.read::<i32>(bins, 16), want);
        assert_eq!(report.counters.atomics, 1032);
    }
}

#[test]
fn module_variables_keep_their_value_until_loaded_again() {
    for ptx in variants("concurrency") {
        let mut bench = Bench::new(ptx, "module_variables", [1, 1, 1], [32, 1, 1]);
        let out = bench.buffer("out", &[0_i32; 32]);
        bench.complete();
        assert_eq!(bench.read::<i32>(out, 4), [6, 7, 8, 10]);
        bench.complete();
        assert_eq!(bench.read::<i32>(out, 4), [10, 11, 12, 14]);
        let program = bench.program.clone();
        bench.machine.load(&program).unwrap();
        bench.complete();
        assert_eq!(bench.read::<i32>(out, 4), [6, 7, 8, 10]);
        assert_eq!(bench.machine.variable("counter").unwrap().1, 4);
    }
}

#[test]
fn calls_recursion_and_struct_parameters() {
    for ptx in variants("concurrency") {
        let mut bench = Bench::new(ptx, "calls", [1, 1, 1], [40, 1, 1]);
        let q = bench.buffer("q", &[0_i32; 40]);
        let o = bench.buffer("o", &[0_f32; 40]);
        bench.complete();
        let fib = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34];
        assert_eq!(bench.read::<i32>(q, 40), (0..40).map(|t| fib[t % 10]).collect::<Vec<_>>());
        let want: Vec<f32> = (0..40).map(|t| 7.0 + (t - 3) as f32).collect();
        assert_eq!(bench.read::<f32>(o, 40), want);
    }
}

#[test]
fn local_arrays_are_private_to_a_thread() {
    for ptx in variants("concurrency") {
        let p: Vec<i32> = (0..32).map(|i| (i * 13 + 5) % 47).collect();
        let mut bench = Bench::new(ptx, "local_array", [1, 1, 1], [32, 1, 1]);
        bench.input("p", &p);
        let out = bench.buffer("o", &[0_i32; 32]);
        let report = bench.complete();
        let want: Vec<i32> = (0..32_usize)
            .map(|t| {
                let mut a: Vec<i32> = (0..32).map(|i| i * 3).collect();
                for i in 0..8 {
                    let j = (p[(t + i) & 31] & 31) as usize;
                    a[j] += a[(j * 7) & 31];
                }
                a[(p[t] & 31) as usize]
            })
            .collect();
        assert_eq!(bench.read::<i32>(out, 32), want);
        assert!(report.counters.local_bytes > 0);
    }
}

#[test]
fn generic_pointers_and_struct_arguments() {
    for ptx in variants("concurrency") {
        for which in [0, 1] {
            let mut bench = Bench::new(ptx, "by_struct", [1, 1, 1], [64, 1, 1]);
            let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
            let (x_at, y_at) = {
                let mut side = |data: &[f32]| {
                    let at = bench.machine.allocate("b", 256, ptx_sim::Access::ReadWrite).unwrap();
                    bench.machine.write(at, &to_bytes(data)).unwrap();
                    at
                };
                (side(&x), side(&[0.0; 64]))
            };
            let mut bytes = to_bytes(&[x_at, y_at]);
            bytes.extend(to_bytes(&[64_i32]));
            bytes.extend(to_bytes(&[2_f32]));
            bytes.extend(to_bytes(&[10_i32, 20, 30, 40]));
            bench.raw(bytes);
            bench.scalar(which);
            bench.complete();
            let cell = |t: usize| 2.0 * t as f32 + (10 * (t % 4 + 1)) as f32;
            let want: Vec<f32> =
                (0..64).map(|t| cell(if which == 1 { t ^ 1 } else { t })).collect();
            assert_eq!(bench.read::<f32>(y_at, 64), want);
        }
    }
}

#[test]
fn warp_collectives() {
    for ptx in variants("concurrency") {
        let x: Vec<i32> = (0..32).map(|i| (i * 7) % 11).collect();
        let mut bench = Bench::new(ptx, "votes", [1, 1, 1], [32, 1, 1]);
        bench.input("x", &x);
        let out = bench.buffer("o", &[0_u32; 32]);
        bench.complete();
        let set =
            |f: &dyn Fn(i32) -> bool| (0..32).filter(|i| f(x[*i])).fold(0_u32, |s, i| s | 1 << i);
        let odd = set(&|v| v & 1 == 1);
        let first_odd = x[odd.trailing_zeros() as usize] as u32;
        let sum = x.iter().sum::<i32>() as u32;
        let count = x.iter().filter(|v| **v > 5).count() as u32;
        let want: Vec<u32> = (0..32)
            .map(|t| {
                let v = x[t];
                let mut r = set(&|v| v > 3) ^ set(&|w| w == v) ^ sum;
                if v & 1 == 1 {
                    r = r.wrapping_add(first_odd);
                }
                let up = if t % 16 == 0 { v } else { x[t - 1] };
                r.wrapping_add(count).wrapping_add(up as u32)
            })
            .collect();
        assert_eq!(bench.read::<u32>(out, 32), want);
    }
}
