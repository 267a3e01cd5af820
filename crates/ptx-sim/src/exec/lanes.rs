//! Chooses between the lane loops built for the baseline and those for AVX2 with FMA.
//!
//! Both give the same bits. The only `unsafe` is the call of a function whose features were found.
#![allow(unsafe_code, reason = "calls of functions with target features that were detected")]

use super::alu;
use super::frame::Frame;
use crate::program::ir::{Alu, SetCompare};

/// Which build of the lane loops to use. Made only by [`LaneLoops::detect`].
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneLoops(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl LaneLoops {
    /// The fastest build that this processor runs.
    pub(super) fn detect() -> LaneLoops {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return LaneLoops(Kind::Avx2);
        }
        LaneLoops(Kind::Baseline)
    }

    /// Executes one lane operation.
    #[inline(always)]
    pub(super) fn alu(self, frame: &mut Frame, op: &Alu, mask: u32) {
        match self.0 {
            Kind::Baseline => alu_baseline(frame, op, mask),
            // SAFETY: `Kind::Avx2` exists only if `detect` found the features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { alu_avx2(frame, op, mask) },
        }
    }

    /// Executes one comparison.
    #[inline(always)]
    pub(super) fn compare(self, frame: &mut Frame, op: &SetCompare, mask: u32) {
        match self.0 {
            Kind::Baseline => compare_baseline(frame, op, mask),
            // SAFETY: `Kind::Avx2` exists only if `detect` found the features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { compare_avx2(frame, op, mask) },
        }
    }
}

fn alu_baseline(frame: &mut Frame, op: &Alu, mask: u32) {
    alu::execute::<false>(frame, op, mask);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn alu_avx2(frame: &mut Frame, op: &Alu, mask: u32) {
    alu::execute::<true>(frame, op, mask);
}

fn compare_baseline(frame: &mut Frame, op: &SetCompare, mask: u32) {
    super::compare::execute(frame, op, mask);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn compare_avx2(frame: &mut Frame, op: &SetCompare, mask: u32) {
    super::compare::execute(frame, op, mask);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::frame::{FULL, LANES};
    use crate::program::ir::{AluOp, flag};

    const OPS: [AluOp; 14] = [
        AluOp::AddF,
        AluOp::SubF,
        AluOp::MulF,
        AluOp::FmaF,
        AluOp::DivF,
        AluOp::MinF,
        AluOp::MaxF,
        AluOp::Ex2F,
        AluOp::Lg2F,
        AluOp::RsqrtF,
        AluOp::FmaFR,
        AluOp::MulHiSW,
        AluOp::Lop3,
        AluOp::FmaD,
    ];

    /// Random bits, with the exponents of half the words pulled together so that sums cancel.
    fn words(state: &mut u64) -> [u32; LANES] {
        std::array::from_fn(|lane| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let bits = (*state >> 32) as u32;
            if lane % 2 == 0 { bits & 0x81ff_ffff | 0x3e00_0000 } else { bits }
        })
    }

    #[test]
    fn both_builds_give_the_same_bits() {
        let mut state = 1;
        for round in 0..2000_u32 {
            let op = OPS[round as usize % OPS.len()];
            let flags = [0, flag::FTZ, flag::SAT, 4, 8][(round as usize / OPS.len()) % 5];
            let mask = if round % 3 == 0 { FULL } else { words(&mut state)[1] };
            let alu = Alu { op, flags, d: 3, a: 0, b: 1, c: 2, e: 0xca };
            let start: Vec<_> = (0..4).map(|_| words(&mut state)).collect();
            let long = |w: &[u32; LANES]| w.map(|v| u64::from(v) << 32 | u64::from(v >> 3));
            let run = |loops: LaneLoops| {
                let mut frame = Frame {
                    words: start.clone(),
                    longs: start.iter().map(long).collect(),
                    ..Frame::default()
                };
                loops.alu(&mut frame, &alu, mask);
                (frame.words, frame.longs)
            };
            assert_eq!(run(LaneLoops(Kind::Baseline)), run(LaneLoops::detect()), "{op:?} {flags}");
        }
    }
}
