#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page about ranks in headless Chromium: `rank_page_test.py TOOL RANK_DUMPS [--keep DIR]`. Exit 77
where there is no Chromium."""
import base64
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import browser
import checks

READY = "document.documentElement?.dataset.ready === 'all'"
RANKS, STEPS, ODD, STEP = 64, 60, 41, 12
LARGE_RANKS, LARGE_STEPS = 1024, 10_000
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def make_page(tool, make, folder, name, *fault):
    run = folder / name
    subprocess.run([make, run, *map(str, (RANKS, STEPS, 8, *fault))], check=True)
    if fault:
        shutil.rmtree(run / "rank-30")
    words = [tool, "ranks", run]
    plain = subprocess.run(words, capture_output=True, text=True)
    page = subprocess.run([*words, "--report", f"html={folder / 'page.html'}"], capture_output=True, text=True)
    assert (page.returncode, page.stdout) == (plain.returncode, plain.stdout), page
    shutil.move(folder / "page.html", folder / f"{len(fault)}.html")
    return folder / f"{len(fault)}.html", plain.stdout


def sliced(tool, folder, run, file):
    """The same page of slices that were put together."""
    slices = []
    for first in range(0, RANKS, 16):
        words = [tool, "ranks", run, "--ranks", f"{first}:{first + 16}", "--format", "jsonl"]
        slices.append(folder / f"{first}.jsonl")
        slices[-1].write_bytes(subprocess.run(words, stdout=subprocess.PIPE).stdout)
    merged = subprocess.run([tool, "report", "--merge", *slices, "--report", "html=-"], stdout=subprocess.PIPE)
    assert merged.stdout == file.read_bytes(), "slices make another page"


def make_large(small, file):
    """As many ranks and steps as a page is for, of which each parts as often as a page tells."""
    text = small.read_text(encoding="utf-8")
    data = json.loads(DATA.search(text).group(1))
    draw = random.Random(24)
    data["steps"] = LARGE_STEPS
    data["ranks"] = []
    for rank in range(LARGE_RANKS):
        runs = []
        for _ in range(900 if rank % 2 else 2):
            runs += [draw.randrange(15), 1 + draw.randrange(7), draw.randrange(6), draw.randrange(10**6), 2]
        data["ranks"].append({"rank": rank, "dump": f"run/rank-{rank}", "steps": LARGE_STEPS, "state": "",
                              "whole": True, "runs": runs})
    packed = base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()
    element = f'<script type="application/octet-stream" id="data">{packed}</script>'
    file.write_text(DATA.sub(lambda _: element, text), encoding="utf-8")
    return data


def open_quietly(page, file, part=""):
    page.open(file, part, wait=READY)
    checks.settle(page)
    assert not page.problems, (file, page.problems)
    assert page.requests == [file.resolve().as_uri()], page.requests


def click(page, rank, step, ranks, steps):
    """Where the map has that cell."""
    page.run("document.querySelector('.rank-map').scrollIntoView({block: 'center'})")
    box = page.run("(() => { const b = document.querySelector('.rank-map').getBoundingClientRect();"
                   "return [b.left, b.top, b.width, b.height] })()")
    x = box[0] + 64 + (box[2] - 64) * (step + 0.5) / steps
    y = box[1] + (box[3] - 38) * (rank + 0.5) / ranks
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    checks.settle(page)
    return page.run("document.getElementById('detail').innerText")


def check_small(page, file, text):
    open_quietly(page, file)
    heading = page.run("document.querySelector('h1').textContent")
    word, rest = text.split("\n")[0].split(": ", 1)
    assert heading == f"{word} {rest}", (heading, text)
    shown = page.run("document.querySelector('details pre').textContent")
    assert shown.rstrip() == text.rstrip(), (shown, text)
    # Its lines in the cards of the page of a run.
    cards = page.run("document.querySelector('.answers').innerText")
    for line in text.splitlines()[1:]:
        assert line.removeprefix("next: ")[0 if line.startswith("next: ") else 13:] in cards, (line, cards)


def check_parting(page, file):
    told = click(page, ODD, STEP, RANKS, STEPS)
    for word in (f"Rank {ODD}, step {STEP}: gradients", "repro_check::optimizer_step", "layers.1.weight",
                 f"rank-{ODD} --op {2 * STEP + 1}"):
        assert word in told, (word, told)
    assert page.run("location.hash") == f"#rank-{ODD}/step-{STEP}"
    assert checks.count_pixels(page, "--mismatch", ".rank-map") > 20
    # Beside it nothing is told but where that is.
    assert "as most ranks" in click(page, 5, 40, RANKS, STEPS)
    assert "is absent" in click(page, 30, 40, RANKS, STEPS)
    open_quietly(page, file, f"#rank-{ODD}/step-{STEP}")
    assert "layers.1.weight" in page.run("document.getElementById('detail').innerText")
    headings = page.run("[...document.querySelectorAll('.answers h2')].map(h => h.textContent)")
    assert headings == ["Why: some gradients not reduced", "Fix", "What was found"], headings
    cells = page.run("[...document.querySelectorAll('tbody td')].map(c => c.textContent)")
    assert cells == [str(ODD), str(STEP), "gradients", str(2 * STEP + 1), "1"], cells


def check_large(page, file, data):
    size = file.stat().st_size
    assert size <= 15e6, f"{size} bytes"
    before = page.work()[1]
    open_quietly(page, file)
    filled, layouts = page.work()
    layouts -= before
    nodes = page.run("document.querySelectorAll('*').length")
    print(f"{LARGE_RANKS} ranks by {LARGE_STEPS} steps: {size / 1e6:.1f} MB, {filled} rectangles, "
          f"{layouts} layouts, {nodes} elements")
    # A map is drawn when the page stands, and once more when its size is known.
    cells = sum(len(rank["runs"]) // 5 for rank in data["ranks"]) + LARGE_RANKS
    assert filled <= 2 * (cells + 1), (filled, cells)
    assert layouts < 50 and nodes < 5000, (layouts, nodes)
    gap, steps, kind, op, stride = data["ranks"][700]["runs"][:5]
    told = click(page, 700, gap, LARGE_RANKS, LARGE_STEPS)
    assert f"Rank 700, step {gap}: {data['kinds'][kind]['name']}" in told, told
    assert f"rank-700 --op {op}" in told, (told, op)
    before = page.work()[0]
    for _ in range(5):
        click(page, 701, 3000, LARGE_RANKS, LARGE_STEPS)
    assert page.work()[0] == before, "a click draws the map again"


def main() -> int:
    if not browser.find():
        print("skipped: no chromium")
        return 77
    tool, make = (Path(word).resolve() for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[4] if sys.argv[3:4] == ["--keep"] else scratch)
        healthy = make_page(tool, make, folder, "</script><script>window.__pwned=1<")
        parted = make_page(tool, make, folder, "run", ODD, STEP, "grad")
        sliced(tool, folder, folder / "run", parted[0])
        data = make_large(parted[0], folder / "large.html")
        page = browser.Browser()
        try:
            check_small(page, *healthy)
            assert page.run("window.__pwned") is None, "a name was executed"
            assert "as most ranks" in click(page, 5, 40, RANKS, STEPS)
            for scheme in ("dark", "light"):
                page.scheme(scheme)
                check_small(page, *parted)
                check_parting(page, parted[0])
                if folder != Path(scratch):
                    page.screenshot(folder / f"ranks-{scheme}.png", whole=True)
            check_large(page, folder / "large.html", data)
            if folder != Path(scratch):
                page.screenshot(folder / "ranks-large.png", whole=True)
        finally:
            page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
