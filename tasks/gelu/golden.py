"""Makes golden.json with Taylor series in exact decimal arithmetic. Run: python3 golden.py > golden.json"""
import decimal
import json
import struct

decimal.getcontext().prec = 80
PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def erf(z):
    """The alternating series of erf; 80 digits are enough for |z| <= 5."""
    term, total, k = z, z, 0
    while abs(term) > decimal.Decimal(10) ** -75:
        k += 1
        term *= -z * z / k
        total += term / (2 * k + 1)
    return 2 * total / PI.sqrt()


def gelu(value):
    x = decimal.Decimal(value)
    return float(x / 2 * (1 + erf(x / decimal.Decimal(2).sqrt())))


def bits(form, value):
    return struct.pack(form, value).hex()


x = [struct.unpack(">f", struct.pack(">f", (i - 24) / 4.1))[0] for i in range(48)]
print(json.dumps({
    "golden": 1,
    "made_by": "golden.py: Python decimal, 80 digits",
    "dims": {"n": 48},
    "inputs": {"x": [bits(">f", v) for v in x]},
    "outputs": {"y": [bits(">d", gelu(v)) for v in x]},
}, indent=1))
