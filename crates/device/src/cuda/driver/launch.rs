//! Modules, their functions, launches and tensor maps.

use std::ffi::CString;
use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys::CUlaunchAttributeID as LaunchAttribute;
use cudarc::driver::sys::{self, CUfunction_attribute as FunctionAttribute};

use super::{CallError, Code, Primary, Stream, check, has};
use crate::cuda::elf;
use crate::execute::{TensorMap, TensorMapElement, TensorSwizzle};
use crate::limits::PARAMETERS_MAX;

/// A loaded module, unloaded when it and every function of it are gone.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Module {
    loaded: Rc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    raw: sys::CUmodule,
    primary: Rc<Primary>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.primary.is_abandoned() {
            // SAFETY: the module is loaded, and no function of it is left.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

impl Module {
    /// Loads a CUBIN; bytes that are no whole ELF file are `CUDA_ERROR_INVALID_IMAGE`.
    pub(in crate::cuda) fn load(primary: &Rc<Primary>, cubin: &[u8]) -> Result<Module, CallError> {
        const CALL: &str = "cuModuleLoadData";
        if elf::flaw(cubin).is_some() {
            return Err(CallError { call: CALL, code: Code::CUDA_ERROR_INVALID_IMAGE });
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the image is an ELF file all parts of which lie inside of the slice; the driver
        // takes what it needs before it returns.
        check(CALL, unsafe { sys::cuModuleLoadData(&mut raw, cubin.as_ptr().cast()) })?;
        Ok(Module { loaded: Rc::new(Loaded { raw, primary: Rc::clone(primary) }) })
    }

    /// A kernel by its name. `told` are the sizes of its parameters in bytes as the compiler told
    /// them, for drivers that cannot; without either the kernel is `CUDA_ERROR_NOT_SUPPORTED`.
    pub(in crate::cuda) fn function(
        &self,
        name: &str,
        told: impl FnOnce() -> Option<Vec<u64>>,
    ) -> Result<Function, CallError> {
        const CALL: &str = "cuModuleGetFunction";
        let not_found = CallError { call: CALL, code: Code::CUDA_ERROR_NOT_FOUND };
        let name = CString::new(name).map_err(|_| not_found)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends in a zero.
        let code = unsafe { sys::cuModuleGetFunction(&mut raw, self.loaded.raw, name.as_ptr()) };
        check(CALL, code)?;
        let untold = CallError { call: PARAMETERS, code: Code::CUDA_ERROR_NOT_SUPPORTED };
        let parameters = parameters(raw)?.or_else(told).ok_or(untold)?;
        Ok(Function { raw, parameters, _module: Rc::clone(&self.loaded) })
    }
}

const PARAMETERS: &str = "cuFuncGetParamInfo";

/// Size of each parameter in bytes; none where the driver cannot tell.
fn parameters(function: sys::CUfunction) -> Result<Option<Vec<u64>>, CallError> {
    if !has(c"cuFuncGetParamInfo") {
        return Ok(None);
    }
    let mut sizes = Vec::new();
    while sizes.len() < PARAMETERS_MAX {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the driver has the call, the function's module is loaded, and both numbers
        // outlive the call.
        let code =
            unsafe { sys::cuFuncGetParamInfo(function, sizes.len(), &mut offset, &mut bytes) };
        if code == Code::CUDA_ERROR_INVALID_VALUE {
            break;
        }
        check(PARAMETERS, code)?;
        sizes.push(bytes as u64);
    }
    Ok(Some(sizes))
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Function {
    raw: sys::CUfunction,
    parameters: Vec<u64>,
    _module: Rc<Loaded>,
}

/// Shape and ways of one launch.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Geometry {
    pub(in crate::cuda) grid: [u32; 3],
    pub(in crate::cuda) block: [u32; 3],
    /// All ones: the launch says nothing about clusters.
    pub(in crate::cuda) cluster: [u32; 3],
    pub(in crate::cuda) shared_bytes: u32,
    pub(in crate::cuda) cooperative: bool,
    pub(in crate::cuda) pdl: bool,
}

impl Geometry {
    /// A plain launch along one axis.
    pub(in crate::cuda) fn line(blocks: u32, threads: u32) -> Geometry {
        Geometry {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: [1; 3],
            shared_bytes: 0,
            cooperative: false,
            pdl: false,
        }
    }
}

impl Function {
    fn attribute(&self, attribute: FunctionAttribute) -> Result<u32, CallError> {
        let mut value = 0;
        // SAFETY: the function's module is loaded, and `value` outlives the call.
        let code = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.raw) };
        check("cuFuncGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn set_attribute(&self, attribute: FunctionAttribute, value: u32) -> Result<(), CallError> {
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        // SAFETY: the function's module is loaded.
        let code = unsafe { sys::cuFuncSetAttribute(self.raw, attribute, value) };
        check("cuFuncSetAttribute", code)
    }

    /// Threads that a block of this kernel can have.
    pub(in crate::cuda) fn threads_max(&self) -> Result<u32, CallError> {
        self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
    }

    /// Static shared memory of a block in bytes.
    pub(in crate::cuda) fn static_shared(&self) -> Result<u32, CallError> {
        self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    }

    /// The cluster that the kernel was compiled for; zeros if for none.
    pub(in crate::cuda) fn required_cluster(&self) -> Result<[u32; 3], CallError> {
        Ok([
            self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)?,
            self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)?,
            self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)?,
        ])
    }

    /// Allows so much dynamic shared memory, in bytes.
    pub(in crate::cuda) fn allow_shared(&self, bytes: u32) -> Result<(), CallError> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        self.set_attribute(attribute, bytes)
    }

    /// Allows clusters of more than 8 blocks.
    pub(in crate::cuda) fn allow_wide_clusters(&self) -> Result<(), CallError> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        self.set_attribute(attribute, 1)
    }

    /// Size of each parameter in bytes.
    pub(in crate::cuda) fn parameters(&self) -> &[u64] {
        &self.parameters
    }

    /// Queues a launch; arguments that are not the parameters are `CUDA_ERROR_INVALID_VALUE`.
    pub(in crate::cuda) fn launch(
        &self,
        stream: &Stream,
        geometry: &Geometry,
        args: &[Vec<u8>],
    ) -> Result<(), CallError> {
        const CALL: &str = "cuLaunchKernelEx";
        if !args.iter().map(|arg| arg.len() as u64).eq(self.parameters.iter().copied()) {
            return Err(CallError { call: CALL, code: Code::CUDA_ERROR_INVALID_VALUE });
        }
        let lines = lines(args);
        let mut pointers: Vec<*mut std::ffi::c_void> =
            lines.iter().map(|line| line.as_ptr().cast_mut().cast()).collect();
        let mut attributes = attributes(geometry);
        let config = config(stream, geometry, &mut attributes);
        // SAFETY: the module is loaded; there is an argument of the right size for each parameter,
        // which the driver copies before it returns; the attributes outlive the call.
        let code = unsafe {
            sys::cuLaunchKernelEx(&config, self.raw, pointers.as_mut_ptr(), ptr::null_mut())
        };
        check(CALL, code)
    }
}

/// Part of an argument, aligned as strictly as any parameter.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line([u8; 128]);

/// Each argument at an address aligned to 128 bytes.
fn lines(args: &[Vec<u8>]) -> Vec<Vec<Line>> {
    let aligned = |bytes: &Vec<u8>| {
        let mut lines = vec![Line([0; 128]); bytes.len().div_ceil(128).max(1)];
        for (line, part) in lines.iter_mut().zip(bytes.chunks(128)) {
            line.0[..part.len()].copy_from_slice(part);
        }
        lines
    };
    args.iter().map(aligned).collect()
}

fn attribute(
    id: LaunchAttribute,
    set: impl FnOnce(&mut sys::CUlaunchAttributeValue),
) -> sys::CUlaunchAttribute {
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    set(&mut value);
    sys::CUlaunchAttribute { id, pad: [0; 4], value }
}

fn attributes(geometry: &Geometry) -> Vec<sys::CUlaunchAttribute> {
    let mut attributes = Vec::new();
    let [x, y, z] = geometry.cluster;
    if geometry.cluster != [1; 3] {
        let dimension = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        let id = LaunchAttribute::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes.push(attribute(id, |value| value.clusterDim = dimension));
    }
    if geometry.cooperative {
        let id = LaunchAttribute::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes.push(attribute(id, |value| value.cooperative = 1));
    }
    if geometry.pdl {
        let id = LaunchAttribute::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let allowed = |value: &mut sys::CUlaunchAttributeValue| {
            value.programmaticStreamSerializationAllowed = 1;
        };
        attributes.push(attribute(id, allowed));
    }
    attributes
}

fn config(
    stream: &Stream,
    geometry: &Geometry,
    attributes: &mut [sys::CUlaunchAttribute],
) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: geometry.grid[0],
        gridDimY: geometry.grid[1],
        gridDimZ: geometry.grid[2],
        blockDimX: geometry.block[0],
        blockDimY: geometry.block[1],
        blockDimZ: geometry.block[2],
        sharedMemBytes: geometry.shared_bytes,
        hStream: stream.raw,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

/// Encodes a map that has no flaw.
pub(in crate::cuda) fn encode_tensor_map(map: &TensorMap<'_>) -> Result<[u8; 128], CallError> {
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    let ones = vec![1u32; map.dims.len()];
    let fill = if map.oob_nan {
        sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    } else {
        sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    };
    // SAFETY: without a flaw the slices have the lengths that the rank asks for; all outlive the
    // call, and the tensor's address is only written into the map.
    let code = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            element(map.element),
            map.dims.len() as u32,
            map.buffer.address as *mut std::ffi::c_void,
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            map.box_dims.as_ptr(),
            ones.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            fill,
        )
    };
    check("cuTensorMapEncodeTiled", code)?;
    let mut bytes = [0; 128];
    for (place, word) in bytes.chunks_exact_mut(8).zip(encoded.opaque) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

fn element(element: TensorMapElement) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Type;
    match element {
        TensorMapElement::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorMapElement::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorMapElement::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorMapElement::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorMapElement::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorMapElement::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorMapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorMapElement::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorMapElement::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorMapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    }
}

fn swizzle(swizzle: TensorSwizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle as Swizzle;
    match swizzle {
        TensorSwizzle::None => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        TensorSwizzle::B32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        TensorSwizzle::B64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        TensorSwizzle::B128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}
