"""Makes golden.json with exact rational arithmetic. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


N = 40
x = rounded(">f", [((i * 37) % 23 - 11) / 7.0 for i in range(N)])
w = rounded(">f", [((i * 53) % 29 - 14) / 3.0 for i in range(N)])
y = [float(fractions.Fraction(max(p, 0.0)) * fractions.Fraction(q)) for p, q in zip(x, w)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: exact rational arithmetic",
    "dims": {"n": N},
    "inputs": {"x": [bits(">f", v) for v in x], "w": [bits(">f", v) for v in w]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
