# SPDX-License-Identifier: Apache-2.0
"""What `relate --weights` says of a trainer and an engine. See rank_cases.py."""

import numpy as np
import recording


def weight(name, rows=16, columns=12, step=3):
    """What a weight holds behind a step."""
    parts = [recording.numbers(name, step, i, count=4) for i in range(rows * columns // 4)]
    return np.concatenate(parts).reshape(rows, columns)


def program(directory, *steps, level="tensor"):
    """A program that has these weights behind its steps."""
    with recording.Recording(directory, level=level) as made:
        for step, weights in enumerate(steps):
            tensors = recording.below("param.", weights)
            made.record("optimizer_step", tensors, {"lr[0]": 0.1}, step=step, phase="optimizer")


def names(step):
    """The weights of a model behind a step."""
    rows = {"q.weight": 16, "k.weight": 16, "head.weight": 40}
    return {name: weight(name, count, step=step) for name, count in rows.items()}


def trainer(**more):
    program("trainer", names(0), {**names(1), **more})


RELATE = [["relate", "--weights", "trainer", "engine"]]


def weights_arrived():
    """Fused, turned, in another dtype: nothing is wrong."""
    trainer()
    sent = names(1)
    qkv = np.concatenate([sent["q.weight"], sent["k.weight"]])
    turned = np.ascontiguousarray(sent["head.weight"].T)
    program("engine", {"qk": qkv, "head": turned, "half": sent["q.weight"].astype("f2")})
    return RELATE


def weights_of_earlier_step():
    """The engine has two weights of the step before."""
    trainer()
    program("engine", {**names(0), "head.weight": names(1)["head.weight"]})
    return RELATE


def weights_misplaced():
    """Two weights of one shape are swapped."""
    trainer()
    sent = names(1)
    program("engine", {**sent, "q.weight": sent["k.weight"], "k.weight": sent["q.weight"]})
    return RELATE


def weights_rounded():
    """A weight went through float16."""
    trainer(**{"fine.weight": names(1)["head.weight"] / np.float32(3)})
    fine = (names(1)["head.weight"] / np.float32(3)).astype("f2").astype("f4")
    program("engine", {**names(1), "fine.weight": fine})
    return RELATE


def weights_without_adapter():
    """The engine has the weight without what its adapter adds."""
    adapter = {"q.lora_A.weight": weight("a", 2), "q.lora_B.weight": weight("b", 16, 2)}
    trainer(**adapter)
    program("engine", names(1))
    return RELATE


def weights_of_other_values():
    """Half of a weight was not handed over, and another layer is the engine's own."""
    trainer()
    head = names(1)["head.weight"].copy()
    head[20:] = weight("other", 20)
    program("engine", {**names(1), "head.weight": head, "own.extra": weight("extra", 4)})
    return RELATE


def weights_unread():
    """Two recordings of digests: what is not whole cannot be looked for."""
    program("trainer", names(1), level="digest")
    sent = names(1)
    program("engine", {**sent, "head.weight": np.ascontiguousarray(sent["head.weight"].T)}, level="digest")
    return RELATE


CASES = {
    function.__name__: function
    for function in (
        weights_arrived,
        weights_of_earlier_step,
        weights_misplaced,
        weights_rounded,
        weights_without_adapter,
        weights_of_other_values,
        weights_unread,
    )
}
