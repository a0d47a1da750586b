#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hooks write the name of what a rank holds as the table of records has it, of which placed_name_test.cpp reads the
same examples: `placed_names.py ROOT`."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace

root = Path(sys.argv[1])
sys.path.insert(0, str(root / "dumpers/python"))
from repro_check_hooks import values  # noqa: E402


def distributed(parts):
    """As a DTensor that lies so on its mesh, which it is replicated over along one more axis."""
    placements = [SimpleNamespace(is_replicate=lambda: False, **({} if along == "partial" else {"dim": along}))
                  for along, _, _ in parts] + [SimpleNamespace(is_replicate=lambda: True)]
    mesh = SimpleNamespace(get_coordinate=lambda: [*(place for _, place, _ in parts), 0],
                           size=lambda axis: parts[axis][2],
                           mesh_dim_names=[f"axis{number}" for number in range(len(placements))])
    return SimpleNamespace(_spec=SimpleNamespace(mesh=mesh, placements=placements), _local_tensor="local")


examples = json.loads((root / "core/trace/program_records.json").read_text(encoding="utf-8"))["placed"]["examples"]
written = 0
for example in examples:
    name, parts, holders = example["name"], example.get("parts", []), example.get("holders", [])
    if "parts" in example and not parts:
        continue  # comparators make such names
    assert values.placed_name(name, parts, holders) == example["text"], example
    if all(count for _, _, count in parts):
        tensor = distributed(parts)
        assert values.held_here(name, tensor, holders) == (example["text"], "local"), example
        assert values.axes_of(tensor) == [f"axis{n}" for n in range(len(parts))], example
    written += 1
assert written >= 6, "too few examples"
assert values.held_here("x", 1.5) == ("x", 1.5) and values.axes_of(1.5) == []
print(f"{written} names")
