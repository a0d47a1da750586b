# SPDX-License-Identifier: Apache-2.0
"""Programs that repeat, recorded at every depth: memory that kernels have not filled holds other bytes in each run."""
import json
import os
import sys
import unittest

from harness import ToolTest, need

need("torch")

# Operators that hand out memory, resize it, fill it in parts, or hand it to others before they fill it.
MEMORY = """
import torch
torch.manual_seed(0)
x, y = torch.randn(16, 1), torch.randn(16, 1)
w = torch.randn(1, requires_grad=True)
for _ in range(2):
    torch.nn.functional.mse_loss(x * w, y).backward()
print(w.grad.item())
matrix, image = torch.randn(3, 3), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
print(torch.linalg.lstsq(torch.randn(2, 3), torch.randn(2, 3)).solution.sum().item())
print(torch.nn.functional.interpolate(image.requires_grad_(), (3, 3), mode="bilinear").sum().item())
print(torch.block_diag(matrix, matrix).sum().item(), torch.combinations(torch.arange(5)).sum().item())
print(torch.linalg.multi_dot([matrix, matrix, matrix]).sum().item(), torch.linalg.matrix_exp(matrix).sum().item())
scores = torch.randn(20, 2, 6).log_softmax(2).requires_grad_()
lengths = torch.full((2,), 20), torch.tensor([3, 2])
loss = torch.nn.functional.ctc_loss(scores, torch.randint(1, 6, (2, 3)), *lengths)
loss.backward()
print(loss.item(), scores.grad.sum().item())
out = torch.empty(0)
torch.add(matrix, 1, out=out)
small = torch.ones(2)
small.resize_(5)[2:] = 3
strided, like, new = torch.empty_strided((2, 3), (3, 1)), torch.empty_like(matrix), matrix.new_empty(4)
for each in (strided, like, new):
    each.select(0, 0).fill_(1)
print(out.sum().item(), small.sum().item(), strided[0].sum().item(), like[0].sum().item(), new[0].item())
given = torch.empty(0)
given.set_(matrix.untyped_storage(), 0, (9,))
print(given.sum().item(), torch.ones(2).resize_as_(torch.zeros(2)).sum().item())
"""


class Healthy(ToolTest):
    def recorded_twice(self, program, *options):
        """Two recordings of it, with another byte in memory that is handed out; and what it printed."""
        (self.folder / "program.py").write_text(program)
        printed = []
        for name, byte in (("A", "37"), ("B", "178")):
            done = self.tool("exec", "--force", "-o", name, *options, "--", sys.executable, "program.py",
                             env={**os.environ, "MALLOC_PERTURB_": byte})
            self.assertEqual(done.code, 0, done.stderr)
            printed.append(done.stdout)
        self.assertEqual(*printed)
        return "A", "B"

    def test_memory_that_is_not_filled_yet(self):
        for depth in ("top", "leaf", "all"):
            with self.subTest(depth=depth):
                done = self.tool("diff", *self.recorded_twice(MEMORY, "--depth", depth), "--format", "json")
                self.assertEqual(done.code, 0, json.loads(done.stdout)["verdict"]["headline"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
