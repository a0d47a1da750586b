# SPDX-License-Identifier: Apache-2.0
"""h5py opens every tensor of a dump, with the shape, dtype and values that PyTorch has."""
import harness

harness.need("torch", "numpy", "h5py")

import json
from typing import Tuple

import h5py
import numpy
import torch
from torch import Tensor, nn

# What h5py gives for each dtype. NumPy has no bfloat16: h5py widens it, which loses nothing.
NUMPY_DTYPES = {
    "float32": "float32", "float64": "float64", "float16": "float16", "bfloat16": "float32",
    "bool": "bool", "complex64": "complex64", "complex128": "complex128", "int8": "int8",
    "uint8": "uint8", "int16": "int16", "int32": "int32", "int64": "int64",
}


class Zoo(nn.Module):
    """One operator for every dtype and every awkward shape."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                                          Tensor, Tensor, Tensor, Tensor]:
        brain = x.to(torch.bfloat16)
        half = x.to(torch.float16)
        double = x.to(torch.float64) / 3
        truth = x > 0
        pairs = torch.complex(x, -x)
        wide = torch.complex(double, double)
        whole = (x * 10).to(torch.int8)
        large = (x * 1e9).to(torch.int64)
        bad = torch.log(x) / (x * 0)
        total = x.sum()
        turned = x.t()
        return brain, half, double, truth, pairs, wide, whole, large, bad, total, turned


class Shapes(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return x[:0] * 2, x[:1].expand(5, 4) * 1


def as_numpy(tensor: Tensor) -> numpy.ndarray:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()


class Dumps(harness.ToolTest):
    def record(self, model: nn.Module) -> list:
        numpy.save(self.folder / "x.npy", numpy.linspace(-2, 2, 12, dtype="float32").reshape(3, 4))
        torch.jit.save(torch.jit.script(model), str(self.folder / "m.pt"))
        config = self.write_config({"model": {"path": "m.pt"}, "inputs": [{"npy": "x.npy"}]})
        result = self.tool("record", "-c", config, "-o", "dump")
        self.assertEqual(result.code, 0, result.stderr)
        listed = self.tool("inspect", "dump", "--list", "--format", "json")
        return json.loads(listed.stdout)["ops"]

    def tensors(self, ops: list):
        """(record, array) of every stored tensor, read by h5py through the browsable tree."""
        with h5py.File(self.folder / "dump" / "trace.h5", "r") as file:
            for op in ops:
                group = file["ops"][f"{op['index']:06d} {op['operator']}"]
                self.assertEqual(group.attrs["operator"], op["operator"])
                for tensor in op["inputs"] + op["outputs"]:
                    if tensor["stored"]:
                        dataset = group[tensor["role"] + "s"][tensor["slot"]]
                        yield tensor, dataset[...]

    def test_every_tensor_opens(self):
        seen = set()
        for tensor, array in self.tensors(self.record(Zoo())):
            self.assertEqual(list(array.shape), tensor["shape"])
            self.assertEqual(str(array.dtype), NUMPY_DTYPES[tensor["dtype"]])
            seen.add(tensor["dtype"])
        wanted = {"float32", "float64", "float16", "bfloat16", "bool", "complex64", "complex128",
                  "int8", "int64"}
        self.assertLessEqual(wanted, seen)

    def test_values_are_those_of_pytorch(self):
        arrays = [array for _, array in self.tensors(self.record(Zoo()))]
        for expected in map(as_numpy, Zoo()(torch.from_numpy(numpy.load(self.folder / "x.npy")))):
            same = [a for a in arrays if a.dtype == expected.dtype and a.shape == expected.shape
                    and a.tobytes() == expected.tobytes()]
            self.assertTrue(same, f"no dataset holds {expected.dtype} {expected}")

    def test_empty_and_expanded(self):
        shapes = [list(array.shape) for _, array in self.tensors(self.record(Shapes()))]
        self.assertIn([0, 4], shapes)
        self.assertIn([5, 4], shapes)

    def test_whole_file_can_be_walked(self):
        self.record(Zoo())
        datasets = []
        with h5py.File(self.folder / "dump" / "trace.h5", "r") as file:
            file.visititems(lambda name, item: datasets.append(item[...])
                            if isinstance(item, h5py.Dataset) else None)
        self.assertGreater(len(datasets), 10)

    def test_manifest_is_json(self):
        self.record(Zoo())
        manifest = json.loads((self.folder / "dump" / "manifest.json").read_text())
        self.assertEqual(manifest["format"], "repro-check-dump")


if __name__ == "__main__":
    harness.main()
