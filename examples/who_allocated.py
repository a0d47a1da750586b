#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints of every finding of a JSON report its id, the operator and the rank, and who allocated the memory where that is
what it is about: `repro-check diff A B --format json | examples/who_allocated.py`. It reads no sentence."""
import json
import sys

document = json.load(sys.stdin)
for report in document if isinstance(document, list) else [document]:
    for finding in report["findings"]:
        where, fields = finding["where"], finding["fields"]
        row = [finding["id"], f"rank {where.get('rank', 0)}", f"step {where.get('step', 0)}"]
        row.append(f"op {where['op']} {where.get('operator', '')}".strip() if "op" in where else "-")
        row.append(where.get("line", "-"))
        if "allocated_by" in fields:
            row.append(f"allocated by op {fields['allocated_by']}")
        if "origin" in fields:
            row.append(f"comes from op {fields['origin']}")
        print("\t".join(row))
