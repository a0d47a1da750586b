# SPDX-License-Identifier: Apache-2.0
"""JAX programs as they are: recorded, they compute what they compute alone; twice, they repeat; a fault is named with
its call, step and line; keys that are burnt in or drawn from twice are proofs."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import harness

harness.need("jax", "optax", "numpy")

PROGRAM = Path(__file__).with_name("train_jax.py")
#: By fault: the step, the call and the line that begin it, and what the text says of it.
FAULTS = {
    "unseeded": (0, "jax::train_step", "params, state, loss = train_step", "argument `x` differs"),
    "seed": (0, "jax::", "key = jax.random.key(1 if", "handed over another number: 0 -> 1"),
    "order": (5, "jax::train_step", "params, state, loss = train_step", "argument `x` differs"),
    "dtype": (0, "jax::train_step", "params, state, loss = train_step", "origin"),
    "traced": (0, "jax::train_step", "params, state, loss = train_step", "NumPy's global generator stood elsewhere"),
    "ulp": (3, "jax::stage", 'params["head"] = jnp.asarray(head)', "differs, 1 of 80 elements, max 1 ULP"),
}


class Jax(harness.ToolTest):
    def setUp(self):
        super().setUp()
        shutil.copy(PROGRAM, self.folder / "train.py")

    def write(self, text, name="train.py"):
        (self.folder / name).write_text(text, encoding="utf-8")

    def bare(self, fault=""):
        return subprocess.run([sys.executable, "train.py"], cwd=self.folder, text=True, capture_output=True,
                              env={**os.environ, "FAULT": fault}, check=True).stdout

    def pair(self, fault, **dump):
        config = {"program": {"command": [sys.executable, "train.py"]}, "seed": None,
                  "runs": [{"name": "a"}, {"name": "b", "env": {"FAULT": fault}}],
                  "dump": {"directory": "out", **dump}}
        (self.folder / "c.json").write_text(json.dumps(config), encoding="utf-8")
        return self.tool("run", "-c", "c.json")

    def audit(self, fault="", *more):
        done = self.tool("audit", *more, "--", sys.executable, "train.py", env={**os.environ, "FAULT": fault})
        return done.code, done.stdout

    def test_recorded_is_bit_equal_to_bare(self):
        for level in ("digest", "tensor"):
            done = self.tool("exec", "--level", level, "-o", level, "--", sys.executable, "train.py")
            self.assertEqual(done.code, 0, done.stderr)
            self.assertEqual(done.stdout, self.bare())

    def test_twice_reproducible(self):
        done = self.pair("")
        self.assertEqual(done.code, 0, done.stdout)
        self.assertTrue(done.stdout.startswith("REPRODUCIBLE"), done.stdout)
        self.assertIn("which the program makes itself", done.stdout)

    def test_faults_at_their_origin(self):
        for fault, (step, call, line, said) in FAULTS.items():
            with self.subTest(fault=fault):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                done = self.pair(fault)
                self.assertEqual(done.code, 1, done.stdout + done.stderr)
                self.assertTrue(done.stdout.startswith("DIVERGED"), done.stdout)
                where = re.search(r"^  op +parts.* at step (\d+), op \d+ (\S+)", done.stdout, re.MULTILINE)
                self.assertIsNotNone(where, done.stdout)
                self.assertEqual(int(where[1]), step, done.stdout)
                self.assertTrue(where[2].startswith(call), done.stdout)
                self.assertIn(line, done.stdout)
                self.assertIn(said, done.stdout)

    def test_a_run_that_is_resumed_without_its_key(self):
        done = self.pair("resumed")
        self.assertEqual(done.code, 1, done.stdout)
        self.assertIn("candidate alone called operators", done.stdout.splitlines()[0])
        self.assertIn("key, sub = jax.random.split(jax.random.key(0))", done.stdout)

    def test_keys(self):
        code, text = self.audit()
        self.assertEqual(code, 0, text)
        self.assertTrue(text.startswith("NO PROOF: 2 of"), text)
        code, text = self.audit("burnt", "--check", "key-is-constant")
        self.assertEqual(code, 0, text)  # it is given other samples each time
        self.assertIn("1 suspicion", text.splitlines()[0])
        code, text = self.audit("twice")
        self.assertEqual(code, 1, text)
        self.assertTrue(text.startswith("PROOF key-used-twice at step 2 (train.py:62)"), text)

    def test_a_key_that_is_burnt_in(self):
        for given in ("", "key"):
            self.write(f"""
import jax, jax.numpy as jnp
key = jax.random.key(0)
@jax.jit
def noisy(x{', key' if given else ''}):
    return x * jax.random.bernoulli(key, 0.5, x.shape)
for _ in range(3):
    {'key, sub = jax.random.split(key)' if given else 'pass'}
    noisy(jnp.ones(64){', sub' if given else ''})
""")
            code, text = self.audit()
            self.assertEqual(code, 0 if given else 1, text)
            if not given:
                self.assertTrue(text.startswith("PROOF key-is-constant at step 0 (train.py:9)"), text)
                self.assertIn("3 calls", text)

    def test_keys_that_are_alike_on_purpose(self):
        """A key that is folded, a projection, one order for two arrays, equal weights, and no key at all."""
        self.write("""
import jax, jax.numpy as jnp
key, raw = jax.random.key(0), jax.random.PRNGKey(1)
hashing = jnp.array([73856093, 19349663], dtype=jnp.uint32)
@jax.jit
def step(p, i):
    p = p - 0.1 * jax.random.normal(jax.random.fold_in(key, i), p.shape)
    return p @ jax.random.normal(raw, (4, 4)) + (jnp.uint32(i) * hashing).sum() % 7, i + 1
p, i = jnp.ones(4), jnp.int32(0)
for _ in range(5): p, i = step(p, i)
x, y = jax.random.permutation(key, jnp.arange(10)), jax.random.permutation(key, jnp.ones((10, 2)))
def init(key): return jax.random.normal(key, (3,))
online = init(raw)
target = init(raw)
""")
        code, text = self.audit()
        self.assertEqual(code, 0, text)
        self.assertTrue(text.startswith("NO PROOF: 2 of"), text)

    def test_a_reference_that_is_written(self):
        self.write("""
import jax, jax.numpy as jnp, os
kept = jax.new_ref(jnp.zeros(3))
@jax.jit
def add(ref, x): ref[...] += x * (2.0 if os.environ.get("FAULT") else 1.0)
add(kept, jnp.ones(3)); add(kept, jnp.ones(3))
""")
        done = self.pair("other")
        self.assertEqual(done.code, 1, done.stdout)
        self.assertIn("jax::add (train.py:6)", done.stdout.split("code ")[1].split("why ")[0])

    def test_steps(self):
        done = self.tool("exec", "--steps", "2:4", "--include", "jax::train_step", "-o", "d", "--", sys.executable,
                         "train.py")
        self.assertEqual(done.code, 0, done.stderr)
        listed = [line for line in self.tool("inspect", "d", "--list").stdout.splitlines() if "train_step" in line]
        self.assertEqual(len(listed), 2)

    def test_a_pool_that_is_ended(self):
        self.write("""
import jax, jax.numpy as jnp, multiprocessing as mp
def work(n): return float(jax.jit(lambda x: x * n)(jnp.ones(3)).sum())
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool: print(pool.map(work, [1, 2]))
""")
        done = self.tool("exec", "-o", "d", "--", sys.executable, "train.py")
        self.assertEqual((done.code, done.stdout), (0, "[3.0, 6.0]\n"))
        self.assertNotIn("did not end by itself", done.stderr)

    def test_gate(self):
        (self.folder / "c.json").write_text(json.dumps(
            {"program": {"command": [sys.executable, "train.py"]}, "dump": {"directory": "out"}}), encoding="utf-8")
        self.tool("gate", "-c", "c.json")
        self.assertEqual(self.tool("gate", "accept", "-c", "c.json").code, 0)
        self.assertEqual(self.tool("gate", "-c", "c.json").code, 0)
        changed = self.tool("gate", "-c", "c.json", env={**os.environ, "FAULT": "dtype"})
        self.assertEqual(changed.code, 1, changed.stdout)

    def test_what_programs_do(self):
        """Devices, donation, transformations, callbacks, references, exceptions, threads, forks of nothing."""
        self.write("""
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import pickle, threading
from functools import partial
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
@partial(jax.jit, donate_argnums=0)
def add(a, b): return a + b
a = jnp.ones(1000)
for _ in range(3): a = add(a, jnp.ones(1000))
print(a[0], jax.grad(lambda v: jnp.sum(jnp.sin(v) ** 2))(jnp.ones(3)), jax.vmap(lambda v: v @ v)(jnp.ones((3, 4))))
mesh = Mesh(np.array(jax.devices()).reshape(4), ("d",))
xs = jax.device_put(jnp.arange(8.), NamedSharding(mesh, P("d")))
print(jax.jit(lambda x: (x * 2).sum())(xs), jax.pmap(lambda v: v * 2)(jnp.arange(4.)))
print(jax.shard_map(lambda v: jax.lax.psum(v, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())(xs))
def ahead(x, *, y): return {"o": x * 3 + y["k"]}
print(jax.jit(ahead).lower(jnp.ones(3), y={"k": 1.0}).compile()(jnp.ones(3), y={"k": 2.0}))
kept = jax.new_ref(jnp.ones(3))
@jax.jit
def write(ref): ref[...] = ref[...] + 1
write(kept); print(kept[...])
@jax.jit
def calls_back(x):
    return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((3,), jnp.float32), x)
print(calls_back(jnp.ones(3)))
try: jax.jit(lambda x: x.foo)(jnp.ones(2))
except AttributeError as error: print(type(error))
thread = threading.Thread(target=lambda: print(jnp.ones(3) + 5)); thread.start(); thread.join()
jax.config.update("jax_debug_nans", True)
try: jnp.log(-jnp.ones(2))
except FloatingPointError as error: print(type(error))
jax.config.update("jax_debug_nans", False)
print(jnp.ones(3, jnp.bfloat16) + 1, jnp.ones(3, jnp.int4), jnp.ones(3, jnp.float8_e4m3fn) * 2)
print(jax.lax.scan(lambda c, x: (c + x, c), 0., jnp.arange(3.)))
with jax.disable_jit(): print(jax.jit(lambda x: x + 1)(jnp.ones(2)))
print(pickle.loads(pickle.dumps(jnp.ones(2))), jax.jit(lambda d: {"o": d["b"]})({"a": 1, "b": np.float32(2)}))
print(type(add), add._cache_size())
""")
        done = self.tool("exec", "--level", "tensor", "-o", "d", "--", sys.executable, "train.py")
        self.assertEqual((done.code, done.stdout), (0, self.bare()), done.stderr)
        manifest = json.loads((self.folder / "d" / "manifest.json").read_text(encoding="utf-8"))
        self.assertEqual(manifest["warnings"], [])
        listed = self.tool("inspect", "d", "--list").stdout
        for call in ("jax::ahead", "jax::write", "jax::calls_back", "jax::<lambda>"):
            self.assertIn(call, listed)
        self.assertRegex(listed, r"jax::write\t\tfloat32 \[3\]")
        self.assertEqual(self.tool("verify", "d").code, 0)

    def test_one_that_is_killed(self):
        self.write("import os\nimport jax.numpy as jnp\nx = jnp.ones(3) + 1\nos.kill(os.getpid(), 9)\n")
        done = self.tool("exec", "-o", "d", "--", sys.executable, "train.py")
        self.assertNotEqual(done.code, 0)
        listed = self.tool("inspect", "d", "--partial", "--list").stdout
        self.assertIn("jax::add", listed)

    def test_both_frameworks_in_one_process(self):
        harness.need("torch")
        self.write("import torch, jax.numpy as jnp\n"
                   "print(float(torch.ones(3).add(1).sum()), float((jnp.ones(3) + 1).sum()))\n")
        done = self.tool("exec", "-o", "d", "--", sys.executable, "train.py")
        self.assertEqual((done.code, done.stdout), (0, "6.0 6.0\n"), done.stderr)
        every = "".join(self.tool("inspect", each.parent, "--list").stdout
                        for each in (self.folder / "d").rglob("manifest.json"))
        self.assertIn("aten::add", every)
        self.assertIn("jax::add", every)

    def test_nothing_is_loaded_without_it(self):
        self.write("import sys, torch\ntorch.ones(2).add(1)\n"
                   "print([name for name in sys.modules if name in ('jax', 'repro_check_hooks.arrays')])\n")
        done = self.tool("exec", "-o", "d", "--", sys.executable, "train.py")
        self.assertEqual((done.code, done.stdout), (0, "[]\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
