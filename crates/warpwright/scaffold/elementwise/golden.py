"""Makes golden.json: a few elements by a program that shares nothing with reference.cu.

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
N = 24
x = [f32(((i * 37) % 47 - 23) / 3.0) for i in range(N)]

# REPLACE: the formula, in exact or in very long arithmetic.
y = [float(F(v) / (1 + abs(F(v)))) for v in x]

print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python fractions, exact",
    "dims": {"n": N},
    "inputs": {"x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
