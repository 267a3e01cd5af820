"""Makes golden.json with exact rational arithmetic. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


M, N, K = 5, 4, 7
F = fractions.Fraction
a = rounded(">e", [((i * 29) % 17 - 8) / 3.0 for i in range(M * K)])
b = rounded(">e", [((i * 31) % 13 - 6) / 7.0 * 2.0 ** (i % 3) for i in range(K * N)])
c = [float(sum(F(a[i * K + j]) * F(b[j * N + l]) for j in range(K))) for i in range(M) for l in range(N)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: exact rational arithmetic",
    "dims": {"m": M, "n": N, "k": K},
    "inputs": {"a": [bits(">e", v) for v in a], "b": [bits(">e", v) for v in b]},
    "outputs": {"c": [bits(">d", v) for v in c]},
}, indent=1))
