# SPDX-License-Identifier: Apache-2.0
"""Trains a small net in JAX and optax; FAULT names what is wrong in it."""
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

FAULT = os.environ.get("FAULT", "")
rng = np.random.default_rng(None if FAULT == "unseeded" else 0)
images = rng.standard_normal((64, 8, 8, 3)).astype(np.float32)
labels = rng.integers(0, 10, 64)
order = np.arange(64)
if FAULT == "order":
    order[[40, 41]] = order[[41, 40]]
width = jnp.bfloat16 if FAULT == "dtype" else jnp.float32


def init(key):
    first, second = jax.random.split(key)
    return {"conv": jax.random.normal(first, (3, 3, 3, 8)) * 0.1, "head": jax.random.normal(second, (8, 10)) * 0.1}


def logits_of(params, x, key):
    x = jax.lax.conv_general_dilated(x.astype(width), params["conv"].astype(width), (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC")).astype(jnp.float32)
    x = jax.nn.relu(x)
    x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x * 2, 0)
    return x.mean((1, 2)) @ params["head"]


def loss_of(params, x, y, key):
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, x, key), y).mean()


optimizer = optax.adam(1e-2)
scale = np.random.rand(8, 8, 1).astype(np.float32) if FAULT == "traced" else np.ones((8, 8, 1), np.float32)
burnt = jax.random.key(9)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, state, x, y, key):
    loss, gradients = jax.value_and_grad(loss_of)(params, x * scale, y, burnt if FAULT == "burnt" else key)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


key = jax.random.key(1 if FAULT == "seed" else 0)
key, start = jax.random.split(key)
params = init(start)
state = optimizer.init(params)
for step in range(6):
    rows = order[step * 8:step * 8 + 8]
    key, sub = jax.random.split(key)
    if FAULT == "resumed" and step == 3:
        key, sub = jax.random.split(jax.random.key(0))
    x = images[rows]
    if step == 2:
        noise = jax.random.normal(sub, x.shape)
        again = jax.random.uniform(sub if FAULT == "twice" else jax.random.fold_in(sub, 1), (4,))
        x = x + 0.01 * np.asarray(noise) + float(again[0])
    if step == 3:
        head = np.array(params["head"])
        if FAULT == "ulp":
            head[3, 5] = np.nextafter(head[3, 5], np.float32(np.inf))
        params["head"] = jnp.asarray(head)
    params, state, loss = train_step(params, state, x, labels[rows], sub)
print(float(loss), np.asarray(params["head"]).tobytes().hex())
