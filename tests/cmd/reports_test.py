# SPDX-License-Identifier: Apache-2.0
"""`--report` through the real tool: destinations, exit codes, and what the documents say.

usage: reports_test.py REPRO_CHECK MAKE_DUMP TESTS
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

FORMATS = ["text", "json", "jsonl", "markdown", "junit", "sarif", "github", "codequality"]
HOSTILE = "</script>::error::a\x1b[31m\u202eb\n##[group]x|y`z]]>"


class Checks:
    def __init__(self, tool, make_dump, fixture, folder):
        self.tool, self.make_dump, self.folder = tool, make_dump, folder
        self.fixture = json.loads(fixture.read_text())
        self.failures = 0

    def expect(self, holds, why):
        if not holds:
            self.failures += 1
            print(str(why)[:1000])

    def dump(self, name, **changes):
        description = json.loads(json.dumps(self.fixture))
        description.update(changes.pop("top", {}))
        for op, module in changes.pop("modules", {}).items():
            description["ops"][op]["module"] = module
        for tensor, value in changes.items():
            description["tensors"][tensor]["values"][0] = value
        file = self.folder / "fixture.json"
        file.write_text(json.dumps(description))
        subprocess.run([self.make_dump, str(file), str(self.folder / name)], check=True)

    def run(self, *words, code):
        done = subprocess.run([self.tool, *words], capture_output=True, text=True, check=False,
                              cwd=self.folder)
        self.expect(done.returncode == code, f"{words}: {done}")
        if code in (2, 70):
            self.expect(not done.stdout, f"{words}: stdout is not empty")
        return done

    def read(self, name):
        return (self.folder / name).read_text()


def every_format(name):
    return [word for f in FORMATS for word in ("--report", f"{f}={name}.{f}")]


def check_files(checks):
    for other, code in (("B", 1), ("C", 0), ("none", 3)):
        done = checks.run("diff", "A", other, *every_format(other), code=code)
        checks.expect(checks.read(f"{other}.text") == done.stdout, "text is not what stdout says")
        report = json.loads(checks.read(f"{other}.json"))
        checks.expect(report["verdict"]["exit_code"] == code, report["verdict"])
        root = ElementTree.parse(checks.folder / f"{other}.junit").getroot()
        bad = int(root.get("failures")) + int(root.get("errors"))
        checks.expect((bad > 0) == (code != 0), "junit")
        run = json.loads(checks.read(f"{other}.sarif"))["runs"][0]
        checks.expect(run["invocations"][0]["exitCode"] == code, "sarif")
        checks.expect(bool(run["results"]) == (code == 1), "sarif results")
        checks.expect(bool(json.loads(checks.read(f"{other}.codequality"))) == (code != 0), "cq")
        lines = [json.loads(line) for line in checks.read(f"{other}.jsonl").splitlines()]
        checks.expect(lines[-1]["type"] == "verdict" and lines[-1]["exit_code"] == code, lines[-1])
        level = "::error " if code else "::notice "
        checks.expect(checks.read(f"{other}.github").startswith(level), "github")
        verdict = done.stdout.split("\n")[0]
        checks.expect(verdict in checks.read(f"{other}.markdown"), "markdown")
        checks.expect(not list(checks.folder.glob("*.tmp")), "something is left beside")


def check_the_operator_is_named(checks):
    """Module, file and line of the origin, in every format that names lines."""
    cases = ElementTree.parse(checks.folder / "B.junit").getroot().iter("testcase")
    failed = [case for case in cases if case.find("failure") is not None]
    checks.expect(len(failed) == 1, failed)
    case = failed[0]
    checks.expect(case.get("name") == "aten::addmm.default#0 forward", case.attrib)
    checks.expect((case.get("file"), case.get("line")) == ("model.py", "12"), case.attrib)
    result = json.loads(checks.read("B.sarif"))["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    checks.expect(place["artifactLocation"]["uri"] == "model.py", place)
    checks.expect(place["region"]["startLine"] == 12, place)
    checks.expect("file=model.py,line=12," in checks.read("B.github"), checks.read("B.github"))
    issue = json.loads(checks.read("B.codequality"))[0]
    checks.expect(issue["location"] == {"path": "model.py", "lines": {"begin": 12}}, issue)
    checks.expect("`aten::addmm`" in checks.read("B.markdown"), "markdown")


def check_destinations(checks):
    done = checks.run("diff", "A", "B", "--report", "sarif=-", code=1)
    checks.expect(json.loads(done.stdout)["version"] == "2.1.0", done.stdout)
    done = checks.run("diff", "A", "B", "--report", "text=-", "--report", "github=-", code=1)
    checks.expect(done.stdout.startswith("DIVERGED") and "\n::error " in done.stdout, done.stdout)
    (checks.folder / "summary.md").write_text("before\n")
    for _ in range(2):
        checks.run("diff", "A", "B", "--report", "markdown=+summary.md", code=1)
    text = checks.read("summary.md")
    checks.expect(text.startswith("before\n") and text.count("<!-- repro-check:") == 2, text)
    done = checks.run("diff", "A", "B", "--format", "json", "--output", "o.json",
                      "--report", "text=-", code=1)
    checks.expect(done.stdout.startswith("DIVERGED"), done.stdout)
    json.loads(checks.read("o.json"))


def check_what_is_replaced(checks):
    """Reports of earlier commands are, in whatever format; nothing else is."""
    for name in ("B", "C", "none"):
        code = {"B": 1, "C": 0, "none": 3}[name]
        places = [f"kept/in/{f}" for f in FORMATS + ["html"]]
        words = [word for f, place in zip(FORMATS + ["html"], places)
                 for word in ("--report", f"{f}={place}")]
        checks.run("diff", "A", name, *words, code=code)
        for place in places:
            before = checks.read(place)
            checks.run("diff", "A", "C", "--output", place, "--all", code=0)
            checks.expect(checks.read(place) != before or place.endswith("text"), place)
    checks.run("diff", "A", "B", "C", "--format", "json", "--output", "several.json", code=1)
    checks.run("diff", "A", "C", "--output", "several.json", code=0)
    (checks.folder / "empty").write_text("")
    checks.run("diff", "A", "C", "--output", "empty", code=0)
    for text in ("\n", "DIVERGE", "<!-- mine -->\n<!-- repro-check:x -->", "[]", "{}",
                 '{"format":"of mine"}', '<?xml version="1.0"?>\n<testsuites name="mine">'):
        (checks.folder / "mine").write_text(text)
        for words in (["--output", "mine"], ["--report", "json=mine"]):
            done = checks.run("diff", "A", "C", *words, code=2)
            checks.expect("is not a report of repro-check" in done.stderr, done.stderr)
        checks.expect(checks.read("mine") == text, "what is no report was replaced")


def check_mistakes(checks):
    for words, said in ((["junit"], "expected FORMAT=DEST"),
                        (["junt=x"], "did you mean junit?"),
                        (["json=+x.json"], "cannot hold two json documents"),
                        (["junit=fixture.json/x"], "there is no directory"),
                        (["text=x", "json=./x"], "wanted by two"),
                        (["json=-", "text=-"], "both go to stdout")):
        flags = [word for each in words for word in ("--report", each)]
        done = checks.run("diff", "A", "B", *flags, code=2)
        checks.expect(said in done.stderr, done.stderr)
    done = checks.run("diff", "A", "B", "--report", "json=-", "--format", "text", code=2)
    checks.expect("both want stdout" in done.stderr, done.stderr)
    for place in ("/dev/full", "+/dev/full"):
        done = checks.run("diff", "A", "B", "--report", f"text={place}", "--report", "json=ok.json",
                          code=5)
        checks.expect(not done.stdout, "a report was lost, and stdout has one")
        checks.expect("/dev/full" in done.stderr, done.stderr)
        json.loads(checks.read("ok.json"))
        (checks.folder / "ok.json").unlink()


def check_hostile(checks):
    done = checks.run("diff", "H", "I", *every_format("I"), code=1)
    for text in [done.stdout, *(checks.read(f"I.{f}") for f in FORMATS)]:
        checks.expect("\x1b" not in text and "\u202e" not in text, text)
        checks.expect("##[" not in text, text)
    for line in checks.read("I.github").splitlines():
        checks.expect(line.startswith(("::error file=", "::notice title=", "::warning title=")), line)
    checks.expect("</script>" not in checks.read("I.junit"), "junit")
    ElementTree.parse(checks.folder / "I.junit")
    json.loads(checks.read("I.sarif"))


def long_fixture(operators, differ):
    """A chain of operators; in the candidate every result from `differ` on is another one."""
    tensors = {"x": {"dtype": "float32", "shape": [2], "values": [1, 2]}}
    ops, last = [], "x"
    for i in range(operators):
        name = f"t{i}"
        tensors[name] = {"dtype": "float32", "shape": [2], "values": [i, i + (i >= differ)]}
        ops.append({"operator": "aten::mul", "module": "m", "inputs": {"self": last},
                    "outputs": [name]})
        last = name
    return {"tensors": tensors, "ops": ops, "named": []}


def check_lines(checks):
    """JSON Lines have what the report has no room for, and the same of what it lists."""
    checks.dump("L", top=long_fixture(1500, 1500))
    checks.dump("M", top={**long_fixture(1500, 200), "run": "candidate"})
    checks.run("diff", "L", "M", "--report", "jsonl=M.jsonl", "--report", "json=M.json", code=1)
    report = json.loads(checks.read("M.json"))
    lines = [json.loads(line) for line in checks.read("M.jsonl").splitlines()]
    ops = [line for line in lines if line["type"] == "op"]
    checks.expect([line["type"] for line in lines] == ["header"] + ["op"] * 1300 + ["verdict"],
                  len(lines))
    checks.expect(report["divergences"]["shown"] < 1300, "the report was to have no room")
    listed = [report["first_divergence"], *report["divergences"]["items"]]
    by_index = {op["op_index"]["baseline"]: op for op in ops}
    for op in listed:
        same = by_index[op["op_index"]["baseline"]]
        checks.expect({"type": "op", **op} == same, (op, same))
    checks.expect((lines[-1]["shown"], lines[-1]["total"]) == (1300, 1300), lines[-1])
    checks.expect(lines[-1]["headline"] == report["verdict"]["headline"], lines[-1])
    done = checks.run("diff", "L", "M", "--report", "jsonl=-", "--all", code=1)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ops = [line for line in lines if line["type"] == "op"]
    indices = [op["op_index"]["baseline"] for op in ops]
    checks.expect(indices == list(range(1500)), indices[:300])
    states = [op["relation"] for op in ops]
    checks.expect(states[:201] == ["equal"] * 200 + ["origin"], states[:210])
    checks.expect([op["key"]["occurrence"] for op in ops] == list(range(1500)), ops[:2])
    checks.expect(lines[-1]["type"] == "verdict", lines[-1])
    # A reader that goes away, and a disk that is full: the end of the document is never feigned.
    cut = subprocess.run(f"'{checks.tool}' diff L M --report jsonl=- --all | head -c 100000",
                         shell=True, capture_output=True, text=True, check=False,
                         cwd=checks.folder)
    checks.expect('"type":"verdict"' not in cut.stdout and len(cut.stdout) == 100000, cut.stderr)
    checks.run("diff", "L", "M", "--report", "jsonl=/dev/full", code=5)
    (checks.folder / "+").write_text("before\n")
    checks.run("diff", "L", "M", "--report", "jsonl=++", code=1)
    checks.expect(checks.read("+").startswith("before\n{") and
                  checks.read("+").count("\n") == 1303, "appended")


def main():
    tests = pathlib.Path(sys.argv[3])
    fixture = tests / "golden" / "fixtures" / "three_ops.json"
    with tempfile.TemporaryDirectory() as name:
        checks = Checks(sys.argv[1], sys.argv[2], fixture, pathlib.Path(name))
        changed = {"h": 1.3665841, "r": 1.3665841, "p": 0.10000001}
        candidate = {"run": "candidate"}
        checks.dump("A")
        checks.dump("B", top=candidate, **changed)
        checks.dump("C", top=candidate)
        none = checks.folder / "none"
        none.mkdir()
        (none / "manifest.json").write_text("{}")  # of no dump
        checks.dump("H", modules={0: HOSTILE})
        checks.dump("I", top=candidate, modules={0: HOSTILE}, **changed)
        check_files(checks)
        check_the_operator_is_named(checks)
        check_destinations(checks)
        check_what_is_replaced(checks)
        check_mistakes(checks)
        check_hostile(checks)
        check_lines(checks)
        print(f"{checks.failures} failures")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
