"""Makes golden.json with the definition itself. Run: python3 golden.py > golden.json"""
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


TOKENS, VOCAB, WIDTH = 5, 10, 6
id_ = [(i * 7 + 2) % VOCAB for i in range(TOKENS)]
table = rounded(">f", [((i * 37) % 23 - 11) / 7.0 for i in range(VOCAB * WIDTH)])
y = [v for i in id_ for v in table[i * WIDTH:(i + 1) * WIDTH]]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: the definition itself",
    "dims": {"tokens": TOKENS, "vocab": VOCAB, "width": WIDTH},
    "inputs": {"id": [bits(">i", v) for v in id_], "table": [bits(">f", v) for v in table]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
