"""Makes golden.json with exact rational arithmetic. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


N, K = 7, 9
F = fractions.Fraction
w = rounded(">f", [((i * 29) % 17 - 8) / 3.0 for i in range(K * N)][:63])
x = rounded(">f", [((i * 31) % 13 - 6) / 7.0 * 2.0 ** (i % 3) for i in range(K)])
y = [float(sum(F(x[j]) * F(w[j * N + c]) for j in range(K))) for c in range(N)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: exact rational arithmetic",
    "dims": {"n": N, "k": K},
    "inputs": {"w": [bits(">f", v) for v in w], "x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
