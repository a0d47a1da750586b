#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training program for bench/exec: `exec_step.py MODEL STEPS [debug-mode]`. Trains MODEL with AdamW on made-up
data. A line on standard input is a turn of STEPS steps; the answer is a line of JSON with the milliseconds of each
step, by the clock and those in which its thread had the processor, and the MiB that the process held at most. With
debug-mode each step runs under PyTorch's own DebugMode, which hashes outputs and inputs. One of several ranks trains
one turn without being asked, with one thread, under DistributedDataParallel on gloo. BENCH_DEVICE=cuda trains on a
GPU."""
import contextlib
import json
import os
import resource
import sys
import time

import torch
import transformers

RANK = os.environ.get("RANK")
DEVICE = torch.device(os.environ.get("BENCH_DEVICE", "cpu"))
THREADS = 1 if RANK else 2


def resnet():
    config = transformers.ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], embedding_size=64,
                                       hidden_sizes=[64, 128, 256, 512], num_labels=10)
    return (transformers.ResNetForImageClassification(config),
            {"pixel_values": torch.randn(16, 3, 64, 64), "labels": torch.randint(0, 10, (16,))})


def bert():
    config = transformers.BertConfig(num_hidden_layers=4, hidden_size=256, num_attention_heads=4,
                                     intermediate_size=1024)
    return (transformers.BertForSequenceClassification(config),
            {"input_ids": torch.randint(0, 30000, (8, 64)), "labels": torch.randint(0, 2, (8,))})


def gpt2():
    config = transformers.GPT2Config(n_layer=4, n_embd=128, n_head=4, vocab_size=1000)
    tokens = torch.randint(0, 1000, (2, 32))
    return transformers.GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens}


MODELS = {"resnet": resnet, "bert": bert, "gpt2": gpt2}


def watched(mode: str):
    if mode != "debug-mode":
        return contextlib.nullcontext()
    from torch.utils._debug_mode import DebugMode

    stack = contextlib.ExitStack()
    stack.enter_context(DebugMode())
    stack.enter_context(DebugMode.log_tensor_hashes(hash_fn="hash_tensor", hash_inputs=True))
    return stack


def main() -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    model, batch = MODELS[sys.argv[1]]()
    model.train().to(DEVICE)
    batch = {name: tensor.to(DEVICE) for name, tensor in batch.items()}
    if RANK:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    turns = iter([""]) if RANK else sys.stdin
    for _ in turns:
        times = []
        for _ in range(int(sys.argv[2])):
            start = time.perf_counter(), time.thread_time()
            with watched(sys.argv[3] if len(sys.argv) > 3 else ""):
                optimizer.zero_grad()
                model(**batch).loss.backward()
                optimizer.step()
            if DEVICE.type == "cuda":
                torch.cuda.synchronize()
            times.append(((time.perf_counter() - start[0]) * 1e3, (time.thread_time() - start[1]) * 1e3))
        if RANK in (None, "0"):
            held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps({"steps": times, "held": held}), flush=True)
    if RANK:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
