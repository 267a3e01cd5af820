//! Integer operations that need more than one host instruction.

/// Quotient; a zero divisor gives all ones, as the hardware's sequence does.
#[inline(always)]
pub(crate) fn div_u32(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(u32::MAX)
}

#[inline(always)]
pub(crate) fn div_s32(a: u32, b: u32) -> u32 {
    if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 }
}

/// Remainder; a zero divisor gives the dividend.
#[inline(always)]
pub(crate) fn rem_u32(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(a)
}

#[inline(always)]
pub(crate) fn rem_s32(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 }
}

#[inline(never)]
pub(crate) fn div_u64(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(u64::MAX)
}

#[inline(never)]
pub(crate) fn div_s64(a: u64, b: u64) -> u64 {
    if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 }
}

#[inline(never)]
pub(crate) fn rem_u64(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

#[inline(never)]
pub(crate) fn rem_s64(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 }
}

#[inline(always)]
pub(crate) fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
pub(crate) fn mul_hi_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

#[inline(never)]
pub(crate) fn mul_hi_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[inline(never)]
pub(crate) fn mul_hi_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

/// Position of the most significant bit that is not a sign bit; all ones if there is none.
#[inline(never)]
pub(crate) fn bfind(value: u64, bits: u32, signed: bool, shift_amount: bool) -> u32 {
    let negative = signed && value >> (bits - 1) & 1 == 1;
    let mask = u64::MAX >> (64 - bits);
    let pattern = if negative { !value & mask } else { value & mask };
    if pattern == 0 {
        return u32::MAX;
    }
    let position = 63 - pattern.leading_zeros();
    if shift_amount { bits - 1 - position } else { position }
}

/// Position and length as an H200 takes them: eight bits each for 32-bit fields; for 64-bit fields
/// more is allowed and means beyond the end.
fn field(position: u32, length: u32, bits: u32) -> (u32, u32) {
    match bits {
        64 => (position.min(0xff), length.min(0xff)),
        _ => (position & 0xff, length & 0xff),
    }
}

/// Bit-field extract as the PTX pseudo-code has it.
#[inline(never)]
pub(crate) fn bfe(a: u64, position: u32, length: u32, bits: u32, signed: bool) -> u64 {
    let (position, length) = field(position, length, bits);
    let msb = bits - 1;
    let bit = |index: u32| a >> index.min(msb) & 1;
    let sign = if !signed || length == 0 { 0 } else { bit((position + length - 1).min(msb)) };
    let kept = length.min(bits.saturating_sub(position));
    let field = if kept == 0 { 0 } else { a >> position & (u64::MAX >> (64 - kept)) };
    let fill = if sign == 1 && kept < 64 { u64::MAX << kept } else { 0 };
    (field | fill) & (u64::MAX >> (64 - bits))
}

/// Bit-field insert of `a` into `b`.
#[inline(never)]
pub(crate) fn bfi(a: u64, b: u64, position: u32, length: u32, bits: u32) -> u64 {
    let (position, length) = field(position, length, bits);
    let kept = length.min(bits.saturating_sub(position));
    if kept == 0 {
        return b;
    }
    let mask = (u64::MAX >> (64 - kept)) << position;
    (b & !mask) | (a << position & mask)
}

/// Any function of three bits, by its truth table.
#[inline(always)]
pub(crate) fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut out = 0;
    for row in 0..8 {
        let on = 0_u32.wrapping_sub(table >> row & 1);
        let x = if row & 4 != 0 { a } else { !a };
        let y = if row & 2 != 0 { b } else { !b };
        let z = if row & 1 != 0 { c } else { !c };
        out |= x & y & z & on;
    }
    out
}

/// Byte permutation; mode 0 is the general form, then f4e, b4e, rc8, ecl, ecr, rc16.
#[inline(never)]
pub(crate) fn prmt(a: u32, b: u32, selector: u32, mode: u16) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let pick = |index: u32| (bytes >> (8 * (index & 7)) & 0xff) as u32;
    let general = |nibble: u32| {
        let byte = pick(nibble);
        if nibble & 8 == 0 { byte } else { 0xff * (byte >> 7) }
    };
    let s = selector & 3;
    let lanes: [u32; 4] = match mode {
        0 => std::array::from_fn(|i| general(selector >> (4 * i) & 0xf)),
        1 => std::array::from_fn(|i| pick(s + i as u32)),
        2 => std::array::from_fn(|i| pick((s + 8 - i as u32) & 7)),
        3 => [pick(s); 4],
        4 => std::array::from_fn(|i| pick(s.max(i as u32))),
        5 => std::array::from_fn(|i| pick(s.min(i as u32))),
        _ => {
            let half = (selector & 1) * 2;
            [pick(half), pick(half + 1), pick(half), pick(half + 1)]
        }
    };
    lanes[0] | lanes[1] << 8 | lanes[2] << 16 | lanes[3] << 24
}

/// Funnel shift left: the high word of `b:a << c`.
#[inline(always)]
pub(crate) fn funnel_left(a: u32, b: u32, shift: u32) -> u32 {
    ((u64::from(b) << 32 | u64::from(a)) << shift >> 32) as u32
}

/// Funnel shift right: the low word of `b:a >> c`.
#[inline(always)]
pub(crate) fn funnel_right(a: u32, b: u32, shift: u32) -> u32 {
    ((u64::from(b) << 32 | u64::from(a)) >> shift) as u32
}

/// Bytes of a word, sign- or zero-extended.
fn byte(word: u32, index: u32, signed: bool) -> i64 {
    let byte = (word >> (8 * index)) as u8;
    if signed { i64::from(byte as i8) } else { i64::from(byte) }
}

/// Four-way dot product; bit 0 of `mode`: `a` signed, bit 1: `b` signed.
#[inline(never)]
pub(crate) fn dp4a(a: u32, b: u32, c: u32, mode: u16) -> u32 {
    let (sa, sb) = (mode & 1 != 0, mode & 2 != 0);
    (0..4).fold(c, |sum, i| sum.wrapping_add((byte(a, i, sa) * byte(b, i, sb)) as u32))
}

/// Two-way dot product of halves of `a` with bytes of `b`; bit 2 of `mode`: the high bytes.
#[inline(never)]
pub(crate) fn dp2a(a: u32, b: u32, c: u32, mode: u16) -> u32 {
    let (sa, sb) = (mode & 1 != 0, mode & 2 != 0);
    let base = if mode & 4 != 0 { 2 } else { 0 };
    (0..2).fold(c, |sum, i| {
        let half = (a >> (16 * i)) as u16;
        let wide = if sa { i64::from(half as i16) } else { i64::from(half) };
        sum.wrapping_add((wide * byte(b, base + i, sb)) as u32)
    })
}

/// Sum or bytes of absolute differences of unsigned bytes.
#[inline(never)]
pub(crate) fn absolute_difference4(a: u32, b: u32, c: u32, accumulate: bool) -> u32 {
    let differences = (0..4).map(|i| byte(a, i, false).abs_diff(byte(b, i, false)) as u32);
    if accumulate {
        differences.fold(c, u32::wrapping_add)
    } else {
        differences.enumerate().fold(0, |word, (i, d)| word | d << (8 * i))
    }
}

/// Bit mask of `length` ones from `position`; wrap takes both modulo 32.
#[inline(never)]
pub(crate) fn bmsk(position: u32, length: u32, wrap: bool) -> u32 {
    let (position, length) = if wrap { (position & 31, length & 31) } else { (position, length) };
    let mask = if length >= 32 { u64::from(u32::MAX) } else { (1_u64 << length) - 1 };
    if position >= 32 { 0 } else { (mask << position) as u32 }
}

/// Sign or zero extension from a bit width.
#[inline(never)]
pub(crate) fn szext(a: u32, width: u32, wrap: bool, signed: bool) -> u32 {
    let width = if wrap { width & 31 } else { width.min(32) };
    match width {
        0 => 0,
        32 => a,
        n if signed => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
        n => a << (32 - n) >> (32 - n),
    }
}

/// The n-th set bit from a base, upwards or downwards; all ones if there is none.
#[inline(never)]
pub(crate) fn fns(mask: u32, base: u32, offset: u32) -> u32 {
    let base = base & 31;
    let offset = offset as i32;
    let set = |i: &u32| mask >> i & 1 == 1;
    let nth = offset.unsigned_abs().saturating_sub(1) as usize;
    let found = match offset.signum() {
        0 => Some(base).filter(set),
        1 => (base..32).filter(set).nth(nth),
        _ => (0..=base).rev().filter(set).nth(nth),
    };
    found.unwrap_or(u32::MAX)
}

/// 24-bit product, low or high 32 bits of 48.
#[inline(never)]
pub(crate) fn mul24(a: u32, b: u32, signed: bool, high: bool) -> u32 {
    let extend = |x: u32| {
        if signed { i64::from((x << 8) as i32 >> 8) } else { i64::from(x & 0x00ff_ffff) }
    };
    let product = extend(a) * extend(b);
    (if high { product >> 16 } else { product }) as u32
}
