# SPDX-License-Identifier: Apache-2.0
"""Quantised layers: their packed weights are recorded, named and compared, and their operators repeat."""
import harness

harness.need("torch")

import torch
from torch import Tensor, nn

FLOATS = [{"generate": "normal", "shape": [3, 2, 8], "dtype": "float32", "seed": 3}]
IMAGES = [{"generate": "normal", "shape": [2, 2, 6, 6], "dtype": "float32", "seed": 3}]
ENGINES = torch.backends.quantized.supported_engines


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 6)
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.lstm(x)[0])


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = torch.ao.quantization.QuantStub()
        self.conv = nn.Conv2d(2, 3, 3)
        self.fc = nn.Linear(3, 2)
        self.leave = torch.ao.quantization.DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.fc(self.conv(self.enter(x)).mean([2, 3])))


def dynamic(change=None, dtype=torch.qint8) -> torch.jit.ScriptModule:
    torch.manual_seed(1)
    model = Recurrent().eval()
    if change is not None:
        change(model)
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.LSTM, nn.Linear}, dtype=dtype)
    return torch.jit.script(quantised)


def static(change=None) -> torch.jit.ScriptModule:
    torch.manual_seed(1)
    model = Image().eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig(torch.backends.quantized.engine)
    prepared = torch.ao.quantization.prepare(model)
    prepared(torch.randn(4, 2, 6, 6))
    if change is not None:
        change(prepared)
    return torch.jit.script(torch.ao.quantization.convert(prepared))


def flip(weight: Tensor):
    """Another sign at one place: no scale moves."""
    with torch.no_grad():
        weight.view(-1)[3] *= -1


@harness.unittest.skipUnless(any(engine != "none" for engine in ENGINES), "no quantised kernels")
class Quantised(harness.ToolTest):
    def compare(self, expected: int, first, second, inputs, **fields) -> dict:
        first.save(str(self.folder / "a.pt"))
        second.save(str(self.folder / "b.pt"))
        return self.run_config(expected, inputs=inputs, model={"path": "a.pt"},
                               runs=[{"name": "a"}, {"name": "b", "model": {"path": "b.pt"}}], **fields)

    def check_changed(self, build, change, inputs, operator: str, state: str):
        report = self.compare(1, build(), build(change), inputs)
        self.assertEqual(report["verdict"]["kind"], "weights", report["verdict"])
        first = report["first_divergence"]
        self.assertEqual(first["key"]["operator"], operator)
        self.assertEqual(first["relation"], "origin")
        self.assertIn(state, first["cause"]["evidence"])
        named = {item["pointer"]: item for item in report["differences"]}
        self.assertEqual(named["parameter." + state]["metrics"]["n_diff"], 1)

    def check_replays(self, operators: list):
        shown = {op["operator"]: op["index"] for op in self.operators("a")}
        for operator in operators:
            result = self.tool("replay", "repro-check-out/a", "--op", shown[operator], "--calls", 3)
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
        refused = self.tool("extract", "repro-check-out/a", "--op", shown[operators[0]], "-o", "r.py")
        self.assertEqual(refused.code, 4, refused.stdout + refused.stderr)
        self.assertIn("packed weights", refused.stderr)

    def test_equal_models_and_their_operators_again(self):
        dump = {"level": "tensor"}
        self.assert_reproducible(self.compare(0, dynamic(), dynamic(), FLOATS, dump=dump), 5)
        self.check_replays(["quantized::linear_dynamic", "aten::quantized_lstm.input"])
        self.assert_reproducible(self.compare(0, static(), static(), IMAGES, dump=dump), 3)
        self.check_replays(["quantized::linear", "quantized::conv2d.new"])

    @harness.unittest.skipUnless("fbgemm" in ENGINES, "nothing packs float16")
    def test_weights_in_float16_and_their_operators_again(self):
        models = [dynamic(dtype=torch.float16) for _ in range(2)]
        self.assert_reproducible(self.compare(0, *models, FLOATS, dump={"level": "tensor"}), 2)
        operators = ["quantized::linear_dynamic_fp16", "aten::quantized_lstm.input"]
        self.check_replays(operators)
        for op in self.operators("a"):
            if op["operator"] in operators:
                result = self.tool("replay", "repro-check-out/a", "--op", op["index"])
                self.assertIn("it does not run in float64", result.stdout)

    def test_one_weight_of_a_dynamic_linear(self):
        self.check_changed(dynamic, lambda m: flip(m.fc.weight), FLOATS, "quantized::linear_dynamic",
                           "fc._packed_params._packed_params.weight")

    def test_one_weight_of_a_dynamic_lstm(self):
        self.check_changed(dynamic, lambda m: flip(m.lstm.weight_hh_l0), FLOATS, "aten::quantized_lstm.input",
                           "lstm._all_weight_values.0.param.hh.weight")

    def test_one_weight_of_a_static_convolution(self):
        self.check_changed(static, lambda m: flip(m.conv.weight), IMAGES, "quantized::conv2d.new",
                           "conv._packed_params.weight")

    def test_one_weight_of_a_static_linear(self):
        self.check_changed(static, lambda m: flip(m.fc.weight), IMAGES, "quantized::linear",
                           "fc._packed_params._packed_params.weight")


if __name__ == "__main__":
    harness.main()
