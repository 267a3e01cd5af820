"""Makes golden.json with the definition itself. Run: python3 golden.py > golden.json"""
import json
import struct


def bits(form, value):
    return struct.pack(form, value).hex()


def rounded(form, values):
    return [struct.unpack(form, struct.pack(form, v))[0] for v in values]


BLOCKS = 2
VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
q = [(i * 73 + 41) % 256 for i in range(16 * BLOCKS)]
scale = rounded(">f", [1.3, -0.7])
codes = [code for byte in q for code in (byte & 15, byte >> 4)]
y = [(-VALUES[c & 7] if c & 8 else VALUES[c & 7]) * scale[i // 32] for i, c in enumerate(codes)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: the definition itself",
    "dims": {"blocks": BLOCKS},
    "inputs": {"q": [bits(">B", v) for v in q], "scale": [bits(">f", v) for v in scale]},
    "outputs": {"y": [bits(">d", v) for v in y]},
}, indent=1))
