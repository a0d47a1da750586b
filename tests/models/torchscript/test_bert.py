# SPDX-License-Identifier: Apache-2.0
"""BERT of base width, traced: attention, layer norms, dropout."""
import harness

harness.need("torch", "transformers", "numpy")

import numpy
import torch

from torchscript import architectures, model_checks


class Bert(model_checks.ModelChecks):
    build = staticmethod(architectures.bert)
    inputs = architectures.BERT_INPUTS
    layer = "encoder.layer.2.attention.self.key"
    changed_operator = r"aten::linear"
    modules = ("embeddings.word_embeddings", "encoder.layer.0.attention.self.query",
               "encoder.layer.3.output.LayerNorm", "pooler.dense")

    @staticmethod
    def example():
        rng = numpy.random.default_rng(5)
        return (torch.from_numpy(rng.integers(0, 1000, (2, 16))),
                torch.ones(2, 16, dtype=torch.int64))

    def train_mode(self, disable_dropout: bool, expected: int) -> dict:
        scripted, _ = architectures.bert(train=True)
        return self.run_config(
            expected, model={"path": self.save("train.pt", scripted), "mode": "train"},
            inputs=self.inputs, disable_dropout=disable_dropout,
            runs=[{"name": "baseline", "seed": 1}, {"name": "candidate", "seed": 2}])

    def test_dropout_with_two_seeds(self):
        report = self.train_mode(disable_dropout=False, expected=1)
        first = report["first_divergence"]
        self.assertEqual(report["verdict"]["kind"], "rng")
        self.assertEqual(first["key"]["operator"], "aten::dropout")
        self.assertEqual(first["key"]["module"], "embeddings.dropout")
        dropouts = [index for index, op in enumerate(self.operators("baseline"))
                    if op["operator"] == "aten::dropout"]
        self.assertEqual(first["op_index"]["baseline"], dropouts[0])

    def test_no_dropout_with_two_seeds(self):
        report = self.train_mode(disable_dropout=True, expected=0)
        self.assert_reproducible(report, 100)


if __name__ == "__main__":
    harness.main()
