# SPDX-License-Identifier: Apache-2.0
"""Has other programs read the documents that CI systems are given.

usage: render_documents_test.py RENDER_SAMPLES SCHEMAS
SCHEMAS holds junit.xsd and the SARIF schema. A reader that is missing (xmllint, jsonschema) is left
out and said to be; exits 77 (skipped) when both are.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SKIPPED = 77
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Judge:
    def __init__(self, samples):
        self.samples = samples
        self.failures = 0
        self.documents = 0

    def fail(self, file, why):
        self.failures += 1
        print(f"{file.name}: {why}"[:400])

    def expect(self, file, holds, why):
        if not holds:
            self.fail(file, why)

    def files(self, style, folder):
        target = folder / style
        target.mkdir()
        subprocess.run([self.samples, style, target], check=True)
        found = sorted(target.iterdir())
        self.documents += len(found)
        assert len(found) > 100, style
        return found


def exit_code(file):
    return int(re.search(r"-(\d+)\.", file.name).group(1))


def check_suite(judge, file, suite):
    cases = suite.findall("testcase")
    for name in ("failure", "error", "skipped"):
        total = sum(case.find(name) is not None for case in cases)
        key = "skipped" if name == "skipped" else name + "s"
        judge.expect(file, suite.get(key) == str(total), f"{key} is not {total}")
    judge.expect(file, suite.get("tests") == str(len(cases)), "tests")
    names = [(case.get("classname"), case.get("name")) for case in cases]
    judge.expect(file, len(set(names)) == len(names), "two cases of one name")
    for case in cases:
        for child in case:
            if child.tag == "skipped":
                continue
            judge.expect(file, child.text.startswith(child.get("message")), "message not in text")
            judge.expect(file, child.get("type").startswith("repro_check."), child.get("type"))


def check_junit(judge, folder, schema):
    has_xmllint = shutil.which("xmllint") is not None
    for style in ("junit", "junit-strict"):
        files = judge.files(style, folder)
        for file in files:
            root = ElementTree.parse(file).getroot()
            suite = root.find("testsuite")
            check_suite(judge, file, suite)
            bad = int(root.get("failures")) + int(root.get("errors"))
            fine = int(suite.get("tests")) - bad - int(suite.get("skipped"))
            judge.expect(file, (bad > 0) == (exit_code(file) != 0), "verdict and cases disagree")
            judge.expect(file, bad > 0 or fine > 0, "a pass without a passing case")
            placed = [c for c in suite.findall("testcase") if c.get("file") or c.get("line")]
            judge.expect(file, style == "junit" or not placed, "file or line in the strict dialect")
            judge.expect(file, not CONTROL.search(file.read_text("utf-8")), "control characters")
        if has_xmllint:
            done = subprocess.run(["xmllint", "--noout", "--schema", schema / "junit.xsd", *files],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                judge.failures += 1
                print(done.stderr[-3000:])
    return has_xmllint


def check_broken_junit(folder, schema):
    """The XSD refuses what readers refuse."""
    text = (sorted((folder / "junit").iterdir())[0]).read_text("utf-8")
    broken = {"no name": text.replace("<testsuite name=", "<testsuite other=", 1),
              "four decimals": re.sub(r'time="\d+\.\d+"', 'time="0.0001"', text, count=2),
              "exponent": re.sub(r'time="\d+\.\d+"', 'time="1e-3"', text, count=2),
              "foreign type": text.replace("<properties>", '<failure type="yaml"/><properties>')}
    accepted = []
    for name, document in broken.items():
        file = folder / "broken.xml"
        file.write_text(document, "utf-8")
        done = subprocess.run(["xmllint", "--noout", "--schema", schema / "junit.xsd", file],
                              capture_output=True, check=False)
        if done.returncode == 0:
            accepted.append(name)
    return accepted


def check_sarif_run(judge, file, document):
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    invocation = run["invocations"][0]
    code = exit_code(file)
    judge.expect(file, invocation["exitCode"] == code, "exitCode")
    judge.expect(file, invocation["executionSuccessful"] == (code in (0, 1)), "successful")
    judge.expect(file, bool(run["results"]) == (code == 1), "results")
    judge.expect(file, code in (0, 1) or invocation["toolExecutionNotifications"], "silent")
    for result in run["results"]:
        judge.expect(file, rules[result["ruleIndex"]]["id"] == result["ruleId"], "ruleIndex")
        physical = result["locations"][0]["physicalLocation"]
        uri = physical["artifactLocation"]["uri"]
        judge.expect(file, re.fullmatch(r"[A-Za-z0-9._~%-][A-Za-z0-9._~/%-]*", uri), uri)
        judge.expect(file, physical["region"]["startLine"] >= 1, "startLine")
    prints = [r["partialFingerprints"]["primaryLocationLineHash"] for r in run["results"]]
    judge.expect(file, len(set(prints)) == len(prints), "two results of one fingerprint")
    empty = [1 for value in strings_of(document) if value == ""]
    judge.expect(file, not empty, "an empty string")


def strings_of(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)
    elif isinstance(value, str):
        yield value


def check_sarif(judge, folder, schemas):
    try:
        from jsonschema import Draft4Validator
    except ImportError:
        Draft4Validator = None
    validator = None
    if Draft4Validator:
        schema = json.loads((schemas / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))
        Draft4Validator.check_schema(schema)
        validator = Draft4Validator(schema)
    for file in judge.files("sarif", folder):
        document = json.loads(file.read_text("utf-8"))
        check_sarif_run(judge, file, document)
        for error in validator.iter_errors(document) if validator else ():
            judge.fail(file, f"/{'/'.join(map(str, error.path))}: {error.message}")
    if validator:
        document["runs"][0]["results"] = [{"level": "error"}]
        judge.expect(file, not validator.is_valid(document), "a result without a message passes")
    return validator is not None


def check_codequality(judge, folder):
    for file in judge.files("codequality", folder):
        issues = json.loads(file.read_text("utf-8"))
        judge.expect(file, bool(issues) == (exit_code(file) != 0), "issues")
        prints = [issue["fingerprint"] for issue in issues]
        judge.expect(file, len(set(prints)) == len(prints), "two issues of one fingerprint")
        for issue in issues:
            good = (set(issue) == {"description", "check_name", "fingerprint", "severity",
                                   "location"}
                    and issue["severity"] in ("info", "minor", "major", "critical", "blocker")
                    and issue["location"]["path"] and issue["location"]["lines"]["begin"] >= 1
                    and issue["description"] and not issue["location"]["path"].startswith("/"))
            judge.expect(file, good, f"issue {issue}")


def main():
    samples, schemas = sys.argv[1], pathlib.Path(sys.argv[2])
    judge = Judge(samples)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        has_xmllint = check_junit(judge, folder, schemas)
        has_schema = check_sarif(judge, folder, schemas)
        check_codequality(judge, folder)
        if has_xmllint:
            for accepted in check_broken_junit(folder, schemas):
                judge.failures += 1
                print(f"the XSD accepts a broken document: {accepted}")
    print(f"{judge.documents} documents, {judge.failures} failures; "
          f"xmllint {'used' if has_xmllint else 'missing'}, "
          f"jsonschema {'used' if has_schema else 'missing'}")
    if judge.failures:
        return 1
    return 0 if has_xmllint or has_schema else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
