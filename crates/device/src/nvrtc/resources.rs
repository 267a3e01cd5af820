//! Reads what each kernel uses from the assembler's lines in the log.

use super::KernelResources;
use crate::limits::KERNELS_MAX;

const INFO: &str = "ptxas info    : ";
const DETAIL: &str = "ptxas         . ";

/// The resources of each kernel, in the order of the log.
pub(super) fn parse(log: &str) -> Vec<KernelResources> {
    let mut found: Vec<KernelResources> = Vec::new();
    // Properties are also printed for functions that are called and are no kernels.
    let mut described = "";
    for line in log.lines() {
        if let Some(text) = line.strip_prefix(INFO) {
            if let Some(rest) = text.strip_prefix("Compiling entry function '") {
                let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
                found.push(KernelResources { kernel, ..KernelResources::default() });
            } else if let Some(name) = text.strip_prefix("Function properties for ") {
                described = name.trim();
            } else if let (true, Some(current)) = (text.starts_with("Used "), found.last_mut()) {
                read_used(text, current);
            }
        } else if let (Some(text), Some(current)) = (line.strip_prefix(DETAIL), found.last_mut())
            && current.kernel == described
        {
            read_properties(text, current);
        }
        if found.len() == KERNELS_MAX {
            break;
        }
    }
    found
}

/// `832 bytes stack frame, 540 bytes spill stores, 540 bytes spill loads`
fn read_properties(text: &str, kernel: &mut KernelResources) {
    for (value, what) in amounts(text) {
        match what {
            "bytes stack frame" => kernel.stack_bytes = kernel.stack_bytes.max(value),
            "bytes spill stores" => kernel.spill_store_bytes = value,
            "bytes spill loads" => kernel.spill_load_bytes = value,
            _ => {}
        }
    }
}

/// `Used 64 registers, used 1 barriers, 832 bytes cumulative stack size, 4096 bytes smem`
fn read_used(text: &str, kernel: &mut KernelResources) {
    for (value, what) in amounts(text) {
        match what {
            "registers" => kernel.registers = value,
            "barriers" => kernel.barriers = value,
            "bytes cumulative stack size" => kernel.stack_bytes = value,
            "bytes smem" => kernel.static_shared_bytes = value,
            _ => {}
        }
    }
}

fn amounts(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.split(',').filter_map(|part| {
        let part = part.trim();
        let part = part.strip_prefix("Used ").or(part.strip_prefix("used ")).unwrap_or(part);
        let (value, what) = part.split_once(' ')?;
        Some((value.parse().ok()?, what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k2' for 'sm_90a'
ptxas info    : Function properties for k2
ptxas         .     832 bytes stack frame, 540 bytes spill stores, 544 bytes spill loads
ptxas info    : Used 64 registers, used 2 barriers, 900 bytes cumulative stack size, 4096 bytes smem
ptxas info    : Function properties for _Z1fPfi
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
";

    #[test]
    fn kernels_are_read_and_called_functions_are_not() {
        let found = parse(LOG);
        assert_eq!(found.len(), 2);
        let expected = KernelResources {
            kernel: "k2".to_owned(),
            registers: 64,
            spill_store_bytes: 540,
            spill_load_bytes: 544,
            stack_bytes: 900,
            static_shared_bytes: 4096,
            barriers: 2,
        };
        assert_eq!(found[0], expected);
        assert_eq!((found[1].registers, found[1].stack_bytes), (40, 400));
    }

    #[test]
    fn other_text_is_ignored() {
        assert!(parse("ptxas info    : Used x registers\nkernel.cu(1): error: no\n").is_empty());
    }
}
