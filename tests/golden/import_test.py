#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps of what other tools wrote: `import_test.py REPRO_CHECK`. Needs numpy and no PyTorch."""

import collections
import contextlib
import io
import json
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

TOOL = os.path.abspath(sys.argv.pop(1))
SAFETENSORS = {"float32": "F32", "int64": "I64", "float16": "F16", "bool": "BOOL"}
STORAGES = {"float32": "FloatStorage", "int64": "LongStorage", "float16": "HalfStorage", "bool": "BoolStorage"}


def safetensors(arrays):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": SAFETENSORS[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Tensor:
    """What torch.save makes of an array: a call, of a function that only PyTorch has."""

    def __init__(self, array, strides=None, offset=0):
        self.array, self.strides, self.offset = array, strides, offset

    def __reduce__(self):
        array = self.array
        strides = self.strides or tuple(stride // array.itemsize for stride in array.strides)
        shape = tuple(array.shape)
        return TORCH_UTILS._rebuild_tensor_v2, (Storage(array), self.offset, shape, strides, False, {})


class Storage:
    def __init__(self, array):
        self.array = array


def module_of(name, *functions, **classes):
    module = types.ModuleType(name)
    for each in functions:
        function = (lambda *_: None)
        function.__module__, function.__name__, function.__qualname__ = name, each, each
        setattr(module, each, function)
    for each in classes.values():
        setattr(module, each, type(each, (), {"__module__": name}))
    return module


TORCH_UTILS = module_of("torch._utils", "_rebuild_tensor_v2", "_rebuild_parameter")
TORCH = module_of("torch", **{name: name for name in STORAGES.values()})


@contextlib.contextmanager
def pickled_as_torch():
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": TORCH, "torch._utils": TORCH_UTILS})
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def saved(value):
    """The bytes of a file of torch.save."""
    storages = []

    class Pickler(pickle.Pickler):
        def persistent_id(self, each):
            if not isinstance(each, Storage):
                return None
            storages.append(each.array)
            kind = getattr(TORCH, STORAGES[each.array.dtype.name])
            return "storage", kind, str(len(storages) - 1), "cpu", each.array.size

    stream = io.BytesIO()
    with pickled_as_torch():
        Pickler(stream, protocol=2).dump(value)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("archive/data.pkl", stream.getvalue())
        out.writestr("archive/byteorder", "little")
        for number, array in enumerate(storages):
            out.writestr(f"archive/data/{number}", array.tobytes())
        out.writestr("archive/version", "3\n")
    return archive.getvalue()


def npz(arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def next_number(array, place):
    """The array with one element moved to the next number."""
    moved = array.copy()
    moved.flat[place] = np.nextafter(moved.flat[place], np.inf, dtype=array.dtype)
    return moved


GENERATOR = np.random.default_rng(0)
ARRAYS = {
    "embed.weight": GENERATOR.normal(size=(8, 4)).astype("f4"),
    "fc.weight": GENERATOR.normal(size=(3, 4)).astype("f4"),
    "fc.half": GENERATOR.normal(size=(5,)).astype("f2"),
    "ids": np.arange(6).reshape(2, 3),
    "mask": np.array([True, False]),
    "empty": np.empty((0, 4), "f4"),
    "scalar": np.array(2.5, "f4"),
}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.tmp = pathlib.Path(folder.name)

    def write(self, name, content):
        file = self.tmp / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def run_tool(self, *words, code=0):
        done = subprocess.run([TOOL, *words], cwd=self.tmp, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def imported(self, path, out, *options):
        self.run_tool("verify", self.import_of(path, out, *options))
        return out

    def import_of(self, path, out, *options):
        self.text = self.run_tool("import", path, "-o", out, *options)
        return out

    def names(self, dump):
        listing = json.loads(self.run_tool("inspect", dump, "--list", "--format", "json"))
        return [op["module"] for op in listing["ops"]]


class Formats(Folder):
    def test_every_format_gives_the_same_dump(self):
        for name, array in ARRAYS.items():
            self.write(f"npy/{name}.npy", npy(array))
        paths = [self.write("model.safetensors", safetensors(ARRAYS)), self.write("model.npz", npz(ARRAYS)),
                 self.write("model.pt", saved({name: Tensor(each) for name, each in ARRAYS.items()}))]
        first = self.imported(paths[0], "first")
        for path in paths[1:]:
            self.run_tool("diff", first, self.imported(path, path + ".dump"))
        # By the order of their names, not that of the dict.
        self.assertEqual(sorted(self.names(self.imported("npy", "npy.dump"))), sorted(self.names(first)))

    def test_a_number_that_moved_is_named(self):
        self.write("a.safetensors", safetensors(ARRAYS))
        self.write("b.safetensors", safetensors({**ARRAYS, "fc.weight": next_number(ARRAYS["fc.weight"], 5)}))
        text = self.run_tool("diff", self.imported("a.safetensors", "a"), self.imported("b.safetensors", "b"), code=1)
        self.assertIn("fc.weight", text.splitlines()[0])
        self.assertIn("1 of 12 elements", text)
        self.assertIn("the files do not say what it was computed from", text)

    def test_a_tensor_of_one_side_is_no_pass(self):
        less = {name: array for name, array in ARRAYS.items() if name != "ids"}
        self.write("a.npz", npz(ARRAYS))
        self.write("b.npz", npz(less))
        text = self.run_tool("diff", self.imported("a.npz", "a"), self.imported("b.npz", "b"), code=1)
        self.assertIn("ids", text)

    def test_views_dicts_and_what_is_no_tensor(self):
        base = np.arange(24, dtype="f4")
        turned = Tensor(base.reshape(6, 4), strides=(1, 6))
        net = collections.OrderedDict(w=turned, list=[Tensor(base[:2].copy())])
        self.write("a.pt", saved({"net": net, "epoch": 3, "note": "x" * 5000, "when": complex(1, 2)}))
        self.imported("a.pt", "a")
        self.assertEqual(self.names("a"), ["net.w", "net.list.0"])
        self.assertIn("object of class __builtin__ complex: 1", self.text)
        self.write("b.npz", npz({"net.w": base.reshape(4, 6).T.copy(), "net.list.0": base[:2]}))
        self.run_tool("diff", "a", self.imported("b.npz", "b"))


class Names(Folder):
    def tensor(self, **pairs):
        return "___".join(f"{key}={value}" for key, value in pairs.items()) + ".pt"

    def of_sglang(self, folder, change=lambda name, rank, array: array):
        place = 0
        for step in (0, 1, 10):
            for layer in (0, 1):
                place += 1
                for rank in (0, 1):
                    array = np.full((2, 3), step + layer / 7 + rank, "f4")
                    name = self.tensor(name="hidden", step=step, rank=rank, dump_index=place, layer_id=layer)
                    value = Tensor(change((step, layer), rank, array))
                    self.write(f"{folder}/dump_1/{name}", saved({"value": value, "meta": {"dims": "t h"}}))

    def test_dumps_of_sglang(self):
        self.of_sglang("a")
        self.of_sglang("b", lambda at, rank, array: next_number(array, 4) if (at, rank) == ((10, 1), 1) else array)
        self.import_of("a", "A")
        self.assertIn("of 2 ranks", self.text)
        self.assertEqual(self.names("A/rank-1"), ["hidden[layer_id=0]", "hidden[layer_id=1]"] * 3)
        self.run_tool("diff", "A", self.import_of("a", "again"))
        text = self.run_tool("diff", "A", self.import_of("b", "B"), code=1)
        self.assertIn("hidden[layer_id=1]", text)
        self.assertIn("step 10", text)

    def test_a_missing_rank_is_missed(self):
        for rank in (0, 2):
            self.write(f"d/rank{rank}/x.npy", npy(np.zeros(2)))
        self.import_of("d", "A", "--pattern", "rank{rank}/{name}.npy")
        self.assertIn("rank 1 of 3", self.run_tool("verify", "A", code=3))
        facts = json.loads((self.tmp / "A/rank-0/manifest.json").read_text())["environment"]
        self.assertIn({"name": "distributed.ranks", "value": "3"}, facts)

    def test_a_pattern(self):
        for step in (1, 2):
            for name in ("x", "y"):
                self.write(f"d/step{step}/{name}-0.npy", npy(np.full(3, step, "f4")))
        self.write("d/notes.txt", "-")
        self.run_tool("import", "d", "-o", "A", "--pattern", "step{step}/{nme}.npy", code=2)
        self.imported("d", "A", "--pattern", "step{step}/{name}-{call}.npy")
        self.assertEqual(self.names("A"), ["x", "y"] * 2)
        self.assertIn("file .txt: 1", self.text)
        text = self.run_tool("import", "d", "-o", "B", "--pattern", "{name}.pt", code=2)
        self.assertIn("no file in it is named as the pattern says", text)
        self.assertFalse((self.tmp / "B").exists())

    def test_two_of_one_name_are_refused(self):
        self.write("d/a.npz", npz({"w": np.zeros(2)}))
        self.write("d/b.npz", npz({"w": np.ones(2)}))
        text = self.run_tool("import", "d", "-o", "A", code=2)
        self.assertIn("w is there a second time", text)
        self.assertFalse((self.tmp / "A").exists())
        self.imported("d", "A", "--pattern", "{name}.npz")
        self.assertEqual(self.names("A"), ["a.w", "b.w"])

    def test_a_dump_is_not_replaced_unasked(self):
        self.write("a.npy", npy(np.zeros(2)))
        self.import_of("a.npy", "A")
        self.run_tool("import", "a.npy", "-o", "A", code=2)
        self.import_of("a.npy", "A", "--force")


def probe_tensor(array, data_name=None):
    said = {"type": "torch.Tensor", "dtype": f"torch.{array.dtype.name}", "shape": list(array.shape),
            "Max": float(array.max()), "Min": float(array.min()), "Mean": float(array.mean()),
            "Norm": float(np.sqrt((array.astype("f8") ** 2).sum())), "requires_grad": False}
    return {**said, "data_name": data_name} if data_name else said


class Probe(Folder):
    WEIGHT = ARRAYS["fc.weight"]
    X = GENERATOR.normal(size=(2, 4)).astype("f4")

    def write_probe(self, folder, output=None, values=True, step=0, rank=0):
        """As msprobe writes a step of one Linear."""
        where = f"{folder}/step{step}/rank{rank}"
        out = self.X @ self.WEIGHT.T if output is None else output

        def told(array, name):
            if values:
                self.write(f"{where}/dump_tensor_data/{name}", npy(array))
            return probe_tensor(array, name if values else None)

        name = "Module.net.fc.Linear.forward.0"
        call = {"input_args": [told(self.X, f"{name}.input.0.npy"), {"type": "int", "value": 1}],
                "input_kwargs": {}, "output": [told(out, f"{name}.output.0.npy")],
                "parameters": {"weight": told(self.WEIGHT, f"{name}.parameters.weight.npy")}}
        self.write(f"{where}/dump.json", json.dumps(
            {"task": "tensor", "level": "L0", "framework": "pytorch", "data": {name: call}}))
        self.write(f"{where}/stack.json", json.dumps(
            {"0": [[name], ["File /a/train.py, line 12, in step, \n y = net(x)"]]}))
        return folder

    def test_values(self):
        dump = self.imported(self.write_probe("a"), "A")
        self.run_tool("diff", dump, self.imported("a", "again"))
        out = next_number(self.X @ self.WEIGHT.T, 3)
        text = self.run_tool("diff", dump, self.imported(self.write_probe("b", out), "B"), code=1)
        self.assertIn("Module::Linear", text.splitlines()[0])
        self.assertIn("net.fc", text)
        self.assertIn("train.py:12", text)

    def test_statistics_are_never_a_pass(self):
        dump = self.import_of(self.write_probe("a", values=False), "A")
        self.run_tool("diff", dump, self.import_of("a", "again"), code=4)
        out = self.X @ self.WEIGHT.T
        out[0, 0] = np.nan
        self.run_tool("diff", dump, self.import_of(self.write_probe("b", out, values=False), "B"), code=1)

    def test_its_weights_are_related(self):
        self.write("w.safetensors", safetensors({"linear": self.WEIGHT}))
        self.run_tool("relate", "--weights", self.import_of("w.safetensors", "W"),
                      self.import_of(self.write_probe("a"), "A"))

    def test_ranks_and_steps(self):
        for step in (0, 1):
            for rank in (0, 1):
                self.write_probe("a", step=step, rank=rank)
        self.import_of("a", "A")
        self.assertIn("of 2 ranks", self.text)
        self.run_tool("verify", "A")

    def test_a_name_outside_of_its_folder_is_not_read(self):
        self.write_probe("a")
        file = self.tmp / "a/step0/rank0/dump.json"
        self.write("secret.npy", npy(self.X))
        text = file.read_text().replace("Module.net.fc.Linear.forward.0.input.0.npy", "../../../../secret.npy")
        file.write_text(text)
        self.assertIn("is no name of a file", self.run_tool("import", "a", "-o", "A", code=2))


class Weights(Folder):
    def test_a_checkpoint_against_fused_weights(self):
        q, k, v = (GENERATOR.normal(size=(16, 8)).astype("f4") for _ in range(3))
        self.write("a.safetensors", safetensors({"q": q, "k": k, "v": v}))
        self.write("b.npz", npz({"qkv": np.concatenate([q, k, v])}))
        sent = self.imported("a.safetensors", "A")
        text = self.run_tool("relate", "--weights", sent, self.imported("b.npz", "B"))
        self.assertIn("qkv = cat(q, k, v)", text)
        old = k + 1
        self.write("c.npz", npz({"qkv": np.concatenate([q, old, v])}))
        text = self.run_tool("relate", "--weights", sent, self.imported("c.npz", "C"), code=1)
        self.assertIn("qkv", text.splitlines()[0])


class Damage(Folder):
    def test_what_is_no_file_of_tensors(self):
        for name, content in {"a.pt": b"", "b.pt": b"\x80\x02}q\x00.", "c.npz": b"PK\x05\x06" + bytes(18),
                              "d.safetensors": b"text", "e.npy": npy(np.zeros(3))[:-1]}.items():
            self.write(name, content)
            text = self.run_tool("import", name, "-o", "A", code=2)
            self.assertIn(name, text)
            self.assertFalse((self.tmp / "A").exists())
        self.run_tool("import", "nowhere", code=2)
        (self.tmp / "none").mkdir()
        self.assertIn("holds no file of tensors", self.run_tool("import", "none", "-o", "A", code=2))

    def test_lists_that_hold_themselves_or_each_other_are_refused(self):
        one = []
        one.append(one)
        twice = [0]
        for _ in range(30):
            twice = [twice, twice]
        for value in (one, twice):
            self.write("a.pt", saved(value))
            self.run_tool("import", "a.pt", "-o", "A", code=2)

    def test_a_storage_that_is_too_short(self):
        self.write("a.pt", saved(Tensor(np.zeros(4, "f4"), strides=(1 << 40,))))
        self.run_tool("import", "a.pt", "-o", "A", code=2)
        self.write("a.pt", saved(Tensor(np.zeros(4, "f4"), offset=1)))
        self.run_tool("import", "a.pt", "-o", "A", code=2)

    def test_a_byte_that_is_wrong(self):
        """Whatever byte of a file is another: its tensors, or an error, and nothing is left."""
        drawn = random.Random(0)
        arrays = {"w": ARRAYS["fc.weight"], "ids": ARRAYS["ids"]}
        for name, whole in {"a.safetensors": safetensors(arrays), "a.npz": npz(arrays),
                            "a.pt": saved({key: Tensor(each) for key, each in arrays.items()})}.items():
            for _ in range(60):
                damaged = bytearray(whole)
                damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
                self.write(name, bytes(damaged))
                done = subprocess.run([TOOL, "import", name, "-o", "A", "--force"], cwd=self.tmp,
                                      capture_output=True, text=True, timeout=120)
                self.assertIn(done.returncode, (0, 2), done.stderr)
                if done.returncode == 2:
                    self.assertIn(name, done.stderr)


if __name__ == "__main__":
    unittest.main()
