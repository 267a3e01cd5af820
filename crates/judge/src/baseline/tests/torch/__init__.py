"""A PyTorch for the tests: tensors are host memory, and the driver below works on them.

`sys.fake` says what goes wrong.
"""
import array
import contextlib
import ctypes
import hashlib
import os
import signal
import sys
import time
import types

fake = sys.fake
if fake == "absent":
    raise ImportError("No module named 'torch'")

from . import nn  # noqa: E402

__version__ = "2.0-made-up"
version = types.SimpleNamespace(cuda=None if fake == "no-cuda" else "13.0")
last_mode = "none"
float32, float16, uint8 = "float32", "float16", "uint8"
SIZES = {float32: 4, float16: 2, uint8: 1}
precision = "highest"
matmul = types.SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=(True, True),
    allow_bf16_reduced_precision_reduction=True,
)
backends = types.SimpleNamespace(
    cuda=types.SimpleNamespace(matmul=matmul),
    cudnn=types.SimpleNamespace(allow_tf32=True, benchmark=False, deterministic=False),
)


def set_float32_matmul_precision(value):
    global precision
    precision = value


def get_float32_matmul_precision():
    return precision


class Tensor:
    is_cuda = True

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.contiguous_ = list(shape), dtype, True
        count = 1
        for extent in self.shape:
            count *= extent
        self.nbytes = count * SIZES[dtype]
        self.memory = ctypes.create_string_buffer(self.nbytes + 16)
        self.address = -(-ctypes.addressof(self.memory) // 16) * 16

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return self.contiguous_

    def bytes(self):
        return ctypes.string_at(self.address, self.nbytes)

    def half(self):
        return Tensor(self.shape, float16)

    def strided(self):
        other = Tensor(self.shape, self.dtype)
        other.contiguous_ = False
        return other

    def scribble(self):
        ctypes.memset(self.address, 7, 1)

    def __add__(self, other):
        mine, theirs = (array.array("f", it.bytes()) for it in (self, other))
        total = Tensor(self.shape, self.dtype)
        data = array.array("f", map(float.__add__, mine, theirs)).tobytes()
        ctypes.memmove(total.address, data, len(data))
        misbehave()
        return total


def misbehave():
    if fake == "hangs":
        time.sleep(600)
    elif fake == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fake == "turns-tf32-on":
        matmul.allow_tf32 = True


def empty(shape, dtype, device):
    assert device == "cuda"
    return Tensor([shape] if isinstance(shape, int) else shape, dtype)


def no_grad():
    return contextlib.nullcontext()


def compile(module, mode, dynamic):
    global last_mode
    last_mode, calls = mode, [0]

    def compiled(*inputs):
        from . import _dynamo

        calls[0] += 1
        # It is compiled at the first call and once more at the eighth.
        if calls[0] in (1, 8):
            _dynamo.utils.counters["stats"]["unique_graphs"] += 1
        return module(*inputs)

    return compiled


class OutOfMemoryError(RuntimeError):
    pass


cuda = types.SimpleNamespace(
    is_initialized=lambda: fake == "is-initialised",
    init=lambda: None,
    Stream=lambda: types.SimpleNamespace(cuda_stream=1),
    set_stream=lambda stream: None,
    OutOfMemoryError=OutOfMemoryError,
)


def number(value):
    return value.value if hasattr(value, "value") else value


class Driver:
    """The calls of the driver that the program makes."""

    def __init__(self):
        self.functions, self.kept, self.pinned = {}, [], None

    def __getattr__(self, name):
        return lambda *arguments: 0

    def cuDeviceGetAttribute(self, value, which, device):
        value._obj.value = {16: 2, 38: 1 << 20, 97: 1024}[number(which)]
        return 0

    def cuModuleLoadData(self, module, cubin):
        return 0 if cubin == b"cubin" else 209

    def cuModuleGetFunction(self, function, module, name):
        function._obj.value = len(self.functions) + 1
        self.functions[function._obj.value] = name.decode()
        return 0

    def cuMemHostAlloc(self, host, size, flags):
        self.kept.append(ctypes.create_string_buffer(size.value + 16))
        self.pinned = -(-ctypes.addressof(self.kept[-1]) // 16) * 16
        host._obj.value = self.pinned
        return 0

    def cuMemHostGetDevicePointer_v2(self, address, host, flags):
        address._obj.value = host.value
        return 0

    def cuMemsetD8Async(self, to, byte, size, stream):
        ctypes.memset(to.value, byte.value, size.value)
        return 0

    def copied(self, to, source, size, stream):
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    cuMemcpyDtoDAsync_v2 = cuMemcpyHtoDAsync_v2 = cuMemcpyDtoHAsync_v2 = copied

    def cuStreamSynchronize(self, stream):
        return 700 if fake == "faults" else 0

    def cuEventElapsedTime(self, elapsed, start, stop):
        elapsed._obj.value = 1.5
        return 0

    def cuLaunchKernel(self, function, *rest):
        arguments = rest[8]
        long = lambda at: ctypes.c_uint64.from_address(arguments[at]).value
        if self.functions[function.value] == "ww_gate":
            record = (ctypes.c_uint64 * 3).from_address(long(2))
            record[0], record[1], record[2] = 1000, 1980, 0
        elif self.functions[function.value] == "ww_hash":
            data = ctypes.string_at(long(0), long(1)) + long(2).to_bytes(8, "little")
            sums = (ctypes.c_uint64 * 2).from_address(long(4))
            digest = hashlib.blake2b(data, digest_size=16).digest()
            for at in range(2):
                sums[at] += int.from_bytes(digest[8 * at : 8 * at + 8], "little")
        return 0


real_library = ctypes.CDLL


def library(name):
    if name == "libcuda.so.1":
        return Driver()
    if name == "libnvidia-ml.so.1":
        raise OSError("none here")
    return real_library(name)


ctypes.CDLL = library
