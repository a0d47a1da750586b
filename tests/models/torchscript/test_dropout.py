# SPDX-License-Identifier: Apache-2.0
"""Every door through which dropout comes in. Shut, two seeds give the same bits; open, they do not,
and the verdict names the operator and says that the generators started from different states."""
import harness

harness.need("torch", "numpy")

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def floats(*shape: int) -> list:
    return [{"generate": "normal", "shape": list(shape), "dtype": "float32", "seed": 3}]


class Wrapped(nn.Module):
    """Ordinary operators before and after the module under test."""

    def __init__(self, drop: nn.Module):
        super().__init__()
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.drop(x * 1.5)) + 1


class Functional(nn.Module):
    """Says training=True itself: no mode of the module reaches it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x * 1.5, 0.4, training=True) + 1


class FunctionalFamily(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout2d(x, 0.4, training=True)
        x = F.dropout3d(x, 0.4, training=True)
        x = F.alpha_dropout(x, 0.4, training=True)
        return F.feature_alpha_dropout(x, 0.4, training=True)


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.5
        F.dropout(x, 0.4, training=True, inplace=True)
        return F.alpha_dropout(x, 0.4, training=True, inplace=True)


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x * 1.5, x, x, dropout_p=0.4)


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, dropout=0.4)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class Recurrent(nn.Module):
    def __init__(self, layers: nn.Module):
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x * 1.5)[0]


class Dropout(harness.ToolTest):
    def check(self, model, inputs: list, operator: str, module: str = "", mode: str = "train"):
        torch.jit.save(model, str(self.folder / "m.pt"))
        common = {"model": {"path": "m.pt", "mode": mode}, "inputs": inputs,
                  "runs": [{"name": "baseline", "seed": 1}, {"name": "candidate", "seed": 2}]}
        shut = self.run_config(0, disable_dropout=True, **common)
        self.assert_reproducible(shut, 0)
        self.assertEqual(shut["rng"], [])

        opened = self.run_config(1, disable_dropout=False, **common)
        first = opened["first_divergence"]
        self.assertEqual(opened["verdict"]["kind"], "rng", opened["verdict"])
        self.assertRegex(first["key"]["operator"], operator + r"(\.\w+)?$")
        self.assertEqual(first["key"]["module"], module)

    def check_scripted(self, model: nn.Module, *arguments, **options):
        self.check(torch.jit.script(model.train()), *arguments, **options)

    def test_dropout(self):
        self.check_scripted(Wrapped(nn.Dropout(0.4)), floats(8, 8), "aten::dropout", "drop")

    def test_dropout_inside_a_container(self):
        model = Wrapped(nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Dropout(0.4))))
        self.check_scripted(model, floats(8, 8), "aten::dropout", "drop.1.1")

    def test_dropout_1d(self):
        self.check_scripted(
            Wrapped(nn.Dropout1d(0.4)), floats(4, 8, 8), "aten::feature_dropout", "drop")

    def test_dropout_2d(self):
        self.check_scripted(
            Wrapped(nn.Dropout2d(0.4)), floats(4, 8, 4, 4), "aten::feature_dropout", "drop")

    def test_dropout_3d(self):
        self.check_scripted(
            Wrapped(nn.Dropout3d(0.4)), floats(4, 8, 2, 4, 4), "aten::feature_dropout", "drop")

    def test_alpha_dropout(self):
        self.check_scripted(
            Wrapped(nn.AlphaDropout(0.4)), floats(8, 8), "aten::alpha_dropout", "drop")

    def test_feature_alpha_dropout(self):
        self.check_scripted(Wrapped(nn.FeatureAlphaDropout(0.4)), floats(4, 8, 4, 4),
                            "aten::feature_alpha_dropout", "drop")

    def test_functional(self):
        self.check_scripted(Functional(), floats(8, 8), "aten::dropout")

    def test_functional_in_eval_mode(self):
        self.check_scripted(Functional(), floats(8, 8), "aten::dropout", mode="eval")

    def test_functional_family(self):
        self.check_scripted(
            FunctionalFamily(), floats(4, 8, 2, 4, 4), "aten::feature_dropout", mode="eval")

    def test_in_place(self):
        self.check_scripted(InPlace(), floats(8, 8), "aten::dropout_")

    def test_in_place_module(self):
        self.check_scripted(
            Wrapped(nn.Dropout(0.4, inplace=True)), floats(8, 8), "aten::dropout_", "drop")

    def test_scaled_dot_product_attention(self):
        if not hasattr(F, "scaled_dot_product_attention"):
            self.skipTest("this torch has no scaled_dot_product_attention")
        self.check_scripted(
            Attention(), floats(2, 4, 8, 16), "aten::scaled_dot_product_attention")

    def test_multihead_attention(self):
        self.check_scripted(MultiHead(), floats(6, 2, 16),
                            "aten::(dropout|_?scaled_dot_product_attention)", "attention")

    def test_lstm_between_layers(self):
        model = Recurrent(nn.LSTM(8, 8, num_layers=2, dropout=0.4))
        self.check_scripted(model, floats(5, 3, 8), "aten::lstm", "layers")

    def test_gru_between_layers(self):
        model = Recurrent(nn.GRU(8, 8, num_layers=2, dropout=0.4))
        self.check_scripted(model, floats(5, 3, 8), "aten::gru", "layers")

    def test_rnn_between_layers(self):
        model = Recurrent(nn.RNN(8, 8, num_layers=2, dropout=0.4))
        self.check_scripted(model, floats(5, 3, 8), "aten::rnn_tanh", "layers")

    def test_traced_in_train_mode(self):
        """The flag is an argument in the trace: eval mode does not reach it."""
        model = torch.jit.trace(Wrapped(nn.Dropout(0.4)).train(), torch.randn(8, 8),
                                check_trace=False)
        self.check(model, floats(8, 8), "aten::dropout", "drop", mode="eval")

    def test_frozen(self):
        model = torch.jit.freeze(torch.jit.script(Functional().eval()))
        self.check(model, floats(8, 8), "aten::dropout", mode="as_saved")

    def test_saved_in_train_mode(self):
        self.check_scripted(
            Wrapped(nn.Dropout(0.4)), floats(8, 8), "aten::dropout", "drop", mode="as_saved")

    def test_eval_mode_needs_no_help(self):
        torch.jit.save(torch.jit.script(Wrapped(nn.Dropout(0.4))), str(self.folder / "m.pt"))
        report = self.run_config(
            0, model={"path": "m.pt", "mode": "eval"}, inputs=floats(8, 8), disable_dropout=False,
            runs=[{"name": "baseline", "seed": 1}, {"name": "candidate", "seed": 2}])
        self.assert_reproducible(report, 0)


if __name__ == "__main__":
    harness.main()
