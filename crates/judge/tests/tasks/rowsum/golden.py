"""Makes golden.json with exact rational arithmetic. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


ROWS, COLS = 5, 12
x = rounded(">f", [((i * 67) % 31 - 15) / 3.0 * 2.0 ** (i % 7) for i in range(ROWS * COLS)])
y = [float(sum(map(fractions.Fraction, x[r * COLS:(r + 1) * COLS]))) for r in range(ROWS)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: exact rational arithmetic",
    "dims": {"rows": ROWS, "cols": COLS},
    "inputs": {"x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
