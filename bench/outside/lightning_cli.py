# SPDX-License-Identifier: Apache-2.0
"""The first example of LightningCLI's documentation, with the demos that Lightning ships."""
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringDataModule, DemoModel


def cli_main():
    LightningCLI(DemoModel, BoringDataModule)


if __name__ == "__main__":
    cli_main()
