#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTML report in headless Chromium: `html_report_test.py TOOL MAKE_DUMP [--keep DIR]`.
Exit 77 where there is no Chromium."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import browser
import checks
import traces

TRACES = {"small": {"ops": 480, "missing": True}, "thousand": {"ops": 1000, "all_differ": True},
          "large": {"ops": 100_000}, "hostile": {"ops": 200, "names": traces.HOSTILE},
          "numberless": {"ops": 240, "level": "digest"}, "training": {"ops": 240, "steps": 40}}


def make_page(tool, make_dump, folder, name, options):
    """The page and the JSON report of two dumps."""
    for side in ("baseline", "candidate"):
        description = folder / f"{name}-{side}.json"
        description.write_text(json.dumps(traces.build(side, **options)), encoding="utf-8")
        subprocess.run([make_dump, description, folder / f"{name}-{side}"], check=True,
                       stdout=subprocess.DEVNULL)
    page, report = folder / f"{name}.html", folder / f"{name}.report.json"
    # Every divergence of the large one as JSON would be 500 MB.
    every = [] if name == "large" else ["--all"]
    command = [tool, "diff", f"{name}-baseline", f"{name}-candidate", "--format", "json", *every,
               "--output", report.name, "--report", f"html={page.name}"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 1 and result.stdout == "", result
    assert f"{page.name}#op-" in result.stderr, result.stderr
    return page, json.loads(report.read_text(encoding="utf-8"))


def sizes(pages):
    for name, most in (("thousand", 1_000_000), ("large", 15_000_000)):
        size = pages[name][0].stat().st_size
        print(f"{name}: {size} bytes")
        assert size < most, f"{name}: {size} bytes, {most} are allowed"


def same_bytes(tool, folder, pages):
    """The page says nothing of the time, the machine or the order of a hash table."""
    again = folder / "again.html"
    subprocess.run([tool, "diff", "small-baseline", "small-candidate", "-q", "--all", "--report",
                    f"html={again.name}"], cwd=folder, check=False, capture_output=True)
    assert again.read_bytes() == pages["small"][0].read_bytes(), "two runs give different pages"


def refusals(tool, folder):
    for request in ("html=", "pdf=x.pdf", "html=small.html/x.html"):
        result = subprocess.run([tool, "diff", "small-baseline", "small-candidate", "--report", request],
                                cwd=folder, capture_output=True, text=True)
        assert result.returncode == 2 and result.stdout == "", (request, result)


def main() -> int:
    if not browser.find():
        print("skipped: no chromium")
        return 77
    tool, make_dump = (Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[4] if sys.argv[3:4] == ["--keep"] else scratch)
        pages = {name: make_page(tool, make_dump, folder, name, options)
                 for name, options in TRACES.items()}
        sizes(pages)
        same_bytes(tool, folder, pages)
        refusals(tool, folder)
        page = browser.Browser()
        try:
            failed = checks.run_all(page, pages)
        finally:
            page.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
