#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes metrics_special.json: what make_metrics_expected.py leaves out, computed as exactly.

Numbers at the ends of float64, one by one, since their squares leave the range of a double; complex
numbers with parts that are no numbers; what a policy lets pass, of every dtype.

    python3 make_metrics_special.py > metrics_special.json
"""
import json
import math
import random
from fractions import Fraction

from make_metrics_expected import (
    COMPLEX, FLOATS, INTEGERS, complex_case, decode, finish, hex_codes, integer_case, is_unsigned,
    limits, modulus, order, random_code, real_case, special_codes, to_float, ulp_histogram)

DEFAULTS = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5),
            "bfloat16": (1.6e-2, 1e-5)}
GREATEST = limits("float64")[1]


def extremes_of_float64():
    """Every pair of special numbers in a tensor beside two ordinary pairs."""
    one, two = 0x3FF0000000000000, 0x4000000000000000
    top = 1 << 63
    edge = 0x7FF << 52
    codes = (0, top, 1, (1 << 52) - 1, 1 << 52, top | 1 << 52, one, top | one, edge - (1 << 52),
             edge - 1, top | edge - 1)
    for b_code in codes:
        for c_code in codes:
            difference = abs(decode("float64", c_code)[1] - decode("float64", b_code)[1])
            if difference > GREATEST:
                continue  # the difference is defined as a double: an infinity, another test's
            b, c = [b_code, one, two], [c_code, one, two + 1]
            expected = real_case("float64", b, c)
            yield {"dtype": "float64", "baseline": hex_codes(b, 64), "candidate": hex_codes(c, 64),
                   "expected": expected}


def part_codes(name):
    """Special values whose squares a double can tell apart."""
    codes = special_codes(name)
    if name != "float64":
        return codes
    return [code for code in codes
            if decode(name, code)[0] != "finite" or decode(name, code)[1] == 0
            ] + [0x3FF0000000000000, 0xBFF0000000000001, 0x4008000000000000]


def class_of(parts):
    kinds = {kind for kind, _ in parts}
    return "nan" if "nan" in kinds else "inf" if "inf" in kinds else "finite"


def special_complex_case(name, b_codes, c_codes):
    part = COMPLEX[name]
    counts = dict.fromkeys(("nan_both_same", "nan_both_payload", "nan_baseline", "nan_candidate",
                            "inf_sign", "inf_baseline", "inf_candidate", "zero_sign_only"), 0)
    pairs, ulps, sums, special_equal, special_bad = [], [], [], 0, 0
    for index, (b_pair, c_pair) in enumerate(zip(b_codes, c_codes)):
        b = [decode(part, code) for code in b_pair]
        c = [decode(part, code) for code in c_pair]
        classes = class_of(b), class_of(c)
        if classes == ("finite", "finite"):
            (_, br), (_, bi), (_, cr), (_, ci) = *b, *c
            pairs.append((index, modulus(cr - br, ci - bi), modulus(br, bi),
                          (cr - br) ** 2 + (ci - bi) ** 2, br * br + bi * bi, cr * cr + ci * ci,
                          br * cr + bi * ci))
            both = [abs(order(part, y) - order(part, x)) for x, y in zip(b_pair, c_pair)]
            ulps += both
            if (br, bi) == (cr, ci):
                counts["zero_sign_only"] += b_pair != c_pair
            else:
                sums.append(sum(both))
            continue
        same = b_pair == c_pair
        if classes == ("nan", "nan"):
            counts["nan_both_same" if same else "nan_both_payload"] += 1
        elif classes[0] == "nan":
            counts["nan_baseline"] += 1
        elif classes[1] == "nan":
            counts["nan_candidate"] += 1
        elif classes == ("inf", "inf"):
            # Equal where both parts are, whatever the sign of a zero beside the infinity.
            same = b == c
            counts["inf_sign"] += not same
            counts["zero_sign_only"] += same and b_pair != c_pair
        else:
            counts["inf_baseline" if classes[0] == "inf" else "inf_candidate"] += 1
        special_equal += same
        special_bad += not same and classes != ("nan", "nan")
    out = {"n_diff": sum(b != c for b, c in zip(b_codes, c_codes)), **counts}
    finish(out, pairs, len(b_codes), special_equal, special_bad)
    out["ulp_hist"] = ulp_histogram(ulps, 2 * (len(b_codes) - len(pairs)))
    out["ulp_max"] = max(ulps) if ulps else None
    out["ulp_mean"] = to_float(Fraction(sum(sums), len(sums))) if sums else None
    return out


def complex_specials(rng):
    for name, part in COMPLEX.items():
        bits = FLOATS[part][0]
        codes = part_codes(part)
        for count in (2, 60):
            b = [(rng.choice(codes), rng.choice(codes)) for _ in range(count)]
            c = [v if rng.random() < 0.3 else
                 (v[0], rng.choice(codes)) if rng.random() < 0.5 else
                 (rng.choice(codes), rng.choice(codes)) for v in b]
            yield {"dtype": name, "baseline": [hex_codes(v, bits) for v in b],
                   "candidate": [hex_codes(v, bits) for v in c],
                   "expected": special_complex_case(name, b, c)}


def as_double(name, code):
    kind, value = decode(name, code)
    return math.nan if kind == "nan" else math.inf * value if kind == "inf" else float(value)


def passes(name, b_code, c_code, policy):
    """Of one pair, in doubles, as the policy is defined."""
    b, c = as_double(name, b_code), as_double(name, c_code)
    if math.isnan(b) and math.isnan(c):
        return policy["equal_nan"] == "any" or policy["equal_nan"] == "bits" and b_code == c_code
    if not (math.isfinite(b) and math.isfinite(c)):
        return b == c
    if b == c:
        return b_code == c_code or not policy["signed_zero_distinct"]
    if "ulp" in policy:
        return abs(order(name, c_code) - order(name, b_code)) <= policy["ulp"]
    return abs(c - b) <= policy["atol"] + policy["rtol"] * abs(b)


def verdict(policy, failing):
    return {**policy, "n_beyond": len(failing), "first_beyond": failing[0] if failing else None}


def judged(rng):
    """Every special value against every other, and random ones near each other."""
    for name, (bits, *_rest) in FLOATS.items():
        rtol, atol = DEFAULTS.get(name, (0.0, 0.0))
        policies = [{"rtol": rtol, "atol": atol, "equal_nan": "any", "signed_zero_distinct": False},
                    {"rtol": 0.125, "atol": 0.0, "equal_nan": "bits", "signed_zero_distinct": True},
                    {"ulp": 1, "equal_nan": "never", "signed_zero_distinct": False},
                    {"ulp": 4, "equal_nan": "any", "signed_zero_distinct": True}]
        codes = special_codes(name)
        b = [x for x in codes for _ in codes] + [random_code(rng, name) for _ in range(60)]
        c = [y for _ in codes for y in codes] + [
            (x + rng.randint(0, 6)) & ((1 << bits) - 1) for x in b[len(codes) ** 2:]]
        verdicts = []
        for policy in policies:
            failing = [i for i, (x, y) in enumerate(zip(b, c)) if not passes(name, x, y, policy)]
            verdicts.append(verdict(policy, failing))
        yield {"dtype": name, "baseline": hex_codes(b, bits), "candidate": hex_codes(c, bits),
               "judged": verdicts, "expected": {}}


def judged_integers(rng):
    for name, bits in {**INTEGERS, "qint32": 32}.items():
        low = 0 if is_unsigned(name) else -(1 << bits - 1)
        high = low + (1 << bits) - 1
        b = [low, high, 0, low, high, 100] + [rng.randint(low, high) for _ in range(12)]
        c = [high, low, 1, low + 1, high - 1, 101] + [
            min(high, max(low, x + rng.randint(-2, 2))) for x in b[6:]]
        failing = [i for i, (x, y) in enumerate(zip(b, c)) if abs(y - x) > 1]
        INTEGERS.setdefault(name, bits)
        expected = integer_case(name, b, c)
        policy = {"rtol": 0.0, "atol": 1.0, "equal_nan": "any", "signed_zero_distinct": False}
        yield {"dtype": name, "baseline": hex_codes(b, bits), "candidate": hex_codes(c, bits),
               "judged": [verdict(policy, failing)], "expected": expected}


def wide_complex(rng):
    """Parts of every size that a float32 has."""
    def code():
        while True:
            value = rng.getrandbits(32)
            if decode("float32", value)[0] == "finite":
                return value
    b = [(code(), code()) for _ in range(24)]
    c = [v if rng.random() < 0.3 else (code(), v[1]) for v in b]
    yield {"dtype": "complex64", "baseline": [hex_codes(v, 32) for v in b],
           "candidate": [hex_codes(v, 32) for v in c], "expected": complex_case("complex64", b, c)}


def spelled(value):
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    return "inf" if value == math.inf else value


def main():
    rng = random.Random(20260105)
    cases = [*extremes_of_float64(), *complex_specials(rng), *wide_complex(rng), *judged(rng),
             *judged_integers(rng)]
    print("[")
    print(",\n".join(json.dumps({**case, "expected": spelled(case["expected"])}) for case in cases))
    print("]")


if __name__ == "__main__":
    main()
