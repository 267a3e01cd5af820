//! Whether a GPU still computes rightly, and whether the driver wipes memory between processes.
//!
//! Start at [`health`], or at [`leave_pattern`] and, in another process, [`scan_for_pattern`].

use std::rc::Rc;
use std::time::Duration;

use super::driver::{Code, Geometry, Mapping, Stream};
use super::harness::{Arg, Entry, Harness};
use super::timer::THREADS;
use super::{Context, CudaDevice, CudaError, Placement, Timer};
use crate::content_hash::hash_bytes;
use crate::execute::{Access, Device, DeviceError, LaunchEnd};
use crate::limits::{HARNESS_DEADLINE, PATTERN_PIECE_BYTES_MIN, PATTERN_SPARE_BYTES};

/// A word that no memory holds by chance in numbers.
const PATTERN: u32 = 0x7761_7270;
const CHECK_BYTES: usize = 4 << 20;
const CHECK_KEY: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

/// Checks a GPU: a copy through the harness must hash as on the host.
///
/// Counts of memory errors do not matter: they may be older than the process that asks, and an
/// error that hits this one makes its kernels fault.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn health(context: &Rc<Context>, harness_cubin: &[u8]) -> Result<(), String> {
    match check(context, harness_cubin) {
        Ok(true) => Ok(()),
        Ok(false) => Err("a known kernel gave a wrong result".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether known bytes came through a copy and a hash unharmed.
fn check(context: &Rc<Context>, harness_cubin: &[u8]) -> Result<bool, DeviceError> {
    let mut device = CudaDevice::new(context, HARNESS_DEADLINE, Placement::Upper)?;
    let mut timer = Timer::new(&mut device, context, harness_cubin)?;
    let bytes: Vec<u8> = (0..CHECK_BYTES as u32 / 4)
        .flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    let from = device.allocate("check.from", bytes.len() as u64, Access::ReadWrite)?;
    let to = device.allocate("check.to", bytes.len() as u64, Access::ReadWrite)?;
    device.upload(from, 0, &bytes)?;
    let args = [Arg::Long(to.address), Arg::Long(from.address), Arg::Long(from.bytes / 16)];
    timer.queue(&device, Entry::Copy, &super::timer::tiles(from.bytes / 16), &args)?;
    timer.hash(&mut device, to, to.bytes, CHECK_KEY)?;
    completed(device.synchronise()?)?;
    Ok(timer.hashes()? == [hash_bytes(CHECK_KEY, &bytes)])
}

fn completed(end: LaunchEnd) -> Result<(), DeviceError> {
    match end {
        LaunchEnd::Completed => Ok(()),
        end => Err(DeviceError::Failed(format!("a known kernel did not complete: {end:?}"))),
    }
}

/// Fills fresh memory with a pattern and gives it back to the driver; gives how many bytes. That is
/// `bytes`, or all but 1 GiB of what is free, or what the driver gives of it.
///
/// # Errors
/// A driver that gives less than half of that, or breakage.
pub fn leave_pattern(context: &Rc<Context>, bytes: u64) -> Result<u64, CudaError> {
    let failed =
        |error: DeviceError| CudaError::Failed { call: "pattern", code: error.to_string() };
    let pieces = fresh(context, bytes)?;
    let mut device = device(context).map_err(failed)?;
    for piece in &pieces {
        let fill = |stream: &Stream| stream.fill_words(piece.start(), PATTERN, piece.bytes() / 4);
        device.queue(fill).map_err(failed)?;
    }
    device.synchronise().and_then(completed).map_err(failed)?;
    Ok(pieces.iter().map(Mapping::bytes).sum())
}

/// How many words of 4 bytes have the pattern in as much fresh memory as [`leave_pattern`] would
/// fill.
///
/// # Errors
/// As there, or a harness that does not load.
pub fn scan_for_pattern(
    context: &Rc<Context>,
    bytes: u64,
    harness_cubin: &[u8],
) -> Result<u64, CudaError> {
    let failed = |error: DeviceError| CudaError::Failed { call: "scan", code: error.to_string() };
    let harness = Harness::load(&context.primary, harness_cubin).map_err(failed)?;
    let pieces = fresh(context, bytes)?;
    let mut device = device(context).map_err(failed)?;
    let count = device.allocate("count", 8, Access::ReadWrite).map_err(failed)?;
    device.fill(count, 0).map_err(failed)?;
    let blocks = u32::try_from(8 * context.info().sm_count).unwrap_or(1).max(1);
    let geometry = Geometry::line(blocks, THREADS);
    for piece in &pieces {
        let args = [
            Arg::Long(piece.start()),
            Arg::Long(piece.bytes() / 4),
            Arg::Word(PATTERN),
            Arg::Long(count.address),
        ];
        let launch = |stream: &Stream| harness.launch(stream, Entry::Scan, &geometry, &args);
        device.queue(launch).map_err(failed)?;
    }
    device.synchronise().and_then(completed).map_err(failed)?;
    let mut found = [0; 8];
    device.download(count, &mut found).map_err(failed)?;
    Ok(u64::from_le_bytes(found))
}

fn device(context: &Rc<Context>) -> Result<CudaDevice, DeviceError> {
    const DEADLINE: Duration = HARNESS_DEADLINE;
    CudaDevice::new(context, DEADLINE, Placement::Lower)
}

/// `bytes` bytes, or all but a spare of what is free, in as few pieces as the driver gives.
fn fresh(context: &Rc<Context>, bytes: u64) -> Result<Vec<Mapping>, CudaError> {
    let granularity = context.primary.granularity()?.max(1);
    let wanted = wanted_bytes(bytes, context.free_bytes()?, granularity);
    let (mut pieces, mut left, mut piece) = (Vec::new(), wanted, wanted);
    while left > 0 {
        piece = piece.min(left);
        match Mapping::new(&context.primary, piece) {
            Ok(mapping) => {
                pieces.push(mapping);
                left -= piece;
            }
            Err(error) if error.code != Code::CUDA_ERROR_OUT_OF_MEMORY => return Err(error.into()),
            Err(_) if piece / 2 >= PATTERN_PIECE_BYTES_MIN.max(granularity) => {
                piece = piece / 2 / granularity * granularity;
            }
            Err(error) if left > wanted / 2 => return Err(error.into()),
            Err(_) => break,
        }
    }
    Ok(pieces)
}

/// A multiple of the granularity: `bytes` if a spare stays free, else what does not touch it.
fn wanted_bytes(bytes: u64, free: u64, granularity: u64) -> u64 {
    let most = free.saturating_sub(PATTERN_SPARE_BYTES).max(granularity);
    let most = most / granularity * granularity;
    bytes.max(1).checked_next_multiple_of(granularity).map_or(most, |bytes| bytes.min(most))
}

#[cfg(test)]
mod tests {
    use super::wanted_bytes;

    #[test]
    fn a_pattern_leaves_a_spare() {
        const GIB: u64 = 1 << 30;
        assert_eq!(wanted_bytes(1, 8 * GIB, 2 << 20), 2 << 20);
        assert_eq!(wanted_bytes(4 * GIB, 8 * GIB, 2 << 20), 4 * GIB);
        assert_eq!(wanted_bytes(u64::MAX, 8 * GIB + 1, 2 << 20), 7 * GIB);
        assert_eq!(wanted_bytes(u64::MAX, GIB / 2, 2 << 20), 2 << 20);
    }
}
