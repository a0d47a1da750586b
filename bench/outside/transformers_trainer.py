# SPDX-License-Identifier: Apache-2.0
"""Trainer of transformers, imported before torch as its documentation does: `transformers_trainer.py [resume]`."""
import sys

from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments
from transformers import BertConfig, BertForSequenceClassification
from datasets import load_dataset
import torch

rows = load_dataset("json", data_files="reviews.jsonl", split="train")
tokenizer = AutoTokenizer.from_pretrained("model")
tokenized = rows.map(lambda row: tokenizer(row["text"]))
torch.manual_seed(3)
model = BertForSequenceClassification(BertConfig(
    vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64))
arguments = TrainingArguments("out", max_steps=8, per_device_train_batch_size=4, use_cpu=True, save_steps=4,
                              report_to=[], disable_tqdm=True)
trainer = Trainer(model, arguments, train_dataset=tokenized, data_collator=DataCollatorWithPadding(tokenizer))
trainer.train(resume_from_checkpoint="out/checkpoint-4" if sys.argv[1:] else None)
print("result", sum(p.double().sum().item() for p in model.parameters()).hex())
