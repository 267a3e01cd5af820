"""Makes golden.json with exact rational arithmetic. Run: python3 golden.py > golden.json"""
import fractions
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


TOKENS, EXPERTS = 40, 6
expert = [(i * i + 3 * i) % EXPERTS for i in range(TOKENS)]
x = rounded(">f", [((i * 67) % 31 - 15) / 3.0 * 2.0 ** (i % 7) for i in range(TOKENS)])
sent = [[v for e, v in zip(expert, x) if e == wanted] for wanted in range(EXPERTS)]
y = [float(sum(map(fractions.Fraction, values))) for values in sent]
count = [len(values) for values in sent]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: exact rational arithmetic",
    "dims": {"tokens": TOKENS, "experts": EXPERTS},
    "inputs": {"expert": [bits(">i", v) for v in expert], "x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", v) for v in y], "count": [bits(">q", v) for v in count]},
}, indent=1))
