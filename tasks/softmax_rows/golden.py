"""Makes golden.json: a softmax of 4 x 9 values in exact decimal arithmetic (Python's decimal, 50 digits).

Run: python3 golden.py > golden.json
"""
import decimal
import json
import struct

decimal.getcontext().prec = 50
ROWS, COLS = 4, 9


def f32_bits(value):
    return struct.pack(">f", value).hex()


def f64_bits(value):
    return struct.pack(">d", value).hex()


def inputs():
    values = [((7 * i * i + 3 * i + 1) % 41 - 20) / 8.0 for i in range(ROWS * COLS)]
    values[2 * COLS] = 88.5  # one row that overflows without subtracting the maximum
    values[3 * COLS + 4] = -103.25  # and one element that underflows fp32
    return [struct.unpack(">f", struct.pack(">f", v))[0] for v in values]


def softmax(row):
    exact = [decimal.Decimal(v) for v in row]
    powers = [(v - max(exact)).exp() for v in exact]
    return [float(p / sum(powers)) for p in powers]


x = inputs()
y = [v for r in range(ROWS) for v in softmax(x[r * COLS:(r + 1) * COLS])]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python decimal, 50 digits",
    "dims": {"rows": ROWS, "cols": COLS},
    "inputs": {"x": [f32_bits(v) for v in x]},
    "outputs": {"y": [f64_bits(v) for v in y]},
}, indent=1))
