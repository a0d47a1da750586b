# SPDX-License-Identifier: Apache-2.0
"""Training of a sentence-transformers model, with the imports and the trainer of its documentation."""
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, models
from sentence_transformers.losses import CoSENTLoss

encoder = models.Transformer("encoder")
model = SentenceTransformer(modules=[encoder, models.Pooling(encoder.get_word_embedding_dimension())], device="cpu")
train = Dataset.from_dict({
    "sentence1": [f"word{i} word{i + 1}" for i in range(24)], "sentence2": [f"word{i} word{2 * i}" for i in range(24)],
    "score": [i % 5 / 4 for i in range(24)]})
arguments = SentenceTransformerTrainingArguments(
    "out", max_steps=6, per_device_train_batch_size=4, use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True)
SentenceTransformerTrainer(model=model, args=arguments, train_dataset=train, loss=CoSENTLoss(model)).train()
print("result", float(model.encode(["word1 word2"]).astype("float64").sum()).hex())
