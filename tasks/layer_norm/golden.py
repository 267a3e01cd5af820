"""Makes golden.json in exact decimal arithmetic, 60 digits. Run: python3 golden.py > golden.json"""
import decimal
import json
import struct

decimal.getcontext().prec = 60
D = decimal.Decimal
ROWS, COLS = 4, 7


def f32(value):
    return struct.unpack(">f", struct.pack(">f", value))[0]


def bits(form, value):
    return struct.pack(form, value).hex()


x = [f32(((i * 41) % 19 - 9) / 4.0 + (3.0 if i // COLS == 2 else 0.0)) for i in range(ROWS * COLS)]
weight = [f32(1 + ((i * 5) % 7 - 3) / 9.0) for i in range(COLS)]
bias = [f32(((i * 3) % 5 - 2) / 7.0) for i in range(COLS)]
eps = D(f32(1e-5))
y = []
for r in range(ROWS):
    row = [D(v) for v in x[r * COLS:(r + 1) * COLS]]
    mean = sum(row) / COLS
    deviation = (sum((v - mean) ** 2 for v in row) / COLS + eps).sqrt()
    y += [float((v - mean) / deviation * D(w) + D(b)) for v, w, b in zip(row, weight, bias)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python decimal, 60 digits",
    "dims": {"rows": ROWS, "cols": COLS},
    "inputs": {"x": [bits(">f", v) for v in x], "weight": [bits(">f", v) for v in weight],
               "bias": [bits(">f", v) for v in bias]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
