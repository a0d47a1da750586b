# SPDX-License-Identifier: Apache-2.0
"""Validates rendered JSON reports against the shipped schema.

usage: render_schema_test.py RENDER_SAMPLES SCHEMA
Exits 77 (skipped) where the jsonschema package, or one that knows draft 2020-12, is missing.
"""

import copy
import json
import subprocess
import sys

SKIPPED = 77


def broken_copies(report):
    """Reports with one fault each; a schema that accepts one of them checks nothing."""
    without_verdict = copy.deepcopy(report)
    del without_verdict["verdict"]
    unknown_status = copy.deepcopy(report)
    unknown_status["verdict"]["status"] = "fine"
    extra_key = copy.deepcopy(report)
    extra_key["coverage"]["compared"] = -1
    bare_nan = copy.deepcopy(report)
    bare_nan["first_divergence"]["severity"] = "NaN"
    wrong_bits = copy.deepcopy(report)
    wrong_bits["first_divergence"]["outputs"][0]["digest"]["baseline"] = "12"
    return [without_verdict, unknown_status, extra_key, bare_nan, wrong_bits]


def members(schema, part, value, found):
    """By definition of an object the members that the schema names and those that are written."""
    while "$ref" in part:
        target = schema
        for name in part["$ref"].split("/")[1:]:
            target = target[name]
        part = {**target, **{key: more for key, more in part.items() if key != "$ref"}}
    for other in part.get("anyOf", []):
        members(schema, other, value, found)
    if isinstance(value, list) and isinstance(part.get("items"), dict):
        for item in value:
            members(schema, part["items"], item, found)
    if not isinstance(value, dict) or not ("properties" in part or "required" in part):
        return
    named = frozenset(part.get("properties", {})) | frozenset(part.get("required", []))
    found.setdefault(named, set()).update(value)
    for name, below in part.get("properties", {}).items():
        if name in value:
            members(schema, below, value[name], found)


def main():
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        print("jsonschema is not installed: skipped")
        return SKIPPED
    program, schema_path = sys.argv[1:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    output = subprocess.run([program], check=True, capture_output=True).stdout.decode("utf-8")
    reports = [json.loads(line) for line in output.splitlines()]
    failures = 0
    for number, report in enumerate(reports):
        for error in validator.iter_errors(report):
            failures += 1
            print(f"report {number}: /{'/'.join(map(str, error.path))}: {error.message[:200]}")
    found = {}
    for report in reports:
        members(schema, schema["$defs"]["report"], report, found)
    for named, written in found.items():
        if named != written:
            failures += 1
            print(f"in {sorted(named)[:6]} ...: not in the schema {sorted(written - named)}, "
                  f"nowhere written {sorted(named - written)}")
    with_output = next(r for r in reports if r["first_divergence"])
    for number, broken in enumerate(broken_copies(with_output)):
        if validator.is_valid(broken):
            failures += 1
            print(f"broken copy {number} was accepted")
    print(f"{len(reports)} reports, {failures} failures")
    return 1 if failures or len(reports) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
