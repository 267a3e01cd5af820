"""Makes golden.json with the definition itself. Run: python3 golden.py > golden.json"""
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


N = 40
x = rounded(">f", [((i * 37) % 23 - 11) / 7.0 for i in range(N)])
y = [max(v, 0.0) for v in x]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: the definition itself",
    "dims": {"n": N},
    "inputs": {"x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
