#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shadow of a training step costs: `precision.py REPRO_CHECK SCRATCH`. Records one AdamW step of GPT-2 124M with
random weights, batch 2 x 256, and asks `precision` for its loss and for a parameter behind the update. Prints seconds,
and the GiB that the recorder held at most."""
import json
import resource
import subprocess
import sys
import time
from pathlib import Path


def train() -> None:
    import torch
    import transformers

    torch.set_num_threads(2)
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).train()
    tokens = torch.randint(0, 50257, (2, 256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(2):  # the recorded step, and one that shows where it ends
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()


def timed(*command: object) -> tuple[str, float, float]:
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    done = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text, time.perf_counter() - start, done.ru_utime + done.ru_stime - used.ru_utime - used.ru_stime


def main() -> None:
    tool, dump = sys.argv[1], Path(sys.argv[2]) / "gpt2"
    _, wall, _ = timed(tool, "exec", "-q", "-o", dump, "--force", "--level", "tensor", "--depth", "all", "--steps", "0",
                       "--", sys.executable, __file__)
    size = sum(each.stat().st_size for each in dump.rglob("*") if each.is_file())
    print(f"recorded in {wall:.0f} s, {size / 2**30:.1f} GiB")
    listed = json.loads(timed(tool, "inspect", dump, "--list", "--format", "json")[0])["ops"]
    updates = [op["index"] for op in listed if "addcdiv" in op["operator"]]
    for name, of in (("loss", []), ("update", ["--of", updates[-1]])):
        text, wall, used = timed(tool, "precision", dump, *of, "--format", "json")
        held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        document = json.loads(text)
        print(f"{name}: {document['digits']} digits, {document['counts']['executed']} operators executed, "
              f"{len(document['cuts'])} cuts, {document['explained']:.0f} % explained: {wall:.0f} s "
              f"({used:.0f} s of processors), up to {held:.1f} GiB")
        print(f"  {document['headline']}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        train()
    else:
        main()
