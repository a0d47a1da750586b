# SPDX-License-Identifier: Apache-2.0
"""What `diff` says beside a verdict. See rank_cases.py."""

import recording


def read_unwritten():
    """An operator reads memory that none has written in whole, and both runs agree."""
    tensors = {
        "x": {"dtype": "float32", "shape": [2], "values": [1, 2]},
        "b": {"dtype": "float32", "shape": [4], "state": "uninitialised"},
        "before": {"dtype": "float32", "shape": [2], "state": "uninitialised", "storage": "b"},
        "half": {"dtype": "float32", "shape": [2], "values": [1, 2], "storage": "b"},
        "part": {"dtype": "float32", "shape": [4], "state": "uninitialised", "storage": "b"},
        "y": {"dtype": "float32", "shape": [1], "values": [7]},
    }
    ops = [
        {"operator": "aten::empty", "module": "m", "outputs": ["b"]},
        {"operator": "aten::copy_", "module": "m", "inputs": {"self": "before", "src": "x"}, "outputs": ["half"]},
        {"operator": "aten::sum", "module": "m", "inputs": {"self": "part"}, "outputs": ["y"]},
    ]
    for run in ("baseline", "candidate"):
        recording.describe({"run": run, "tensors": tensors, "ops": ops})
    return [["diff", "baseline", "candidate"]]


CASES = {"read_unwritten": read_unwritten}
