#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The versions that the code, the changelog, the schemas and the documents name are the same:
`versions.py ROOT`."""
import re
import sys
from pathlib import Path


def found(root: Path, file: str, pattern: str) -> str:
    path = root / file
    if not path.is_file():
        return f"({file} is missing)"
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    return ".".join(match.groups()) if match else f"({file} does not match {pattern})"


def check(root: Path):
    manifest = "core/trace/run_manifest.h"
    dump = ".".join(found(root, manifest, rf"kDumpFormat{part} = (\d+);")
                    for part in ("Major", "Minor"))
    project = found(root, "CMakeLists.txt", r"project\(repro_check VERSION (\S+)")
    name = found(root, manifest, r'kDumpFormatName = "([\w-]+)"')
    changelog = root / "CHANGELOG.md"
    headings = re.findall(r"^## (.*)$", changelog.read_text(encoding="utf-8"), re.MULTILINE)
    formats = r"^Formats of this version: dump (\d+)\.(\d+)"

    if not headings or headings[0] != "Unreleased":
        yield "CHANGELOG.md: the first section is not '## Unreleased'"
    released = [h.split()[0] for h in headings[1:]]
    if released and released[0] != project:
        yield f"CHANGELOG.md: newest release {released[0]}, CMakeLists.txt: {project}"
    if found(root, "CHANGELOG.md", formats) != dump:
        yield f"CHANGELOG.md: {formats} should give {dump}"
    if found(root, "docs/DUMP_FORMAT.md", r"(?i)\bversion\W+(\d+)\.(\d+)") != dump:
        yield f"docs/DUMP_FORMAT.md: the first 'version' should be {dump}"
    for file, pattern in (("pyproject.toml", r'^version = "(.+)"'),
                          ("python/repro_check/__init__.py", r'^__version__ = "(.+)"')):
        if found(root, file, pattern) != project:
            yield f"{file}: version {found(root, file, pattern)}, CMakeLists.txt: {project}"
    if name not in (root / "docs/DUMP_FORMAT.md").read_text(encoding="utf-8"):
        yield f"docs/DUMP_FORMAT.md does not mention {name}"


def main() -> int:
    problems = list(check(Path(sys.argv[1])))
    print("\n".join(problems) or "one version everywhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
