//! What the driver's answers mean: a fault of the kernel, a launch that was not legal, a module
//! that cannot run here, or breakage. Tables only.

use super::driver::Code;
use crate::execute::Fault;

/// The fault that a kernel caused, in plain words; none for codes that are not a kernel's doing.
///
/// Memory errors of the hardware, broken links and unknown errors are nobody's fault.
pub(super) fn kernel_fault(code: Code) -> Option<(Fault, String)> {
    let (fault, words) = match code {
        Code::CUDA_ERROR_ILLEGAL_ADDRESS => {
            (Fault::OutOfBounds, "an access outside of every buffer")
        }
        Code::CUDA_ERROR_INVALID_ADDRESS_SPACE => {
            (Fault::OutOfBounds, "an access in the wrong address space")
        }
        Code::CUDA_ERROR_MISALIGNED_ADDRESS => (Fault::Crash, "an access that is not aligned"),
        Code::CUDA_ERROR_ILLEGAL_INSTRUCTION => (Fault::Crash, "an illegal instruction"),
        Code::CUDA_ERROR_INVALID_PC => (Fault::Crash, "a jump to no instruction"),
        Code::CUDA_ERROR_HARDWARE_STACK_ERROR => (Fault::Crash, "a broken call stack"),
        Code::CUDA_ERROR_ASSERT => (Fault::Crash, "a failed assertion"),
        Code::CUDA_ERROR_LAUNCH_FAILED => (Fault::Crash, "a trap or an exception of the kernel"),
        Code::CUDA_ERROR_TENSOR_MEMORY_LEAK => (Fault::Crash, "tensor memory that was not freed"),
        Code::CUDA_ERROR_LAUNCH_TIMEOUT => (Fault::Hang, "the driver ended a kernel that ran long"),
        _ => return None,
    };
    Some((fault, format!("{words} ({code:?})")))
}

/// Why the driver refused a launch; none for codes that say nothing about the launch.
pub(super) fn launch_refusal(code: Code) -> Option<String> {
    let words = match code {
        Code::CUDA_ERROR_INVALID_VALUE => "its shape or attributes are not legal",
        Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
            "a block needs more registers or shared memory than there are"
        }
        Code::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE => {
            "a co-operative launch must fit on the GPU at once"
        }
        Code::CUDA_ERROR_INVALID_CLUSTER_SIZE => "the GPU cannot run clusters of this size",
        Code::CUDA_ERROR_OUT_OF_MEMORY => "there is no memory for its local memory",
        Code::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION => "its resources cannot be had together",
        Code::CUDA_ERROR_NOT_SUPPORTED => "the GPU does not support its attributes",
        _ => return None,
    };
    Some(format!("the driver refused the launch: {words} ({code:?})"))
}

/// Why a module cannot run here; none for codes that mean a broken module or machine.
pub(super) fn load_refusal(code: Code) -> Option<String> {
    let words = match code {
        Code::CUDA_ERROR_NO_BINARY_FOR_GPU => "it was compiled for another architecture",
        Code::CUDA_ERROR_OUT_OF_MEMORY => "its variables do not fit into the GPU's memory",
        Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION | Code::CUDA_ERROR_NOT_SUPPORTED => {
            "the driver is too old for it"
        }
        _ => return None,
    };
    Some(format!("the module cannot be loaded: {words} ({code:?})"))
}

/// Whether a code says that the image itself is broken.
pub(super) fn is_broken_image(code: Code) -> bool {
    matches!(
        code,
        Code::CUDA_ERROR_INVALID_IMAGE
            | Code::CUDA_ERROR_INVALID_PTX
            | Code::CUDA_ERROR_INVALID_SOURCE
            | Code::CUDA_ERROR_NOT_FOUND
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_answers_for_its_own_faults_only() {
        let kind = |code| kernel_fault(code).map(|(fault, _)| fault);
        assert_eq!(kind(Code::CUDA_ERROR_ILLEGAL_ADDRESS), Some(Fault::OutOfBounds));
        assert_eq!(kind(Code::CUDA_ERROR_MISALIGNED_ADDRESS), Some(Fault::Crash));
        assert_eq!(kind(Code::CUDA_ERROR_LAUNCH_FAILED), Some(Fault::Crash));
        assert_eq!(kind(Code::CUDA_ERROR_LAUNCH_TIMEOUT), Some(Fault::Hang));
        for code in [
            Code::CUDA_ERROR_ECC_UNCORRECTABLE,
            Code::CUDA_ERROR_NVLINK_UNCORRECTABLE,
            Code::CUDA_ERROR_EXTERNAL_DEVICE,
            Code::CUDA_ERROR_UNKNOWN,
            Code::CUDA_ERROR_OUT_OF_MEMORY,
            Code::CUDA_ERROR_NOT_READY,
        ] {
            assert_eq!(kind(code), None, "{code:?}");
        }
    }

    #[test]
    fn sentences_carry_the_drivers_name() {
        let (_, message) = kernel_fault(Code::CUDA_ERROR_ASSERT).unwrap();
        assert_eq!(message, "a failed assertion (CUDA_ERROR_ASSERT)");
        let refusal = launch_refusal(Code::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE).unwrap();
        assert!(refusal.contains("must fit on the GPU at once"), "{refusal}");
        assert!(load_refusal(Code::CUDA_ERROR_NO_BINARY_FOR_GPU).is_some());
        assert!(launch_refusal(Code::CUDA_ERROR_ILLEGAL_ADDRESS).is_none());
        assert!(load_refusal(Code::CUDA_ERROR_ILLEGAL_ADDRESS).is_none());
        assert!(is_broken_image(Code::CUDA_ERROR_INVALID_IMAGE));
    }
}
