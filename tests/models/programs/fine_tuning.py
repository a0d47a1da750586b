# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers with a BERT of two layers, eight steps: `fine_tuning.py SEED`."""
import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


def main():
    seed = int(sys.argv[1])
    torch.manual_seed(seed)
    words = torch.Generator().manual_seed(1)
    data = [{"input_ids": torch.randint(0, 100, (12,), generator=words),
             "labels": torch.randint(0, 2, (), generator=words)} for _ in range(32)]
    model = BertForSequenceClassification(BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model=model, train_dataset=data, args=TrainingArguments(
            output_dir=folder, max_steps=8, per_device_train_batch_size=4, seed=seed, use_cpu=True,
            save_strategy="no", report_to=[], logging_steps=1, disable_tqdm=True))
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print("loss", losses[-1], sum(p.double().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
