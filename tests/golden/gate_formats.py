# SPDX-License-Identifier: Apache-2.0
"""Every format of one gate run, read as the programs read it that they are for."""

import json
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

SCHEMAS = pathlib.Path(__file__).resolve().parents[1] / "schemas"
FILES = {"json": "r.json", "junit": "r.xml", "sarif": "r.sarif", "github": "r.github",
         "markdown": "r.md", "codequality": "r.cq", "html": "r.html", "jsonl": "r.jsonl"}
WORDS = [word for name, file in FILES.items() for word in ("--report", f"{name}={file}")]


class Formats:
    """What the files in a directory say, as plain lists."""

    def __init__(self, folder):
        text = {name: (folder / file).read_text("utf-8") for name, file in FILES.items()}
        self.folder = folder
        self.json = json.loads(text["json"])
        self.markdown = text["markdown"]
        self.html = text["html"]
        self.github = text["github"].splitlines()
        self.codequality = json.loads(text["codequality"])
        self.sarif = json.loads(text["sarif"])["runs"][0]
        self.suite = ElementTree.fromstring(text["junit"])[0]

    def cases(self, element):
        """[(classname without its head, name, type or None, message, file)]"""
        head = f"repro_check.{self.json['gate']['name']}"
        found = []
        for case in self.suite.iter("testcase"):
            for each in case.findall(element):
                found.append((case.get("classname").removeprefix(head).lstrip("."), case.get("name"),
                              each.get("type"), each.get("message"), case.get("file")))
        return found

    def case_names(self):
        return [(case.get("classname"), case.get("name")) for case in self.suite.iter("testcase")]

    def results(self):
        """[(rule, level, file, line)]"""
        found = []
        for result in self.sarif["results"]:
            place = result["locations"][0]["physicalLocation"]
            found.append((result["ruleId"], result["level"], place["artifactLocation"]["uri"],
                          place["region"]["startLine"]))
        return found

    def prints(self):
        return [result["partialFingerprints"]["reproCheck/v1"] for result in self.sarif["results"]]

    def notifications(self):
        """[(rule, file)] of those that a rule is behind; others say what holds NaN."""
        notes = self.sarif["invocations"][0].get("toolExecutionNotifications", [])
        return [(note["associatedRule"]["id"],
                 note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
                for note in notes if "associatedRule" in note]

    def annotations(self, level):
        """[(file or None, line or None, title, message)]"""
        found = []
        for line in self.github:
            match = re.fullmatch(rf"::{level} (?:file=([^,]*),line=(\d+),)?title=([^:]*)::(.*)", line)
            if match:
                found.append((match[1], match[2] and int(match[2]),
                              match[3].removeprefix("repro-check%3A "), match[4]))
        return found

    def issues(self):
        """[(rule, path)]"""
        return [(each["check_name"], each["location"]["path"]) for each in self.codequality]


def problems(folder):
    """What the schemas say against the JUnit and SARIF files; empty where there is no validator."""
    found = []
    if shutil.which("xmllint"):
        done = subprocess.run(["xmllint", "--noout", "--nonet", "--schema", SCHEMAS / "junit.xsd",
                               folder / FILES["junit"]], capture_output=True, text=True, check=False)
        if done.returncode:
            found.append(done.stderr)
    try:
        from jsonschema import Draft4Validator, Draft202012Validator
    except ImportError:
        return found
    report = SCHEMAS.parents[1] / "docs" / "report.schema.json"
    for file, schema, kind in ((FILES["sarif"], SCHEMAS / "sarif-2.1.0-rtm.5.json", Draft4Validator),
                               (FILES["json"], report, Draft202012Validator)):
        document = json.loads((folder / file).read_text("utf-8"))
        for error in kind(json.loads(schema.read_text("utf-8"))).iter_errors(document):
            found.append(f"{file} /{'/'.join(map(str, error.path))}: {error.message}")
    return found
