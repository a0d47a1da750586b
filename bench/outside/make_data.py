# SPDX-License-Identifier: Apache-2.0
"""Makes what the programs read, out of nothing and the same each time: `make_data.py KIND ...` in the folder of a
program. No file is fetched."""
import json
import random
import sys
from pathlib import Path

WORDS = [f"word{i}" for i in range(60)]


def sentence(draw, length=12):
    return " ".join(draw.choice(WORDS) for _ in range(length))


def tokenizer(folder="model"):
    """A tokenizer of whole words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(special + WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer, words.decoder = pre_tokenizers.WhitespaceSplit(), decoders.WordPiece()
    fast = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", bos_token="<s>",
                                   eos_token="</s>", model_max_length=64)
    fast.save_pretrained(folder)
    return fast


def language_model():
    """A Llama of two layers with random weights, and its tokenizer, in model/."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    words = tokenizer()
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, pad_token_id=0, bos_token_id=2, eos_token_id=3)).save_pretrained("model")


def encoder():
    """A BERT of two layers with random weights, and its tokenizer, in encoder/."""
    import torch
    from transformers import BertConfig, BertModel
    words = tokenizer("encoder")
    torch.manual_seed(1)
    BertModel(BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                         intermediate_size=64, max_position_embeddings=64)).save_pretrained("encoder")


def lines(file, rows):
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def texts():
    draw = random.Random(1)
    lines("texts/train.jsonl", [{"text": sentence(draw)} for _ in range(32)])


def preferences():
    draw = random.Random(1)
    lines("preferences/train.jsonl", [{"prompt": sentence(draw), "chosen": " " + sentence(draw, 6),
                                       "rejected": " " + sentence(draw, 6)} for _ in range(16)])


def reviews():
    draw = random.Random(1)
    tokenizer()
    lines("reviews.jsonl", [{"text": sentence(draw), "label": i % 2} for i in range(32)])


def characters():
    draw = random.Random(1)
    for name in ("train", "validation"):
        Path(f"{name}.txt").write_text("\n".join(sentence(draw, 30) for _ in range(40)), encoding="utf-8")


def litgpt():
    """Text files, and the tokenizer where litgpt looks for one."""
    draw = random.Random(1)
    tokenizer("tokenizer")
    for name in ("train", "validation"):
        Path(name).mkdir()
        for i in range(3):
            Path(f"{name}/{i}.txt").write_text("\n".join(sentence(draw, 40) for _ in range(20)), encoding="utf-8")


def molecules():
    draw = random.Random(1)
    rows = ["smiles,value"] + [f"{'C' * draw.randint(1, 8)}{draw.choice(['O', 'N', 'Cl', '=O', 'c1ccccc1'])},{draw.random():.4f}"
                               for _ in range(40)]
    Path("molecules.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


SPACY = """
[paths]
train = "train.spacy"
dev = "dev.spacy"
[system]
seed = 3
[nlp]
lang = "en"
pipeline = ["tok2vec", "textcat"]
[components]
[components.tok2vec]
factory = "tok2vec"
[components.tok2vec.model]
@architectures = "spacy.Tok2Vec.v2"
[components.tok2vec.model.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = 16
attrs = ["NORM", "SHAPE"]
rows = [100, 50]
include_static_vectors = false
[components.tok2vec.model.encode]
@architectures = "spacy.TorchBiLSTMEncoder.v1"
width = 16
depth = 1
dropout = 0.1
[components.textcat]
factory = "textcat"
[components.textcat.model]
@architectures = "spacy.TextCatReduce.v1"
exclusive_classes = true
use_reduce_first = false
use_reduce_last = false
use_reduce_max = false
use_reduce_mean = true
[components.textcat.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 16
[corpora]
[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}
[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}
[training]
seed = 3
max_steps = 6
eval_frequency = 3
dev_corpus = "corpora.dev"
train_corpus = "corpora.train"
"""


def spacy():
    """Documents to classify, and a configuration whose layer of words is PyTorch's LSTM."""
    import spacy
    from spacy.cli.init_config import fill_config
    from spacy.tokens import DocBin
    draw, blank = random.Random(1), spacy.blank("en")
    for name in ("train", "dev"):
        docs = []
        for i in range(20):
            docs.append(blank.make_doc(sentence(draw, 8)))
            docs[-1].cats = {"EVEN": float(i % 2 == 0), "ODD": float(i % 2)}
        DocBin(docs=docs, store_user_data=True).to_disk(f"{name}.spacy")
    Path("base.cfg").write_text(SPACY, encoding="utf-8")
    fill_config(Path("config.cfg"), Path("base.cfg"), silent=True)


def bundle():
    """A bundle of MONAI: a network, its data and its trainer in one configuration."""
    Path("train.json").write_text(json.dumps({
        "imports": ["$import torch", "$import monai"],
        "data": "$[{'image': torch.sin(torch.arange(64.) * (i + 1)).reshape(1, 8, 8), 'label': torch.tensor(i % 3)} for i in range(24)]",
        "network": {"_target_": "DenseNet", "spatial_dims": 2, "in_channels": 1, "out_channels": 3, "init_features": 8,
                    "growth_rate": 4, "block_config": [2, 2]},
        "optimizer": {"_target_": "torch.optim.Adam", "params": "$@network.parameters()", "lr": 0.01},
        "loader": {"_target_": "DataLoader", "dataset": {"_target_": "Dataset", "data": "@data"}, "batch_size": 8, "shuffle": True},
        "trainer": {"_target_": "SupervisedTrainer", "device": "$torch.device('cpu')", "max_epochs": 3,
                    "train_data_loader": "@loader", "network": "@network", "optimizer": "@optimizer",
                    "loss_function": {"_target_": "torch.nn.CrossEntropyLoss"}},
        "run": ["$monai.utils.set_determinism(3)", "$@trainer.run()", "$torch.save(@network.state_dict(), 'network.pt')"],
    }, indent=1), encoding="utf-8")


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        globals()[kind]()
