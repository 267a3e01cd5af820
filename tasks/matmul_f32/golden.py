"""Makes golden.json with exact rational arithmetic. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct

M, N, K = 5, 4, 7
F = fractions.Fraction


def f32(value):
    return struct.unpack(">f", struct.pack(">f", value))[0]


def bits(form, value):
    return struct.pack(form, value).hex()


a = [f32(((i * 29) % 17 - 8) / 3.0) for i in range(M * K)]
b = [f32(((i * 31) % 13 - 6) / 7.0 * 2.0 ** (i % 3)) for i in range(K * N)]
c = [float(sum(F(a[i * K + l]) * F(b[l * N + j]) for l in range(K))) for i in range(M) for j in range(N)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python fractions, exact",
    "dims": {"m": M, "n": N, "k": K},
    "inputs": {"a": [bits(">f", v) for v in a], "b": [bits(">f", v) for v in b]},
    "outputs": {"c": [bits(">d", v) for v in c]},
}, indent=1))
