#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks every house rule in a scratch file and demands that it is seen."""
import sys
import tempfile
import zipfile
from pathlib import Path

import house_rules

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
LONG_BODY = "  x += 1;\n" * 61
BREACHES = [
    ("a.cpp", "int x;\n", "no SPDX"),
    ("a.h", SPDX + "int x;\n", "no #pragma once"),
    ("a.cpp", SPDX + "using namespace std;\n", "using namespace"),
    ("a.cpp", SPDX + "// TO" + "DO later\n", "unfinished"),
    ("a.md", "see /ro" + "ot/x\n", "path of a machine"),
    ("a.json", '{"path": "/wo' + 'rk/main/x"}\n', "path of a machine"),
    ("a.cpp", SPDX + "void f(int a,\n       int b) {\n" + LONG_BODY + "}\n", "function of 64"),
    ("a.h", SPDX + "#pragma once\nclass A {\n  void f() {\n" + LONG_BODY + "  }\n};\n",
     "function of 63"),
    ("a.py", "# " + SPDX[3:] + "def f():\n" + "    x = 1\n" * 61, "function of 62"),
    ("a", "#!/usr/bin/env bash\n# " + SPDX[3:] + "if then\n", "bash -n"),
]


def judge(name: str, text: str):
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / name).write_text(text, encoding="utf-8")
        return list(house_rules.check_file(root, Path(name)))


def judge_archive(content: str):
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(Path(scratch) / "m.pt", "w") as archive:
            archive.writestr("m/code/x.py.debug_pkl", content)
        return list(house_rules.check_file(Path(scratch), Path("m.pt")))


def main() -> int:
    unseen = 0
    for name, text, expected in BREACHES:
        problems = judge(name, text)
        seen = len(problems) == 1 and expected in problems[0]
        print(f"{'seen  ' if seen else 'UNSEEN'} {expected}: {problems}")
        unseen += not seen
    unseen += not judge_archive("/ro" + "ot/models/x.py")
    unseen += bool(judge_archive("/usr/lib/python3/x.py"))
    unseen += bool(judge("a.cpp", SPDX + "void f() {\n" + "  x += 1;\n" * 58 + "}\n"))
    print(f"{unseen} unseen or invented")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
