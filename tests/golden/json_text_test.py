#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No JSON that is printed or written steers the terminal it is shown on, whatever a dump, a file or a
directory is called: `json_text_test.py TOOL MAKE_DUMP`.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unicodedata
import unittest

TOOL, MAKE_DUMP = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
FIXTURE = pathlib.Path(__file__).resolve().parent / "fixtures" / "three_ops.json"
# C1's CSI, bidirectional override and isolate, no width, DEL, a tag character, a command of a CI runner.
NAME = "a\x9b31m\u202eb\u2066c\u200bd\ufeffe\x7ff\U000e0041##[error]g"
# Of a directory, where bytes need not be UTF-8 either.
PLACE = os.fsencode(NAME) + b"\xff\xc3"


def steering(text):
    """The characters of a text that a terminal or a CI log would obey or hide."""
    found = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    return found | ({"##["} if "##[" in text else set())


class JsonTextTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repro-check-")
        self.addCleanup(folder.cleanup)
        self.place = os.path.join(os.fsencode(folder.name), PLACE)
        os.mkdir(self.place)
        description = json.loads(FIXTURE.read_text())
        for op in description["ops"]:
            op["module"] = op["module_type"] = op["source"] = NAME
        self.make(b"A", description)
        description["tensors"]["h"]["values"][0] = 1.3665841
        description["run"] = NAME
        self.make(b"B", description)

    def make(self, name, description):
        fixture = os.path.join(self.place, b"fixture.json")
        with open(fixture, "w", encoding="utf-8") as file:
            json.dump(description, file)
        subprocess.run([MAKE_DUMP, fixture, self.path(name)], check=True)

    def path(self, name):
        return os.path.join(self.place, name)

    def check(self, *words, code=0):
        done = subprocess.run([TOOL, *words, "--format", "json"], stdout=subprocess.PIPE, check=False)
        text = done.stdout.decode("utf-8")
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(steering(text), set(), words)
        return json.loads(text)

    def test_every_view_of_inspect(self):
        dump = self.path(b"A")
        self.check("inspect", dump)
        listed = self.check("inspect", dump, "--list")
        self.assertEqual(listed["ops"][0]["module"], NAME)
        self.check("inspect", dump, "--modules")
        self.check("inspect", dump, "--where", "nan>0")
        self.check("inspect", dump, "--verify")
        self.check("inspect", dump, "--op", "0")
        self.check("inspect", dump, "--op", "0", "--tensor", "out:0")

    def test_comparisons(self):
        self.check("diff", self.path(b"A"), self.path(b"B"), code=1)
        self.check("inspect", self.path(b"A"), "--op", "0", "--tensor", "out:0", "--against",
                   self.path(b"B"), code=1)

    def test_summaries(self):
        self.check("verify", self.path(b"A"), self.path(b"B"))
        self.check("pack", self.path(b"A"), "-o", self.path(b"A.rcpack"))
        self.check("unpack", self.path(b"A.rcpack"), "-o", self.path(b"C"))
        self.check("verify", self.path(b"fixture.json"), code=3)

    def test_the_manifest(self):
        with open(os.path.join(self.path(b"B"), b"manifest.json"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(steering(text), set())
        self.assertEqual(json.loads(text)["run_name"], NAME)


if __name__ == "__main__":
    unittest.main(verbosity=2)
