# SPDX-License-Identifier: Apache-2.0
"""The Trainer of lightning, eight steps and a validation."""
import logging
import tempfile
import warnings

import torch
from lightning import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
        self.last = None

    def training_step(self, batch, _number):
        self.last = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        return self.last

    def validation_step(self, batch, _number):
        self.log("right", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main():
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    seed_everything(3, verbose=False)
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    model = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                          enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder)
        trainer.fit(model, DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=32))
    print(model.last.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
