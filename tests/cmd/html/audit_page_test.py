#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of an audit in headless Chromium: `audit_page_test.py TOOL MAKE_DUMP [--keep DIR]`. Exit 77 where there is
no Chromium."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import browser


def describe(folder):
    """A recording of ten operators, the sixth of which is a copy onto its own source."""
    values = {"dtype": "float32", "shape": [2]}
    tensors = {f"t{at}": {**values, "storage": "rows", "values": [at, 1]} for at in range(3)}
    line = {"source": "<b>model.py:5", "module": "a&b"}
    ops = [{"operator": "aten::relu", "inputs": {"self": "t0"}, "outputs": ["t0"], **line} for _ in range(10)]
    ops[5] = {"operator": "aten::copy_", "inputs": {"self": "t0", "src": "t1"}, "outputs": ["t2"], **line, "step": 0}
    fixture = {"run": "run", "manifest": {"method": "program", "level": "digest"}, "tensors": tensors, "ops": ops}
    (folder / "fixture.json").write_text(json.dumps(fixture), encoding="utf-8")


def main():
    if browser.find() is None:
        print("skipped: no Chromium")
        return 77
    tool, make = map(Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="repro-check-page-") as name:
        folder = Path(name)
        describe(folder)
        subprocess.run([make.resolve(), "fixture.json", "run"], check=True, cwd=folder)
        words = [tool.resolve(), "audit", "run", "--report", "html=page.html", "-q"]
        audited = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert audited.returncode == 1, audited
        page = browser.Browser()
        try:
            for width in (1280, 1920):
                for scheme in ("light", "dark"):
                    page.resize(width, 1000)
                    page.scheme(scheme)
                    page.open(folder / "page.html", wait="document.readyState === 'complete'")
                    assert not page.problems, page.problems
                    assert page.run("document.documentElement.scrollWidth <= innerWidth")
                    if len(sys.argv) > 3:
                        page.screenshot(Path(sys.argv[4]) / f"audit-{width}-{scheme}.png", whole=True)
            heading = page.run("document.querySelector('h1').textContent")
            assert heading.startswith("PROOF") and "copy-did-not-copy" in heading, heading
            # The finding stands before the rules, with its place: at the middle of the recording.
            first, bar, rules = page.run("[...document.querySelectorAll('.why h2, .values svg, .text h2')].map("
                                         "each => each.getBoundingClientRect().top)")[:3]
            assert first < rules and bar < rules, (first, bar, rules)
            assert page.run("document.querySelector('.values svg').getAttribute('aria-label')") == "operator 5 of 10"
            assert page.run("document.querySelectorAll('.values svg rect')[1].getAttribute('x')") == "496"
            assert "<b>model.py:5" in page.run("document.querySelector('.facts').textContent")
        finally:
            page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
