"""Makes golden.json: a few rows by a program that shares nothing with reference.cu.

Run: python3 golden.py > golden.json
"""
import decimal
import json
import struct

decimal.getcontext().prec = 50
D = decimal.Decimal


def f32(value):
    """The value as fp32 holds it."""
    return struct.unpack(">f", struct.pack(">f", value))[0]


def bits(form, value):
    return struct.pack(form, value).hex()


# REPLACE: the inputs, at most 64 elements each, odd values and both signs among them.
ROWS, COLS = 4, 7
x = [f32(((i * 41) % 19 - 9) / 4.0) for i in range(ROWS * COLS)]
weight = [f32(1 + ((i * 5) % 7 - 3) / 9.0) for i in range(COLS)]
eps = D(f32(1e-5))

# REPLACE: the formula, in exact or in very long arithmetic.
y = []
for r in range(ROWS):
    row = [D(v) for v in x[r * COLS:(r + 1) * COLS]]
    root = (sum(v * v for v in row) / COLS + eps).sqrt()
    y += [float(v / root * D(w)) for v, w in zip(row, weight)]

print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python decimal, 50 digits",
    "dims": {"rows": ROWS, "cols": COLS},
    "inputs": {"x": [bits(">f", v) for v in x], "weight": [bits(">f", v) for v in weight]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
