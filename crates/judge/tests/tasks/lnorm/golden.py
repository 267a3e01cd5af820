"""Makes golden.json with decimal arithmetic of 50 digits. Run: python3 golden.py > golden.json"""
import decimal
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


decimal.getcontext().prec = 50
D = decimal.Decimal
ROWS, COLS = 4, 9
x = rounded(">f", [((7 * i * i + 3 * i + 1) % 41 - 20) / 8.0 for i in range(ROWS * COLS)])
w = rounded(">f", [1.0 + ((5 * i) % 7 - 3) / 10.0 for i in range(COLS)])
b = rounded(">f", [((3 * i) % 11 - 5) / 9.0 for i in range(COLS)])
y = []
for r in range(ROWS):
    row = [D(v) for v in x[r * COLS:(r + 1) * COLS]]
    mean = sum(row) / COLS
    deviation = (sum((v - mean) ** 2 for v in row) / COLS + D(1e-5)).sqrt()
    y += [float((v - mean) / deviation * D(w[c]) + D(b[c])) for c, v in enumerate(row)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: decimal arithmetic of 50 digits",
    "dims": {"rows": ROWS, "cols": COLS},
    "inputs": {"x": [bits(">f", v) for v in x], "w": [bits(">f", v) for v in w], "b": [bits(">f", v) for v in b]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
