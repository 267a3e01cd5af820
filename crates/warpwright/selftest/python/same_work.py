"""The work of the runner's own windows, from Python: a product by cuBLAS, a copy by the driver."""
import __main__
import ctypes

import torch

COMPUTE_32F, R_32F, DEFAULT = 68, 0, -1
blas = {}


def handle():
    """cuBLAS as PyTorch has loaded it, on the current stream."""
    if not blas:
        library, handle = ctypes.CDLL("libcublas.so.13"), ctypes.c_void_p()
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if library.cublasCreate_v2(ctypes.byref(handle)):
            raise RuntimeError("cuBLAS gives no handle")
        if library.cublasSetStream_v2(handle, stream):
            raise RuntimeError("cuBLAS does not take the stream")
        blas.update(library=library, handle=handle)
    return blas["library"], blas["handle"]


def sgemm(a, b):
    library, own = handle()
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device="cuda")
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    at = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
    # Row-major: the library sees the transposed product.
    failed = library.cublasGemmEx(
        own, 0, 0, n, m, k, ctypes.byref(one), at(b), R_32F, n, at(a), R_32F, k,
        ctypes.byref(zero), at(c), R_32F, n, COMPUTE_32F, DEFAULT,
    )
    if failed:
        raise RuntimeError(f"cublasGemmEx failed with code {failed}")
    return c


def copy(x):
    y = torch.empty_like(x)
    __main__.harness.move(y.data_ptr(), x.data_ptr(), x.nbytes)
    return y
