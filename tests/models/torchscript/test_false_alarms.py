# SPDX-License-Identifier: Apache-2.0
"""Where nothing differs nothing is said: calls of TorchScript's compiler, modules of another name,
transformer families, many runs each. (Forks have a test of their own.)"""
import json
from collections import OrderedDict

import harness

harness.need("torch", "transformers")

import torch
import transformers
from torch import Tensor, nn

from torchscript import architectures

RUNS = 20
TOKENS = {"generate": "randint", "low": 1, "high": 97, "shape": [2, 12], "dtype": "int64", "seed": 3}


class Constants(nn.Module):
    """Equal and unequal constants, in the main line, in a loop and in forks of forks: whoever
    compiles it compares them."""

    def leaf(self, x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0]) + torch.tensor([1.0, 2.0]) - torch.tensor([1.0, 3.0])

    def branch(self, x: Tensor) -> Tensor:
        other = torch.jit.fork(self.leaf, x)
        return self.leaf(torch.sin(x)) + torch.jit.wait(other)

    def forward(self, x: Tensor) -> Tensor:
        one = torch.jit.fork(self.branch, x)
        two = torch.jit.fork(self.branch, x + 1)
        total = torch.cos(x)
        for _ in range(3):
            total = self.leaf(total)
        total = total + torch.jit.wait(one) + torch.jit.wait(two)
        late = torch.jit.fork(self.branch, total)
        return torch.jit.wait(late) - total


class Layer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.linear(x))


class Passing(nn.Module):
    """Does nothing but call what it holds."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)


def network(stem: str = "stem", wrapped: bool = False) -> nn.Module:
    torch.manual_seed(5)
    body = nn.Sequential(Layer(16), Layer(16))
    parts = [(stem, Layer(16)), ("body", body), ("norm", nn.LayerNorm(16)), ("last", nn.Tanh())]
    if wrapped:
        body[1] = Passing(body[1])
    return nn.Sequential(OrderedDict(parts)).eval()


class Summed(nn.Module):
    """Makes calls of its own as well."""

    def __init__(self):
        super().__init__()
        self.part = network()

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.part(x)) + x


class FalseAlarms(harness.ToolTest):
    def save(self, name: str, module: nn.Module):
        torch.jit.script(module.eval()).save(self.folder / name)

    def fields(self, baseline: nn.Module, candidate: nn.Module, count: int = 2) -> dict:
        """The baseline once, the candidate in every other run."""
        self.save("a.pt", baseline)
        self.save("b.pt", candidate)
        x = {"generate": "normal", "shape": [4, 16], "dtype": "float32", "seed": 3}
        runs = [{"name": "baseline"}] + [{"name": f"candidate-{i}", "model": {"path": "b.pt"}}
                                         for i in range(1, count)]
        return {"model": {"path": "a.pt"}, "inputs": [x], "runs": runs}

    def compare(self, baseline: nn.Module, candidate: nn.Module, expected: int = 0) -> dict:
        return self.run_config(expected, **self.fields(baseline, candidate))

    def check_renamed(self, baseline: nn.Module, candidate: nn.Module, note: str):
        config = self.write_config(self.fields(baseline, candidate, RUNS))
        result = self.tool("run", "-c", config, "--format", "json", "--force")
        self.assertEqual(result.code, 0, result.stdout[:3000] + result.stderr[-3000:])
        reports = json.loads(result.stdout)
        self.assertEqual(len(reports), RUNS - 1)
        for report in reports:
            self.assert_reproducible(report, 7)
            self.assertIn(note, " ".join(report["warnings"]))

    def check_compiler(self, **more):
        self.save("model.pt", Constants())
        x = {"generate": "normal", "shape": [3, 2], "dtype": "float32", "seed": 3}
        report = self.run_config(0, "-n", RUNS, model="model.pt", inputs=[x], interop_threads=4,
                                 **more)
        self.assert_reproducible(report, 30)
        called = {op["operator"] for op in self.operators("run-1")}
        self.assertNotIn("aten::equal", called)

    def test_calls_of_the_compiler(self):
        self.check_compiler()

    def test_calls_of_the_optimising_compiler(self):
        self.check_compiler(optimize_executor=True)

    def test_a_renamed_module(self):
        self.check_renamed(network("stem"), network("front"),
                           "module front of the candidate is taken for stem of the baseline")

    def test_a_module_that_does_nothing_around_another(self):
        for baseline, candidate in ((False, True), (True, False)):
            self.check_renamed(network(wrapped=baseline), network(wrapped=candidate),
                               "body.1.module")

    def test_the_whole_model_in_another(self):
        report = self.compare(Summed(), Passing(Summed()))
        self.assert_reproducible(report, 7)
        self.assertIn("module module of the candidate is taken for the root of the baseline",
                      " ".join(report["warnings"]))

    def test_a_renamed_module_with_another_weight_is_a_weight(self):
        other = network("front")
        with torch.no_grad():
            other.front.linear.weight[0, 0] += 1
        report = self.compare(network("stem"), other, 1)
        self.assertEqual(report["verdict"]["kind"], "weights")
        self.assertEqual(report["coverage"]["missing_in_candidate"], 0)

    def check_family(self, model: nn.Module):
        torch.manual_seed(7)
        example = torch.randint(1, 97, (2, 12))
        traced = torch.jit.trace(model.eval(), example, check_trace=False, strict=False)
        traced.save(self.folder / "model.pt")
        report = self.run_config(0, "-n", RUNS, model="model.pt", inputs=[TOKENS], threads=1)
        self.assert_reproducible(report, 40)

    def test_bert(self):
        config = transformers.BertConfig(
            num_hidden_layers=2, vocab_size=97, hidden_size=64, intermediate_size=128,
            num_attention_heads=4, attn_implementation="eager", return_dict=False)
        self.check_family(transformers.BertModel(config))

    def test_gpt(self):
        config = transformers.GPT2Config(
            n_layer=2, vocab_size=97, n_embd=64, n_head=4, n_positions=64, use_cache=False,
            attn_implementation="eager", return_dict=False)
        self.check_family(transformers.GPT2Model(config))

    def test_t5(self):
        config = transformers.T5Config(
            num_layers=2, vocab_size=97, d_model=64, d_kv=16, d_ff=128, num_heads=4,
            use_cache=False, return_dict=False)
        self.check_family(transformers.T5EncoderModel(config))

    def test_a_decoder_with_a_loop(self):
        scripted, _ = architectures.decoder()
        scripted.save(self.folder / "model.pt")
        report = self.run_config(0, "-n", RUNS, model="model.pt", inputs=architectures.DECODER_INPUTS)
        self.assert_reproducible(report, 100)


if __name__ == "__main__":
    harness.main()
