"""Runs every form of forms.txt on a GPU and writes golden.bin, which the tests compare with.

Run where CuPy and a GPU are: python3 golden.py [OUT]. Rows that the GPU refuses to assemble are
written as absent. Layout of golden.bin: for each form in order one byte (1 present, 0 absent), then,
if present, ROWS results of 4 or 8 bytes, little-endian.
"""
import os
import sys

import cupy
import numpy

ROWS = 256
MASK = (1 << 64) - 1
EDGES32 = [
    0, 1, 2, 5, 31, 32, 33, 63, 255, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE,
    0x3F800000, 0xBF800000, 0x3F000000, 0x40490FDB, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC00001,
    0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4B000000, 0x4B800000, 0x4EFFFFFF,
    0x4F000000, 0x4F800000, 0x5F000000, 0xCF000000, 0x33800000, 0x477FE000, 0x477FF000, 0x38800000, 0x33000000,
    0x3C003C00, 0x7C007C00, 0x7E00FC00, 0x00010001, 0x3F803F80, 0x7F807F80,
]
EDGES64 = [
    0, 1, 2, 9, 31, 32, 63, 64, 65, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, MASK, MASK - 1, 0x100000000, 0xFFFFFFFF,
    0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000, 0x7FF0000000000000, 0xFFF0000000000000,
    0x7FF8000000000000, 0x7FF0000000000001, 0x0000000000000001, 0x8000000000000001, 0x000FFFFFFFFFFFFF,
    0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x43E0000000000000, 0xC3E0000000000000, 0x41DFFFFFFFC00000,
    0x41E0000000000000, 0x41F0000000000000, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x3810000000000000,
    0x36A0000000000000, 0x3690000000000001, 0x4340000000000000, 0x3F8000003F800000,
]


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def value32(index):
    x = mix(index)
    if x % 3 == 0:
        return EDGES32[(x >> 8) % len(EDGES32)]
    if x % 3 == 1:
        return x >> 32
    return ((x >> 7) & 1) << 31 | (117 + (x >> 8) % 21) << 23 | (x >> 40) & 0x7FFFFF


def value64(index):
    x = mix(index)
    if x % 3 == 0:
        return EDGES64[(x >> 8) % len(EDGES64)]
    if x % 3 == 1:
        return mix(x)
    return ((x >> 7) & 1) << 63 | (1013 + (x >> 8) % 21) << 52 | mix(x) & 0xFFFFFFFFFFFFF


def ptx(width, body):
    if width == 32:
        return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .pred %p, %q; .reg .b16 %h<9>; .reg .b32 %a, %b, %c, %d, %t<9>; .reg .b64 %rd<9>, %x, %y, %z, %w;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %t1, %tid.x;
mad.wide.u32 %rd3, %t1, 12, %rd1; mad.wide.u32 %rd4, %t1, 4, %rd2;
ld.global.u32 %a, [%rd3]; ld.global.u32 %b, [%rd3+4]; ld.global.u32 %c, [%rd3+8];
{body}
st.global.u32 [%rd4], %d; ret; }}
"""
    return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .pred %p, %q; .reg .b32 %t<9>, %e; .reg .b64 %rd<9>, %a, %b, %c, %d;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %t1, %tid.x;
mad.wide.u32 %rd3, %t1, 24, %rd1; mad.wide.u32 %rd4, %t1, 8, %rd2;
ld.global.u64 %a, [%rd3]; ld.global.u64 %b, [%rd3+8]; ld.global.u64 %c, [%rd3+16];
cvt.u32.u64 %e, %b;
{body}
st.global.u64 [%rd4], %d; ret; }}
"""


def run(width, body):
    kind, value = (numpy.uint32, value32) if width == 32 else (numpy.uint64, value64)
    inputs = cupy.asarray(numpy.array([value(i) for i in range(3 * ROWS)], dtype=kind))
    out = cupy.zeros(ROWS, dtype=kind)
    module = cupy.cuda.function.Module()
    module.load(ptx(width, body).encode())
    module.get_function("k")((1,), (ROWS,), (inputs, out))
    cupy.cuda.runtime.deviceSynchronize()
    return out.get().tobytes()


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "golden.bin")
    golden, absent = bytearray(), []
    with open(os.path.join(folder, "forms.txt")) as lines:
        forms = [line.rstrip("\n").split(" ", 2) for line in lines if not line.startswith("#")]
    for width, _, body in forms:
        try:
            golden += b"\1" + run(int(width), body)
        except cupy.cuda.driver.CUDADriverError as error:
            absent.append((body, str(error)))
            golden += b"\0"
    with open(out, "wb") as file:
        file.write(golden)
    for body, error in absent:
        print("absent:", body, error)
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    print(len(forms), "forms,", len(absent), "absent, on", properties["name"].decode(), "driver",
          cupy.cuda.runtime.driverGetVersion())


if __name__ == "__main__":
    main()
