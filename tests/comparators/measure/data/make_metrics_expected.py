#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes metrics_expected.json: random tensors and their metrics, computed exactly.

Every number is a rational until the last step, so nothing here shares an error with the code it
checks: no lanes, no leaves, no floating-point sums. Run it again after a change of the definitions:

    python3 make_metrics_expected.py > metrics_expected.json
"""
import json
import math
import random
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 60

# name: (bits, exponent bits, mantissa bits, bias, kind)
FLOATS = {
    "float64": (64, 11, 52, 1023, "ieee"),
    "float32": (32, 8, 23, 127, "ieee"),
    "float16": (16, 5, 10, 15, "ieee"),
    "bfloat16": (16, 8, 7, 127, "ieee"),
    "float8_e5m2": (8, 5, 2, 15, "ieee"),
    "float8_e4m3fn": (8, 4, 3, 7, "fn"),
    "float8_e4m3fnuz": (8, 4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": (8, 5, 2, 16, "fnuz"),
    "float8_e8m0fnu": (8, 8, 0, 127, "e8m0"),
}
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64,
            "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "qint8": 8, "quint8": 8}
COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def decode(name, code):
    """(class, value): 'nan', 'inf' (value is the sign) or 'finite'."""
    bits, exponent_bits, mantissa_bits, bias, kind = FLOATS[name]
    if kind == "e8m0":
        return ("nan", None) if code == 0xFF else ("finite", Fraction(2) ** (code - bias))
    sign = -1 if code >> (bits - 1) else 1
    magnitude = code & ((1 << (bits - 1)) - 1)
    exponent = magnitude >> mantissa_bits
    mantissa = magnitude & ((1 << mantissa_bits) - 1)
    if kind == "fnuz" and sign < 0 and magnitude == 0:
        return "nan", None
    if kind == "fn" and magnitude == 0x7F:
        return "nan", None
    if kind == "ieee" and exponent == (1 << exponent_bits) - 1:
        return ("inf", sign) if mantissa == 0 else ("nan", None)
    significand = mantissa if exponent == 0 else mantissa + (1 << mantissa_bits)
    power = max(exponent, 1) - bias - mantissa_bits
    return "finite", sign * Fraction(significand) * Fraction(2) ** power


def order(name, code):
    bits = FLOATS[name][0]
    if FLOATS[name][4] == "e8m0":
        return code
    magnitude = code & ((1 << (bits - 1)) - 1)
    return -magnitude if code >> (bits - 1) else magnitude


def limits(name):
    """Least normal number (0 where nothing is below it) and greatest finite one."""
    bits, _, mantissa_bits, bias, kind = FLOATS[name]
    codes = range(1 << bits) if bits == 8 else ((1 << (bits - 1)) - (1 << mantissa_bits) - 1,)
    values = [value for kind_of, value in (decode(name, code) for code in codes) if kind_of == "finite"]
    return (0 if kind == "e8m0" else Fraction(2) ** (1 - bias)), max(values)


ULP_BUCKETS = (0, 1, 2, 4, 8, 16, 64, 256, 1024, 65536)


def ulp_histogram(ulps, incomparable):
    histogram = [0] * 12
    for ulp in ulps:
        histogram[next((i for i, most in enumerate(ULP_BUCKETS) if ulp <= most), 10)] += 1
    histogram[11] = incomparable
    return histogram


def floor_log2(value):
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def rel_histogram(pairs):
    """[no difference, zero baseline, {exponent: count}]. The difference and the quotient are defined as
    doubles: 1 - 2^-100 is in the bucket of 1."""
    exponents = {}
    zero = sum(d == 0 for _, d, *_ in pairs)
    infinite = sum(d != 0 and b == 0 for _, d, b, *_ in pairs)
    for _, d, b, *_ in pairs:
        if d != 0 and b != 0:
            quotient = to_float(d) / to_float(b)
            exponent = str(8 if quotient == math.inf else
                           min(8, max(-64, floor_log2(Fraction(quotient)) if quotient else -64)))
            exponents[exponent] = exponents.get(exponent, 0) + 1
    return [zero, infinite, exponents]


def edges(name, values):
    """Counts over (class, value) pairs of reals."""
    least, most = limits(name)
    out = {"flips": 0, "flushed": 0, "saturated": 0, "zeros_both": 0}
    for (b_class, b), (c_class, c) in values:
        if b_class != "finite":
            continue
        out["saturated"] += abs(b) < most and (c_class == "inf" or c_class == "finite" and abs(c) == most)
        if c_class != "finite":
            continue
        out["flips"] += b * c < 0
        out["flushed"] += (b == 0) != (c == 0) and abs(b) + abs(c) < least
        out["zeros_both"] += b == 0 == c
    return out


def root(value):
    return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def to_float(value):
    return float(Decimal(value.numerator) / Decimal(value.denominator))


def finish(out, pairs, n, special_equal, special_bad):
    """pairs: (index, |d|, |b|, d^2, b^2, c^2, bc), all rational; |d| and |b| may be Decimal roots."""
    out["n_finite"] = len(pairs)
    within = {}
    for share in ("1e-3", "5e-3"):
        limit = Fraction(float(share))
        inside = sum(1 for _, d, b, *_ in pairs if d == 0 or (b != 0 and d / b < limit))
        within[share] = (inside + special_equal) / n if n else None
    out["within_1e3"], out["within_5e3"] = within["1e-3"], within["5e-3"]
    if not pairs:
        for name in ("max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "l2_rel", "cosine",
                     "norm_ratio"):
            out[name] = None
        return
    largest = max(d for _, d, *_ in pairs)
    out["max_abs"] = to_float(largest)
    out["max_abs_index"] = None if largest == 0 else next(i for i, d, *_ in pairs if d == largest)
    out["mean_abs"] = to_float(sum(d for _, d, *_ in pairs) / len(pairs))
    based = [(i, d / b) for i, d, b, *_ in pairs if b != 0]
    zero_base = [i for i, d, b, *_ in pairs if b == 0 and d != 0]
    out["zero_baseline"] = len(zero_base)
    out["max_rel_finite"] = to_float(max(r for _, r in based)) if based else None
    out["max_rel"] = "inf" if zero_base else (out["max_rel_finite"] if based else 0.0)
    out["mean_rel"] = to_float(sum(r for _, r in based) / len(based)) if based else None
    d2 = sum(p[3] for p in pairs)
    b2 = sum(p[4] for p in pairs)
    c2 = sum(p[5] for p in pairs)
    bc = sum(p[6] for p in pairs)
    out["nmse"] = to_float(d2 / b2) if b2 else (0.0 if d2 == 0 else "inf")
    out["rel_hist"] = rel_histogram(pairs)
    out["rmse"] = root(d2 / len(pairs))
    out["l2_rel"] = root(d2 / b2) if b2 else (0.0 if d2 == 0 else "inf")
    out["norm_ratio"] = root(c2 / b2) if b2 else (1.0 if c2 == 0 else "inf")
    if b2 and c2:
        product = Decimal(bc.numerator) / Decimal(bc.denominator)
        squares = b2 * c2
        size = (Decimal(squares.numerator) / Decimal(squares.denominator)).sqrt()
        out["cosine"] = float(product / size)
    else:
        out["cosine"] = 1.0 if b2 == c2 else 0.0
    out["needs_infinite"] = bool(special_bad or zero_base)


def real_case(name, b_codes, c_codes):
    out = {"n_diff": sum(b != c for b, c in zip(b_codes, c_codes))}
    counts = dict.fromkeys(("nan_both_same", "nan_both_payload", "nan_baseline", "nan_candidate",
                            "inf_sign", "inf_baseline", "inf_candidate", "zero_sign_only"), 0)
    pairs, ulps, special_equal, special_bad = [], [], 0, 0
    for index, (b_code, c_code) in enumerate(zip(b_codes, c_codes)):
        (b_class, b), (c_class, c) = decode(name, b_code), decode(name, c_code)
        if b_class == c_class == "finite":
            pairs.append((index, abs(c - b), abs(b), (c - b) ** 2, b * b, c * c, b * c))
            ulps.append(abs(order(name, c_code) - order(name, b_code)))
            counts["zero_sign_only"] += b == c and b_code != c_code
            continue
        if b_class == c_class == "nan":
            counts["nan_both_same" if b_code == c_code else "nan_both_payload"] += 1
        elif b_class == "nan":
            counts["nan_baseline"] += 1
        elif c_class == "nan":
            counts["nan_candidate"] += 1
        elif b_class == c_class:
            counts["inf_sign"] += b != c
        else:
            counts["inf_baseline" if b_class == "inf" else "inf_candidate"] += 1
        special_equal += b_code == c_code
        special_bad += not (b_class == c_class and (b_class == "nan" or b == c))
    out.update(counts)
    finish(out, pairs, len(b_codes), special_equal, special_bad)
    out.update(edges(name, [(decode(name, b), decode(name, c)) for b, c in zip(b_codes, c_codes)]))
    out["ulp_hist"] = ulp_histogram(ulps, len(b_codes) - len(pairs))
    out["ulp_max"] = max(ulps) if ulps else None
    differing = [u for u in ulps if u]
    out["ulp_mean"] = to_float(Fraction(sum(differing), len(differing))) if differing else None
    return out


def is_unsigned(name):
    return name.startswith("u") or name == "quint8"


def bool_case(b_values, c_values):
    count = len(b_values)
    unequal = sum(b != c for b, c in zip(b_values, c_values))
    return {"n_diff": unequal, "false_to_true": sum(c > b for b, c in zip(b_values, c_values)),
            "true_to_false": sum(c < b for b, c in zip(b_values, c_values)),
            "zeros_both": sum(b == 0 == c for b, c in zip(b_values, c_values)),
            "mean_abs": unequal / count, "max_abs": float(unequal > 0), "cosine": None, "max_rel": None}


def integer_case(name, b_values, c_values):
    out = {"n_diff": sum(b != c for b, c in zip(b_values, c_values))}
    pairs = [(i, Fraction(abs(c - b)), Fraction(abs(b)), Fraction((c - b) ** 2), Fraction(b * b),
              Fraction(c * c), Fraction(b * c))
             for i, (b, c) in enumerate(zip(b_values, c_values))]
    finish(out, pairs, len(b_values), 0, 0)
    out["max_abs_exact"] = max(abs(c - b) for b, c in zip(b_values, c_values))
    # Rounded once, so to the last digit.
    out["mean_exact"] = float(sum(Fraction(abs(c - b)) for b, c in zip(b_values, c_values)) / len(b_values))
    bits = INTEGERS[name]
    ends = {0: (1 << bits) - 1} if is_unsigned(name) else {
        0: (1 << bits - 1) - 1, 1: -(1 << bits - 1)}
    ends = set(ends.values())
    out["saturated"] = sum(c in ends and b not in ends for b, c in zip(b_values, c_values))
    out["flips"] = sum(b * c < 0 for b, c in zip(b_values, c_values))
    out["zeros_both"] = sum(b == 0 == c for b, c in zip(b_values, c_values))
    return out


def modulus(re, im):
    square = re * re + im * im
    value = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
    return Fraction(value)


def complex_case(name, b_codes, c_codes):
    part = COMPLEX[name]
    out = {"n_diff": sum(b != c for b, c in zip(b_codes, c_codes))}
    pairs = []
    for index, (b_pair, c_pair) in enumerate(zip(b_codes, c_codes)):
        br, bi = (decode(part, code)[1] for code in b_pair)
        cr, ci = (decode(part, code)[1] for code in c_pair)
        pairs.append((index, modulus(cr - br, ci - bi), modulus(br, bi),
                      (cr - br) ** 2 + (ci - bi) ** 2, br * br + bi * bi, cr * cr + ci * ci,
                      br * cr + bi * ci))
    finish(out, pairs, len(b_codes), 0, 0)
    return out


def special_codes(name):
    """Zeros, the ends of the subnormal and of the normal numbers, infinities and NaNs, both signs."""
    bits, exponent_bits, mantissa_bits, *_ = FLOATS[name]
    top = 1 << (bits - 1)
    edge = ((1 << exponent_bits) - 1) << mantissa_bits
    low = 1 << mantissa_bits
    codes = (0, 1, low - 1, low, low + 1, edge - 1, edge, edge + 1, top - 1)
    return sorted({code & (2 * top - 1) for pair in codes for code in (pair, pair | top)})


def special_case(name):
    """Every special value against every other."""
    codes = special_codes(name)
    if FLOATS[name][0] == 64:  # squares that leave the range of double are another test's
        codes = [code for code in codes if decode(name, code)[0] != "finite" or decode(name, code)[1] == 0]
    return [b for b in codes for _ in codes], [c for _ in codes for c in codes]


def random_code(rng, name):
    bits, exponent_bits, mantissa_bits, bias, _ = FLOATS[name]
    if rng.random() < 0.1 or bits == 8:
        return rng.getrandbits(bits)  # any pattern, NaN, Inf and subnormal ones included
    # Exponents near 1, so that sums mix large and small terms without drowning either.
    exponent = min(max(bias + rng.randint(-6, 6), 0), (1 << exponent_bits) - 2)
    return (rng.getrandbits(1) << (bits - 1)) | (exponent << mantissa_bits) | rng.getrandbits(
        mantissa_bits)


def tame(rng, name):
    """A finite code whose square stays in the range of a double."""
    while True:
        code = random_code(rng, name)
        kind, value = decode(name, code)
        if kind == "finite" and (value == 0 or Fraction(2) ** -400 < abs(value) < Fraction(2) ** 400):
            return code


def mutate(rng, name, code):
    chance = rng.random()
    if chance < 0.5:
        return code
    if chance < 0.8:
        return code ^ (1 << rng.randrange(max(1, min(4, FLOATS[name][2]))))
    return None


def make_real(rng, name, count):
    wide = FLOATS[name][0] == 64
    pick = (lambda: tame(rng, name)) if wide else (lambda: random_code(rng, name))
    b_codes = [pick() for _ in range(count)]
    c_codes = [pick() if code is None else code
               for code in (mutate(rng, name, b) for b in b_codes)]
    if wide:  # one NaN and one Inf, since random patterns were refused above
        b_codes[:2], c_codes[:2] = [0x7FF8000000000000, 1 << 52], [0x7FF8000000000001, 1 << 53]
        b_codes[0] = c_codes[0] if rng.random() < 0.5 else b_codes[0]
        b_codes[1], c_codes[1] = 0x3FF0000000000000, 0x7FF0000000000000
    return b_codes, c_codes


def hex_codes(codes, bits):
    return [format(code & ((1 << bits) - 1), f"0{bits // 4}x") for code in codes]


def main():
    rng = random.Random(20260102)
    cases = []
    for name, (bits, *_rest) in FLOATS.items():
        for count in (3, 8, 21):
            b, c = make_real(rng, name, count)
            cases.append({"dtype": name, "baseline": hex_codes(b, bits),
                          "candidate": hex_codes(c, bits), "expected": real_case(name, b, c)})
        b, c = special_case(name)
        cases.append({"dtype": name, "baseline": hex_codes(b, bits), "candidate": hex_codes(c, bits),
                      "expected": real_case(name, b, c)})
    for count in (1, 30):
        b, c = ([rng.getrandbits(1) for _ in range(count)] for _ in range(2))
        cases.append({"dtype": "bool", "baseline": hex_codes(b, 8), "candidate": hex_codes(c, 8),
                      "expected": bool_case(b, c)})
    for name, bits in INTEGERS.items():
        signed = not is_unsigned(name)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        for count in (2, 19):
            b = [rng.choice((low, high, 0, rng.randint(low, high))) for _ in range(count)]
            c = [v if rng.random() < 0.4 else rng.randint(low, high) for v in b]
            cases.append({"dtype": name, "baseline": hex_codes(b, bits),
                          "candidate": hex_codes(c, bits), "expected": integer_case(name, b, c)})
    for name, part in COMPLEX.items():
        bits = FLOATS[part][0]
        for count in (1, 11):
            b = [(tame(rng, part), tame(rng, part)) for _ in range(count)]
            c = [v if rng.random() < 0.4 else (v[0], tame(rng, part)) for v in b]
            cases.append({"dtype": name, "baseline": [hex_codes(v, bits) for v in b],
                          "candidate": [hex_codes(v, bits) for v in c],
                          "expected": complex_case(name, b, c)})
    print("[")
    print(",\n".join(json.dumps(case) for case in cases))
    print("]")


if __name__ == "__main__":
    main()
