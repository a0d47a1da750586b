#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the JSON Schema against the example, the presets and the table that the parser's own test
runs: `schema_validation.py ROOT`. Exit 77 (skipped) where the package jsonschema is missing."""
import copy
import json
import re
import sys
from pathlib import Path

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("the package jsonschema is not installed")
    sys.exit(77)


def put(document, pointer: str, value) -> bool:
    """Sets `value` as `--set` does; False where that is no place."""
    if not pointer.startswith("/") or re.search("~(?![01])", pointer):
        return False
    tokens = [t.replace("~1", "/").replace("~0", "~") for t in pointer[1:].split("/")]
    for token in tokens[:-1]:
        if isinstance(document, dict):
            document = document.setdefault(token, {})
        elif isinstance(document, list) and token.isdigit() and int(token) < len(document):
            document = document[int(token)]
        else:
            return False
    if not isinstance(document, dict):
        return False
    document[tokens[-1]] = value
    return True


def merge(below, above):
    """`below` where `above` has nothing, key by key."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = {key: copy.deepcopy(value) for key, value in below.items() if key not in above}
    return {**merged, **{key: merge(below.get(key), value) for key, value in above.items()}}


def document_of(table, entry):
    document = copy.deepcopy(entry.get("document", table["base"]))
    for pointer, value in entry.get("set", {}).items():
        if not put(document, pointer, value):
            return None
    return document


def check_table(accepts, table) -> list:
    wrong = []
    for entry in table["good"]:
        if not accepts(document_of(table, entry)):
            wrong.append(f"refused: {entry['name']}")
    for entry in table["bad"]:
        document = document_of(table, entry)
        # What the file system, the order of two numbers or `--set` decide, no schema can tell.
        expected = entry["schema"] == "cannot tell"
        if document is not None and accepts(document) != expected:
            wrong.append(f"{'refused' if expected else 'accepted'}: {entry['name']}")
    return wrong


def main(root: Path) -> int:
    schema = json.loads((root / "configs" / "repro-check-config.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    accepts = Draft202012Validator(schema).is_valid
    fixtures = root / "tests" / "fixtures" / "configs"
    table = json.loads((fixtures / "cases.json").read_text())
    wrong = check_table(accepts, table)
    files = [root / "config.example.json", *sorted((fixtures / "good").glob("*.json"))]
    documents = [(file.name, json.loads(file.read_text())) for file in files]
    presets = sorted((root / "configs" / "presets").glob("*.json"))
    for file in presets:
        preset = json.loads(file.read_text())
        documents += [(f"{name} over {file.name}", merge(preset, document))
                      for name, document in documents[:len(files)]]
    wrong += [f"refused: {name}" for name, document in documents if not accepts(document)]
    for line in wrong:
        print(line)
    print(f"{len(table['good']) + len(table['bad']) + len(documents)} documents, {len(wrong)} wrong")
    return 1 if wrong or len(presets) < 3 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
