"""Makes golden.json with exact rational sums. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


N = 24
a = [struct.unpack(">f", struct.pack(">f", ((i * 37) % 23 - 11) / 7.0))[0] for i in range(N)]
b = [struct.unpack(">f", struct.pack(">f", ((i * 53) % 29 - 14) / 3.0 * 2.0 ** (i % 5)))[0] for i in range(N)]
y = [float(fractions.Fraction(p) + fractions.Fraction(q)) for p, q in zip(a, b)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python fractions, exact",
    "dims": {"n": N},
    "inputs": {"a": [bits(">f", v) for v in a], "b": [bits(">f", v) for v in b]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
