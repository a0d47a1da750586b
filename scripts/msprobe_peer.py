#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What msprobe (the package mindstudio-probe) says of rows of tests/golden/corpus, for scripts/peers.

Every operator of a row is a module that reads [1, 2] and returns the tensor of the row, so that
msprobe takes a difference for one that began there. All rows are one recording a side, made by
PrecisionDebugger in a process of its own (it is one debugger a process), and one `msprobe compare`.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "golden"))
from corpus_test import is_tensor, recording, tensor_of  # noqa: E402

SIDES = ("baseline", "candidate")
ALONE = [1]  # the shape of which msprobe takes a tensor for a scalar: no cosine, no error ratios


def repeated(row):
    """The row, with four times its element where a tensor has one."""
    wide = dict(row)
    for side in SIDES:
        if is_tensor(row[side]) and tensor_of(row[side])["shape"] == ALONE:
            tensor = wide[side] = dict(tensor_of(row[side]), shape=[4])
            tensor.update({key: tensor[key] * 4 for key in ("values", "bits") if key in tensor})
    return wide


def torch_of(description):
    """The tensor as torch has it; None where it is not made here: sparse or quantised."""
    import torch
    dtype = getattr(torch, description["dtype"])
    state = description.get("state")
    if state == "none":
        return torch.empty(description["shape"], dtype=dtype, device="meta")
    if state or description.get("layout", "strided") != "strided":
        return None
    if "bits" in description:
        raw = bytearray().join(bytes.fromhex(word)[::-1] for word in description["bits"])
        return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(description["shape"])
    values = [complex(*v) if isinstance(v, list) else float(v) if isinstance(v, str) else v
              for v in description["values"]]
    tensor = torch.tensor(values, dtype=dtype).reshape(description["shape"])
    if "strides" not in description:
        return tensor
    return torch.empty_strided(tensor.shape, description["strides"], dtype=dtype).copy_(tensor)


def raw_of(tensor):
    import torch
    return tensor.contiguous().flatten().view(torch.uint8).tolist()


def calls_of(row, side):
    """[name of the module, description of what it returns] for each operator of a row."""
    dump = recording(row, side)
    return [["_".join((op["module"], *op["operator"].split("::"))).replace(".", "_"),
             tensor_of(dump["tensors"][op["outputs"][0]])] for op in dump["ops"]]


def model_of(calls):
    """A model that makes the calls {row: calls of a row}; `at` is the row it came to."""
    import torch

    class Operator(torch.nn.Module):
        def forward(self, _x):
            return self.result

    class Model(torch.nn.Module):
        at = None

        def forward(self, x):
            modules = dict(self.named_children())
            for self.at, row in calls.items():
                for name, description in row:
                    operator = modules[f"{self.at}_{name}"]
                    operator.result = torch_of(description)
                    operator(x)

    model = Model()
    for row, named in calls.items():
        for name, _ in named:
            model.add_module(f"{row}_{name}", Operator())
    return model


def altered(step, calls):
    """Rows of which a file of msprobe does not hold the bits that the module returned."""
    import torch
    found, seen = [], {}
    for row, named in calls.items():
        for name, description in named:
            count = seen[row, name] = seen.get((row, name), -1) + 1
            file = f"Module.{row}_{name}.Operator.forward.{count}.output.0.pt"
            for path in step.glob(f"proc*/dump_tensor_data/{file}"):
                if raw_of(torch.load(path)) != raw_of(torch_of(description)):
                    found.append(row)
    return found


def record(task, folder):
    """The process that records, from FOLDER/calls.json; what msprobe cannot record is left out."""
    import torch
    from msprobe.pytorch import PrecisionDebugger
    calls = json.loads((folder / "calls.json").read_text())
    config = folder / "config.json"
    config.write_text(json.dumps({
        "task": task, "dump_path": str(folder / "msprobe"), "rank": [], "step": [], "level": "L0",
        "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
        "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "md5"}}))
    debugger = PrecisionDebugger(config_path=str(config))
    steps, refused, other_bits, step = {}, {}, [], 0
    while len(steps) < len(SIDES):
        side = SIDES[len(steps)]
        wanted = {row: named for row, named in calls[side].items() if row not in refused}
        model = model_of(wanted)
        debugger.start(model)
        try:
            model(torch.tensor([1.0, 2.0]))
            steps[side] = folder / "msprobe" / f"step{step}"
        except Exception as error:  # noqa: BLE001  of whatever kind: msprobe's hook raised
            refused[model.at] = type(error).__name__
        debugger.stop()
        debugger.step()
        step += 1
        if side in steps:
            other_bits += altered(steps[side], wanted)
    (folder / "recorded.json").write_text(json.dumps(
        {"refused": refused, "other_bits": other_bits, **{side: str(path) for side, path in steps.items()}}))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "MSPROBE_LOG_LEVEL": "3"})
    return done.returncode, done.stdout + done.stderr


def verdict(results):
    """Of the lines of the result that are of one row: `Result`, and what stands beside a pass."""
    if any(line["Result"] != "pass" for line in results):
        return "differs"
    for line in results:
        if line["Bench Name"] == "N/A":
            return "the same, beside Bench Name N/A"
        if line.get("MaxAbsErr", "0.0") != "0.0":
            return f"the same, beside MaxAbsErr {line['MaxAbsErr'].strip()}"
    return "the same"


def ask(task, tmp, rows):
    """({index of a row: what msprobe says}, a line on the whole command) for [row or None]."""
    calls = {side: {f"row{i}": calls_of(row, side) for i, row in enumerate(rows) if row}
             for side in SIDES}
    tmp.mkdir()
    (tmp / "calls.json").write_text(json.dumps(calls))
    code, text = run([sys.executable, "-W", "ignore", __file__, task, str(tmp)])
    if code:
        sys.exit(f"msprobe could not record: {text[-2000:]}")
    recorded = json.loads((tmp / "recorded.json").read_text())
    code, text = run([str(pathlib.Path(sys.executable).parent / "msprobe"), "compare",
                      "--target_path", recorded["candidate"], "--golden_path", recorded["baseline"],
                      "--output_path", str(tmp / "result")])
    files = list((tmp / "result").glob("compare_result_*.csv"))
    if not files:
        sys.exit(f"msprobe compare wrote no result, exit {code}: {text[-2000:]}")
    with open(files[0], encoding="utf-8-sig") as stream:
        lines = list(csv.DictReader(stream))
    answers = {}
    for name in calls["baseline"]:
        said = verdict([line for line in lines if line["NPU Name"].startswith(f"Module.{name}_")])
        if name in recorded["other_bits"]:
            said += ", recorded with other bits"
        if name in recorded["refused"]:
            said = f"recording raises {recorded['refused'][name]}"
        answers[int(name[3:])] = said
    counts = {word: sum(line["Result"] == word for line in lines)
              for word in ("error", "warning", "pass")}
    return answers, (f"exit {code}, with " + ", ".join(f"{n} {word}" for word, n in counts.items())
                     + " in its result")


if __name__ == "__main__":
    record(sys.argv[1], pathlib.Path(sys.argv[2]))
