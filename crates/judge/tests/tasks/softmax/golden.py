"""Makes golden.json with decimal arithmetic of 50 digits. Run: python3 golden.py > golden.json"""
import decimal
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


decimal.getcontext().prec = 50
ROWS, COLS = 4, 9
x = rounded(">f", [((7 * i * i + 3 * i + 1) % 41 - 20) / 8.0 for i in range(ROWS * COLS)])
y = []
for r in range(ROWS):
    row = [decimal.Decimal(v) for v in x[r * COLS:(r + 1) * COLS]]
    powers = [(v - max(row)).exp() for v in row]
    y += [float(p / sum(powers)) for p in powers]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: decimal arithmetic of 50 digits",
    "dims": {"rows": ROWS, "cols": COLS},
    "inputs": {"x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
