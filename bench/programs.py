#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs of training libraries bare and recorded:
`programs.py REPRO_CHECK VENV SCRATCH [--only REGEX] [--depth blocks] [--bare]`.

Each program of PROGRAMS runs twice bare and twice recorded, always in a folder of the same name with data that
`outside/make_data.py` makes. A program that can resume runs twice more with `--checkpoints`. The outcomes: *right*, the
recorded runs have the exit code and the results of the bare ones, and `diff` exits with 0 if the two bare runs have
equal results, with 1 if not; *HARM*, a recorded run ends or computes differently; *FALSE*, `diff` is wrong; *refused*,
`diff` exits with 4; *not run*, the program fails bare, and the last line that it printed is the reason."""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE, TESTS = ROOT / "bench/outside", ROOT / "tests/models/programs"
RANKS = "-m torch.distributed.run --standalone --nproc-per-node 2"


class Program(NamedTuple):
    name: str
    command: str  # as a user types it; OWN and TESTS are folders of the repository
    data: str = ""  # kinds of make_data.py
    result: str = r"result .*"  # what must be bit-equal: a regular expression for printed lines, or `files: GLOB`
    resume: str = ""  # the command that resumes from what `command` saved
    tells: bool = True  # whether the results are of the numbers; else `diff` may say of these what it finds


LINE = r".*"  # all that is printed
TRL = "--model_name_or_path model --output_dir out --max_steps 6 --per_device_train_batch_size 4 --use_cpu true " \
      "--bf16 false --report_to none --save_steps 3 --gradient_checkpointing false --disable_tqdm true"
LIGHTNING = "--trainer.max_epochs 2 --trainer.limit_train_batches 4 --trainer.accelerator cpu --trainer.logger false " \
            "--trainer.enable_progress_bar false --trainer.default_root_dir out"

PROGRAMS = (
    # Entry points that packages ship.
    Program("accelerate test", "accelerate test", result=r".*(test|Test).*", tells=False),
    Program("accelerate launch, test_sync",
            "accelerate launch --cpu --num_processes 1 -m accelerate.test_utils.scripts.test_sync", result=LINE, tells=False),
    Program("torch.distributed.run, test_ops",
            f"python {RANKS} -m accelerate.test_utils.scripts.test_ops", result=LINE, tells=False),
    Program("trl sft", f"trl sft --dataset_name texts {TRL}", "language_model texts",
            "files: out/*.safetensors", f"trl sft --dataset_name texts {TRL} --resume_from_checkpoint out/checkpoint-3"),
    Program("trl dpo", f"trl dpo --dataset_name preferences {TRL}", "language_model preferences",
            "files: out/*.safetensors"),
    Program("spacy train", "spacy train config.cfg --output out", "spacy", "files: out/model-last/*/model"),
    Program("LightningCLI, demos",
            f"python OWN/lightning_cli.py fit --seed_everything 3 {LIGHTNING}", result="files: out/**/*.ckpt"),
    Program("pykeen train",
            "pykeen train distmult --dataset nations --number-epochs 2 --batch-size 256 --random-seed 3 --device cpu "
            "--embedding-dim 8 --silent --output-directory out", result="files: out/**/trained_model.pkl"),
    Program("rl_zoo3 train",
            "rl_zoo3 train --algo a2c --env CartPole-v1 --n-timesteps 200 --seed 3 --device cpu --eval-freq -1 "
            "--log-folder out", result="files: out/**/CartPole-v1.zip"),
    Program("monai.bundle run", "python -m monai.bundle run --config_file train.json", "bundle",
            "files: network.pt"),
    Program("litgpt pretrain",
            "litgpt pretrain pythia-14m --tokenizer_dir tokenizer --data TextFiles --data.train_data_path train "
            "--data.val_data_path validation --data.num_workers 0 --train.max_tokens 512 --train.max_seq_length 32 "
            "--train.global_batch_size 4 --train.micro_batch_size 2 --precision 32-true --devices 1 --out_dir out "
            "--train.tie_embeddings false --eval.initial_validation false --logger_name csv", "litgpt", "files: out/final/*.pth"),
    Program("stanza charlm",
            "python -m stanza.models.charlm --train_file train.txt --eval_file validation.txt --epochs 1 --char_hidden_dim 16 "
            "--char_emb_dim 8 --batch_size 4 --bptt_size 20 --cpu --save_dir out --seed 3", "characters", "files: out/*.pt"),
    Program("chemprop train",
            "chemprop train --data-path molecules.csv --task-type regression --epochs 2 --accelerator cpu --output-dir out "
            "--pytorch-seed 3 --message-hidden-dim 16 --num-workers 0", "molecules", "files: out/**/best.pt"),
    Program("torchtitan", f"python {RANKS} -m torchtitan.train --module llama3 --config llama3_debugmodel"),
    Program("yolo train", "yolo train model=yolov8n.yaml data=coco8.yaml epochs=1 imgsz=32 device=cpu"),
    Program("open_clip_train",
            "python -m open_clip_train.main --dataset-type synthetic --train-num-samples 8 --batch-size 4 --epochs 1 --model RN50"),
    # Scripts around libraries, with the imports in the order of their documentation.
    Program("Trainer of transformers", "python OWN/transformers_trainer.py", "reviews",
            resume="python OWN/transformers_trainer.py resume"),
    Program("LoRA of peft", "python OWN/peft_lora.py", "language_model", resume="python OWN/peft_lora.py resume"),
    Program("GCN of torch_geometric", "python OWN/geometric.py"),
    Program("PPO of stable-baselines3", "python OWN/reinforcement.py"),
    Program("UNet of diffusers", "python OWN/diffusion.py"),
    Program("opacus", "python OWN/private.py"),
    Program("gpytorch", "python OWN/gaussian_process.py"),
    Program("SVI of pyro", "python OWN/variational.py"),
    Program("sentence-transformers", "python OWN/sentences.py", "encoder"),
    Program("skorch", "python OWN/scikit_learn.py"),
    Program("Trainer of lightning", "python OWN/lightning_trainer.py", result=LINE),
    Program("loop of accelerate", "python OWN/accelerated.py", result=LINE),
    Program("ResNet of timm", "python OWN/timm_resnet.py", result=LINE),
    # Programs of the tests, which need what scripts/setup installs and no more.
    Program("convnet, 2 workers", "python TESTS/convnet.py 7", result=LINE),
    Program("fine-tuning, Trainer", "python TESTS/fine_tuning.py 5", result=r"loss .*"),
    Program("word language model", "python TESTS/language_model.py 1", result=LINE),
    Program("GAN, two optimizers", "python TESTS/gan.py 3", result=LINE),
)


class Run(NamedTuple):
    code: int
    result: tuple
    seconds: float
    megabytes: float  # the largest process
    output: str


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    for item in (value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()):
        yield from tensors_in(item)


def digest(file):
    """The digest of a file; of what PyTorch saves only its tensors, since the rest holds times, paths and addresses."""
    content = hashlib.sha256()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for name in sorted(archive.namelist()):
                if "/data/" in name or name.endswith(".pth"):
                    content.update(archive.read(name))
    elif file.suffix == ".pt":  # from before archives
        for tensor in tensors_in(torch.load(file, map_location="cpu", weights_only=True)):
            content.update(tensor.contiguous().numpy().tobytes())
    else:
        content.update(file.read_bytes())
    return content.hexdigest()[:12]


class Bench:
    def __init__(self, tool, venv, scratch, depth="top"):
        self.tool, self.venv, self.scratch, self.depth = tool, venv, scratch, depth
        self.environment = dict(
            os.environ, PATH=f"{venv}/bin{os.pathsep}{os.environ['PATH']}", PYTHONWARNINGS="ignore", HF_HUB_OFFLINE="1",
            HF_DATASETS_OFFLINE="1", WANDB_MODE="disabled", HF_HOME=str(scratch / "cache"), PYSTOW_HOME=str(scratch / "pystow"),
            TOKENIZERS_PARALLELISM="false", YOLO_CONFIG_DIR=str(scratch))

    def make(self, folder, kinds):
        folder.mkdir(parents=True)
        if kinds:
            subprocess.run([self.venv / "bin/python", OUTSIDE / "make_data.py", *kinds.split()], cwd=folder, check=True,
                           env=self.environment, capture_output=True)

    def run(self, program, work, command="", record=()):
        words = (command or program.command).replace("OWN", str(OUTSIDE)).replace("TESTS", str(TESTS)).split()
        words = [*record, *(["--"] if record else []), *words]
        started = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            process = subprocess.Popen(words, cwd=work, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - started
            out.seek(0)
            output = out.read()
        if program.result.startswith("files: "):
            result = tuple(f"{file.relative_to(work)} {digest(file)}" for file in sorted(work.glob(program.result[7:])))
        else:
            result = tuple(line for line in output.splitlines()
                           if re.fullmatch(program.result, line) and not line.startswith("repro-check"))
        return Run(process.returncode, result, seconds, used.ru_maxrss / 1024, output)

    def in_turn(self, program, folder, record=()):
        """Runs the program once in the folder `work`, which holds nothing but its data."""
        work = folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "made", work)
        return self.run(program, work, record=record)

    def says(self, folder, *words):
        done = subprocess.run([self.tool, *words], cwd=folder, capture_output=True, text=True)
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        return done.returncode, said[0] if said else ""

    def try_program(self, program, bare_only):
        """@return the outcome and the lines to print below it"""
        folder = self.scratch / re.sub(r"\W+", "-", program.name)
        try:
            self.make(folder / "made", program.data)
            bare = self.in_turn(program, folder)
        except (OSError, subprocess.CalledProcessError) as error:
            return "not run", [f"{error}: {(getattr(error, 'stderr', b'') or b'').decode(errors='replace').strip()[-200:]}"]
        if bare.code or not bare.result:
            lines = bare.output.strip().splitlines() or [""]
            return "not run", [f"fails bare, exit code {bare.code}{'' if bare.result else ', without a result'}: {lines[-1][:200]}"]
        if bare_only:
            return "right", [f"{bare.seconds:.0f} s, {bare.megabytes:.0f} MB: {bare.result[-1]}"]
        again = self.in_turn(program, folder)
        equal, lines, outcome = bare.result == again.result, [], "right"
        recorded = [self.in_turn(program, folder, [self.tool, "exec", "--depth", self.depth, "-o", folder / dump])
                    for dump in ("A", "B")]
        for run in recorded:
            if run.code != bare.code or (equal and run.result != bare.result) or len(run.result) != len(bare.result):
                outcome = "HARM"
                lines.append(f"recorded: exit code {run.code}, bare {bare.code}; {run.result[-1:]}, bare {bare.result[-1:]}; "
                             f"{run.output.strip()[-300:]}")
        size = sum(file.stat().st_size for file in (folder / "A").rglob("*")) / 1e6 if (folder / "A").exists() else 0
        lines.insert(0, f"bare {bare.seconds:.1f} and {again.seconds:.1f} s, {bare.megabytes:.0f} MB, {'equal' if equal else 'not equal'}; "
                        f"recorded {recorded[0].seconds:.1f} and {recorded[1].seconds:.1f} s, {recorded[0].megabytes:.0f} MB, dump {size:.1f} MB")
        outcome = self.judge(folder, ("A", "B"), equal, program.tells, lines, outcome)
        if program.resume:
            self.in_turn(program, folder, [self.tool, "exec", "--checkpoints", "-o", folder / "whole"])
            resumed = self.run(program, folder / "work", program.resume,
                               [self.tool, "exec", "--checkpoints", "-o", folder / "resumed"])
            outcome = self.judge(folder, ("--resume", "whole", "resumed"), resumed.result == bare.result, program.tells, lines, outcome)
        return outcome, lines

    def judge(self, folder, dumps, equal, tells, lines, outcome):
        code, said = self.says(folder, "diff", *dumps)
        truth = ("equal" if equal else "not equal") if tells else "not told"
        lines.append(f"diff {' '.join(dumps)}: {code}, truth {truth}: {said[:160]}")
        if code == (0 if equal else 1) or (code in (0, 1) and not tells) or outcome == "HARM":
            return outcome
        return "refused" if code == 4 and outcome == "right" else "FALSE"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", type=Path)
    parser.add_argument("venv", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--only", default="", help="programs whose name has this regular expression")
    parser.add_argument("--bare", action="store_true", help="run each once, bare")
    parser.add_argument("--depth", default="top", help="of the recordings: top, or blocks")
    ask = parser.parse_args()
    bench, found = Bench(ask.tool.resolve(), ask.venv.absolute(), ask.scratch.resolve(), ask.depth), []
    for program in PROGRAMS:
        if re.search(ask.only, program.name):
            outcome, lines = bench.try_program(program, ask.bare)
            found.append(outcome)
            print(f"{outcome:8} {program.name}\n" + "".join(f"{'':9}{line}\n" for line in lines), end="", flush=True)
    print(", ".join(f"{found.count(outcome)} {outcome}" for outcome in ("right", "refused", "HARM", "FALSE", "not run")))
    return int("HARM" in found or "FALSE" in found)


if __name__ == "__main__":
    sys.exit(main())
