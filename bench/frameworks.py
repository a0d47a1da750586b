#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs a JAX program: `frameworks.py REPRO_CHECK SCRATCH [TURNS]`, by a Python that has jax and optax.
Takes turns of a bare and a recorded process. Prints the median of a compiled training step of about 50 ms, and of an
operator outside of a compiled function, with the spread of the bare ones."""
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def compute() -> None:
    import jax
    import jax.numpy as jnp
    import optax

    key = jax.random.key(0)
    params = [jax.random.normal(each, (768, 768)) * 0.03 for each in jax.random.split(key, 6)]
    optimizer = optax.adam(1e-3)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, x):
        def loss(params):
            y = x
            for each in params:
                y = jnp.tanh(y @ each)
            return (y ** 2).mean()
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    x = jax.random.normal(key, (256, 768))
    steps = []
    for _ in range(40):
        begun = time.perf_counter()
        params, state, value = step(params, state, x)
        value.block_until_ready()
        steps.append(time.perf_counter() - begun)
    number, operators = jnp.ones(4), []
    for _ in range(500):
        begun = time.perf_counter()
        number = (number + 1.0).block_until_ready()
        operators.append(time.perf_counter() - begun)
    print(statistics.median(steps[5:]) * 1e3, statistics.median(operators[50:]) * 1e6)


def main() -> int:
    tool, scratch = sys.argv[1], Path(sys.argv[2])
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    program = [sys.executable, __file__]
    measured = {"bare": [], "recorded": []}
    for turn in range(turns):
        dump = scratch / f"frameworks-{turn}"
        for name, command in (("bare", program), ("recorded", [tool, "exec", "-o", str(dump), "--", *program])):
            done = subprocess.run(command, env={**os.environ, "FRAMEWORKS_COMPUTE": "1"}, check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            measured[name].append([float(word) for word in done.stdout.split()])
    for column, unit in enumerate(("ms a step", "us an operator")):
        bare, recorded = ([row[column] for row in measured[name]] for name in ("bare", "recorded"))
        middle = statistics.median(bare)
        print(f"{middle:.1f} {unit} bare ({min(bare):.1f} to {max(bare):.1f}), "
              f"{statistics.median(recorded):.1f} recorded: {statistics.median(recorded) / middle:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(compute() if os.environ.get("FRAMEWORKS_COMPUTE") else main())
