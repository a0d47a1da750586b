#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each sentence of the lists in docs/SECURITY.md has a test behind it, which is there: `security_page.py ROOT`. Behind
the name of a file stand those of its tests; none stands for all of them."""
import re
import sys
from pathlib import Path

REFERENCE = re.compile(r"<!-- ([\w./-]+): *(.*?) *-->")


def problems_of(root: Path, line: str):
    references = REFERENCE.findall(line)
    if not references:
        yield f"no test: {line}"
    if len(re.findall(r"[.;] +[A-Z]", REFERENCE.sub("", line))) > 0:
        yield f"more than one sentence: {line}"
    for file, names in references:
        if not (root / file).is_file():
            yield f"{file} is not there"
            continue
        text = (root / file).read_text(encoding="utf-8")
        wanted = names.split() if file.endswith(".py") else [names] if names else []
        for name in wanted:
            spelled = f"def {name}(" if file.endswith(".py") else f'TEST_CASE("{name}")'
            if spelled not in text:
                yield f"{file} has no test {name}"


def main() -> int:
    root = Path(sys.argv[1])
    text = (root / "docs/SECURITY.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    problems = [problem for line in lines for problem in problems_of(root, line)]
    print("\n".join(problems))
    print(f"{len(lines)} sentences, {len(problems)} problems")
    return 1 if problems or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
