#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a gate's history in headless Chromium: `history_page_test.py TOOL [--keep DIR]`.
Exit 77 where there is no Chromium."""
import datetime
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import browser
import checks
import traces

READY = "document.documentElement?.dataset.ready === 'all'"


def line(number, gate, names, rng, **fields):
    """A gate run a day; every third diverges, every eleventh could not be judged."""
    day = datetime.date(2024, 1, 1) + datetime.timedelta(days=number)
    code = 4 if number % 11 == 10 else int(number % 3 == 2)
    first = {"phase": "forward", "operator": f"aten::addmm{rng.choice(names)}",
             "module": rng.choice(names), "occurrence": 0}
    return {"format": "repro-check-history", "version": "1.0", "time": f"{day}T06:00:00Z",
            "gate": gate, "commit": f"{rng.choice(names)}{number:040x}", "attempt": None,
            "platform_key": "3f9c2a10deadbeef3f9c2a10deadbeef",
            "status": {0: "reproducible", 1: "diverged", 4: "stale_baseline"}[code],
            "exit_code": code, "compared": 491, "origins": int(code == 1),
            "first": first if code == 1 else None,
            "ulp_max": rng.choice([1, 3, 70, 4000, "9223372036854775808"]) if code == 1 else None,
            **fields}


def write_history(file, runs, gates, names):
    rng = random.Random(runs)
    lines = [json.dumps(line(i, gate, names, rng)) for i in range(runs) for gate in gates]
    file.write_text("\n".join([*lines, "{ cut"]) + "\n", encoding="utf-8")


def make_page(tool, folder, name, runs, gates, names=("",)):
    write_history(folder / f"{name}.jsonl", runs, gates, names)
    words = [tool, "report", "--history", f"{name}.jsonl"]
    plain = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert plain.returncode == 0, plain
    result = subprocess.run([*words, "--report", f"html={name}.html"], cwd=folder,
                            capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, plain.stdout), result
    alone = subprocess.run([*words, "--report", "html=-"], cwd=folder, capture_output=True)
    assert alone.stdout == (folder / f"{name}.html").read_bytes(), "stdout is not the page alone"
    return folder / f"{name}.html", plain.stdout.split("\n")[0]


def refusals(tool, folder):
    for words in (["--report", "junit=x.xml"], ["--report", "html=small.jsonl/x.html"]):
        result = subprocess.run([tool, "report", "--history", "small.jsonl", *words], cwd=folder,
                                capture_output=True, text=True)
        assert result.returncode == 2 and result.stdout == "", result


def check_page(page, file, headline, gates):
    page.open(file, wait=READY)
    checks.settle(page)
    assert not page.problems, (file, page.problems)
    assert page.requests == [file.resolve().as_uri()], page.requests
    heading = page.run("document.querySelector('h1').textContent")
    assert heading == headline, (heading, headline)
    assert page.run("document.querySelectorAll('.plot canvas').length") == gates
    assert page.run("document.querySelectorAll('.trend table').length") == 2 * gates
    for color in ("--accent", "--origin"):
        assert checks.count_pixels(page, color) > 20, (color, checks.count_pixels(page, color))
    lanes = page.run("document.querySelector('.lanes').toDataURL().length")
    assert lanes > 300, lanes


def check_hostile(page, file, headline):
    check_page(page, file, headline, 1)
    assert page.run("window.__pwned") is None, "a name was executed"
    text = page.run("document.querySelector('.trend').innerText")
    assert "</script><script>window.__pwned=1</script>" in text, text[:2000]
    assert "\u202e" not in text and "\x1b" not in text


def check_hover(page, file):
    page.open(file, wait=READY)
    page.run("document.querySelector('.timeline').scrollIntoView({block: 'center'})")
    box = page.run("(() => { const b = document.querySelector('.u-over').getBoundingClientRect();"
                   "return [b.left, b.top, b.width, b.height] })()")
    # Of 60 runs the 36th, which diverged.
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] * 35.5 / 60,
              y=box[1] + box[3] / 2)
    page.until("!document.querySelector('.tip').hidden", seconds=10)
    tip = page.run("document.querySelector('.tip').innerText")
    assert "2024-02-05" in tip and "diverged" in tip and "aten::addmm" in tip, tip


def main() -> int:
    if not browser.find():
        print("skipped: no chromium")
        return 77
    tool = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[3] if sys.argv[2:3] == ["--keep"] else scratch)
        small = make_page(tool, folder, "small", 60, ["bert", "resnet"])
        hostile = make_page(tool, folder, "hostile", 60, ["a gate"], traces.HOSTILE)
        # Beyond what stands in the page as it is: its data is packed.
        large = make_page(tool, folder, "large", 5000, ["bert"])
        refusals(tool, folder)
        page = browser.Browser()
        try:
            check_page(page, *small, 2)
            check_hover(page, small[0])
            check_hostile(page, *hostile)
            check_page(page, *large, 1)
            for scheme in ("dark", "light"):
                page.scheme(scheme)
                check_page(page, *small, 2)
                if folder != Path(scratch):
                    page.screenshot(folder / f"history-{scheme}.png", whole=True)
        finally:
            page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
