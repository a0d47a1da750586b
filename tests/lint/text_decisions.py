#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing outside cmd/words/ compares, searches or cuts a sentence: what is decided is an enumerator. `text_decisions.py ROOT`"""
import re
import sys
from pathlib import Path

import source_tree

LITERAL = r'"((?:[^"\\\n]|\\.)*)"'
DECIDES = re.compile(r'(?<!")(?:[=!]=\s*|\b(?:starts_with|ends_with|contains|find|rfind|compare|count)\(\s*)' + LITERAL)
NAMED = re.compile(r"constexpr (?:std::string_view|const char\*|auto) (k\w+)(?:\{|\s*=\s*|\()\s*" + LITERAL)
WORDS = re.compile(r"[a-zA-Z]+[,;:]? [a-z]+|^ [a-z]+ $|[a-z]{2,} $")
# What others write: the kernel, libraries, their file formats; words in lines and facts of our own formats; and the
# value that a report has for a variable of the shell.
FOREIGN = {"model name", "on the same device", "nknown builtin op", "nknown type name", "Traceback of TorchScript",
           r"\nException raised from ", "ATen parallel backend: OpenMP", "parse error", "Traceback ", "<frozen ",
           "no avx", "weights ", "repro-baseline ", "repro-pending ", r"\nend ", r"\npending ", "HISTORY ", "as found", "first at ",
           "def ", r"\", line ", "torch ", "File ", ", line ", ", in "}


def problems(name, text):
    code = re.sub(r"//.*", "", text)
    sentences = {constant: said for constant, said in NAMED.findall(code) if WORDS.search(said) and said not in FOREIGN}
    for said in DECIDES.findall(code):
        if WORDS.search(said) and said not in FOREIGN:
            yield f'{name}: a decision by the text "{said}"'
    for constant, said in sentences.items():
        if re.search(r"(?:[=!]=\s*|\b(?:starts_with|ends_with|contains|find|rfind)\(\s*)" + constant + r"\b", code):
            yield f'{name}: a decision by the text "{said}"'


def selftest():
    for wrong in ('if (text == "was not recorded") {', 'text.find(" and ")', 'line.starts_with("recorded by ")',
                  'constexpr std::string_view kBy = "by a norm";\nname.find(kBy)'):
        assert list(problems("a", wrong)), wrong
    for right in ('name == "param.weight"', 'text.find(", ")', 'put("was not recorded")', 'words.contains("step")'):
        assert not list(problems("a", right)), right


def main() -> int:
    root = Path(sys.argv[1])
    selftest()
    found, files = [], 0
    for _, path in source_tree.sources(root):
        if not path.as_posix().startswith("cmd/words/"):
            files += 1
            found += problems(path.as_posix(), source_tree.read(root, path))
    print("\n".join(found))
    print(f"{files} files, {len(found)} decisions by text")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
