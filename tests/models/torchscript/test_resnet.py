# SPDX-License-Identifier: Apache-2.0
"""ResNet-50, traced: convolutions, batch norms, residual additions."""
import harness

harness.need("torch", "transformers", "numpy")

import numpy
import torch

from torchscript import architectures, model_checks


class ResNet50(model_checks.ModelChecks):
    build = staticmethod(architectures.resnet50)
    inputs = architectures.RESNET_INPUTS
    layer = "resnet.encoder.stages.1.layers.2.layer.1.convolution"
    changed_operator = r"aten::_?conv"
    modules = ("resnet.embedder.embedder.convolution",
               "resnet.encoder.stages.3.layers.2.layer.2.normalization", "classifier.1")

    @staticmethod
    def example():
        rng = numpy.random.default_rng(5)
        return (torch.from_numpy(rng.standard_normal((1, 3, 64, 64)).astype("float32")),)


if __name__ == "__main__":
    harness.main()
