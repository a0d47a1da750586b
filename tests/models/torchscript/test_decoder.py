# SPDX-License-Identifier: Apache-2.0
"""A GPT-2-like decoder, scripted, with a loop that really runs in TorchScript."""
import harness

harness.need("torch", "transformers", "numpy")

import numpy
import torch

from torchscript import architectures, model_checks


class Decoder(model_checks.ModelChecks):
    build = staticmethod(architectures.decoder)
    inputs = architectures.DECODER_INPUTS
    layer = "h.1.mlp.0"
    changed_operator = r"aten::linear"
    modules = ("wte", "h.0.c_attn", "h.2.mlp.2", "ln_f")

    @staticmethod
    def example():
        rng = numpy.random.default_rng(5)
        return (torch.from_numpy(rng.integers(1, 97, (2, 5))),)

    def test_loop_of_another_length(self):
        """One step more on one side: the streams part where the loop ends."""
        self.save("m.pt", self.scripted)
        _, eager = architectures.decoder()
        eager.steps = 7
        self.save("longer.pt", torch.jit.script(eager))
        report = self.run_config(
            1, model={"path": "m.pt"}, inputs=self.inputs,
            runs=[{"name": "baseline"}, {"name": "candidate", "model": {"path": "longer.pt"}}])
        self.assertIn(report["verdict"]["kind"], ("control_flow", "missing"))
        self.assertGreater(report["coverage"]["missing_in_baseline"], 50)
        self.assertEqual(report["coverage"]["missing_in_candidate"], 0)


if __name__ == "__main__":
    harness.main()
