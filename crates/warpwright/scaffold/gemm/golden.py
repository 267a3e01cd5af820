"""Makes golden.json: a small product by a program that shares nothing with reference.cu.

Run: python3 golden.py > golden.json
"""
import fractions
import json
import struct

F = fractions.Fraction


def f32(value):
    """The value as fp32 holds it."""
    return struct.unpack(">f", struct.pack(">f", value))[0]


def bits(form, value):
    return struct.pack(form, value).hex()


# REPLACE: the inputs, at most 64 elements each, odd values and both signs among them.
M, N, K = 5, 4, 7
x = [f32(((i * 29) % 17 - 8) / 3.0) for i in range(M * K)]
w = [f32(((i * 31) % 13 - 6) / 7.0 * 2.0 ** (i % 3)) for i in range(N * K)]
bias = [f32(((i * 3) % 5 - 2) / 7.0) for i in range(N)]

# REPLACE: the formula, in exact or in very long arithmetic.
y = [float(sum(F(x[i * K + l]) * F(w[j * K + l]) for l in range(K)) + F(bias[j]))
     for i in range(M) for j in range(N)]

print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python fractions, exact",
    "dims": {"m": M, "n": N, "k": K},
    "inputs": {"x": [bits(">f", v) for v in x], "w": [bits(">f", v) for v in w],
               "bias": [bits(">f", v) for v in bias]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
