#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every finding of comparators/report/finding.h is made by some comparator, every key of a phrase has a text and every text
a comparator that says it, every field that a text asks for is set by one, and no comparator writes a sentence: `findings.py ROOT`."""
import json
import re
import sys
from pathlib import Path

IDS = "comparators/report/finding.h"
CATALOGUE = "cmd/words/catalogue.json"
PLACE = {"rank", "step", "op", "line", "tensor"}
# What a policy is, what a file of noise floors holds, and notes on what was not assessed: text in their formats.
DESCRIBED = {"comparators/measure/policy.cpp", "comparators/judge/noise.cpp", "comparators/runs/repeatability.cpp"}
# Names of what a recording lacks, of generators, of states, and lists of names of arguments, settings and operators.
NAMES = {"the content of some of its inputs", "values (overflow, flush to zero)", "NumPy's global generator",
         "whether its value was changed by another thread while in use", "an unknown count of",
         "train training p dropout dropout_p cudnn_enabled",
         "host hostname path directory time date created pid user memory uptime kernel loadavg label ", "process cwd locale",
         "device devices mkl onednn openmp cuda cudnn compiler libc blas lapack cpu.cores ",
         "libtorch os. cpu.model cpu.microcode gpu npu arch", "model. program seed generator rng disable_dropout",
         "disable_dropout dtype model.method", ": the machine gives other numbers for one computation",
         "embedding embedding_bag gather index index_select masked_fill masked_scatter masked_select ",
         "scatter index_put index_copy index_fill take take_along_dim where _unsafe_index",
         "parameters when the forward pass begins", "buffers when the forward pass begins", "clipping of gradients",
         "options of the optimizer", "made by no recorded operator", "every FindingId has its id, in its order",
         "batch|parameters|buffers|another module|generator of PyTorch|generator of the device|",
         "generator of NumPy|generator of random|generator of the loader|generator of the dataset|",
         "gradients|loss scale|state of the optimizer|step count of the optimizer|schedule",
         "right|not saved|not loaded|used up between|at another's place|not proven",
         "{}, {}: stored bytes are not as many as {} takes"}
# Lists of operators.
LISTS = {"comparators/cause/known_kernels.cpp"}
# Messages of errors are no judgements.
ERROR = re.compile(r"\b(?:throw\b|internal_error\(|usage_error\(|not_comparable\(|damaged_dump\()[^;]*;")
SENTENCE = re.compile(r'"[^"\n]*[a-z]+ [a-z]+ [a-z]+[^"\n]*"')
PREFIXES = ("", "other_")


def unique(pairs):
    """An object of JSON, which may not have a key twice."""
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        sys.exit(f"{CATALOGUE} has twice: {', '.join(twice)}")
    return dict(pairs)


def problems(enumerators, catalogue, sources, moved):
    used = set(re.findall(r"FindingId::(k\w+)", sources))
    yield from (f"nothing makes {each}" for each in enumerators if each not in used)
    keys = set(catalogue["phrases"])
    listed = re.findall(r'"([a-z0-9|-]+)"', sources)
    said = {key for keys_in_a_row in listed for key in keys_in_a_row.split("|")}
    yield from (f"nothing says the phrase {each}" for each in sorted(keys - said))
    told = re.findall(r'(?:Phrase|inherited_from|advise)\((?:\*?\w+, )?"([a-z-]+)"', sources)
    yield from (f"the phrase {each} has no text" for each in sorted(set(told) - keys))
    fields = set(re.findall(r'(?:(?:with|put)\(|\{)"([a-z_]+)",', sources))
    known = PLACE | {prefix + name for prefix in PREFIXES for name in fields}
    texts = json.dumps({name: rows for name, rows in catalogue.items() if name != "views"})  # those are of documents
    asked = set(re.findall(r"\{[?!]?([a-z_]+)[:}]", texts))
    yield from (f"a text asks for {{{name}}}, which no comparator sets" for name in sorted(asked - known))
    parts = set(re.findall(r"\{\+([a-z_]+)\}", texts))
    yield from (f"the part {each} is not used, or is not there" for each in sorted(parts ^ set(catalogue["parts"])))
    for name, text in moved.items():
        code = ERROR.sub("", re.sub(r"//.*", "", text))
        yield from (f"{name} has a sentence: {each}" for each in SENTENCE.findall(code) if each.strip('"') not in NAMES)


def selftest():
    right = {"parts": {}, "phrases": {"a-b": "{x}"}}
    says = 'FindingId::kA with("x", 1) Phrase("a-b")'
    assert not list(problems(["kA"], right, says, {"f": 'f("one two"); throw usage_error("it was so bad");'}))
    for wrong in (problems(["kA", "kB"], right, says, {}), problems(["kA"], right, says + 'Phrase("c-d")', {}),
                  problems(["kA"], {**right, "findings": "{y} is"}, says, {}), problems(["kA"], right, says.replace("x", "z"), {}),
                  problems(["kA"], right, says, {"f": '"it was not so"'}),
                  problems(["kA"], right, says, {"f": 'throw a("it was so bad"); f("it was not so");'}), problems(["kA"], {**right, "parts": {"p": ""}}, says, {}),
                  problems(["kA"], right, says.replace("a-b", "c-d"), {})):
        assert list(wrong), "a planted fault was not found"


def main() -> int:
    root = Path(sys.argv[1])
    selftest()
    head = (root / IDS).read_text(encoding="utf-8")
    body = head.split("enum class FindingId", 1)[1].split("};", 1)[0]
    ids = re.findall(r"^  (k\w+),", body, re.MULTILINE)
    files = [path for room in ("comparators", "cmd") for path in sorted((root / room).rglob("*.[ch]*")) if path.parent.name != "words"]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in files if path.suffix in (".h", ".cpp"))
    names = (path.relative_to(root).as_posix() for path in files if path.suffix in (".h", ".cpp"))
    moved = {name: (root / name).read_text(encoding="utf-8") for name in names
             if name.startswith("comparators/") and name not in DESCRIBED | LISTS}
    catalogue = json.loads((root / CATALOGUE).read_text(encoding="utf-8"), object_pairs_hook=unique)
    found = list(problems(ids, catalogue, sources, moved))
    print("\n".join(found))
    print(f"{len(ids)} findings")
    return 1 if found or not ids else 0


if __name__ == "__main__":
    sys.exit(main())
