#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of the build folder of preset `wheel`: `wheel_file.py SOURCE BUILD FOLDER`. Below the folder of an
environment stands the same tree as `cmake --install` makes, so that the program finds there what belongs to it; the
Python package is beside. A tag is as new as the newest symbol of glibc that a file asks for. Prints the wheel's path."""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("a wheel is made by Python 3.11 or newer")

# Nothing of these gets into a program: what they declare is in glibc, which is the user's own.
DECLARATIONS_ALONE = {"libc6-dev", "linux-libc-dev"}


def output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def grafted(build: Path) -> dict:
    """Package -> its licence, of every library and header outside that the program and the kit are made of."""
    maps = (build / "repro-check.map").read_text() + (build / "kit" / "trial.map").read_text()
    linked = re.findall(r"^(/\S+\.a)\(", maps, re.MULTILINE)
    included = re.findall(r"^ +(/usr/\S+)$", output("ninja", "-C", build, "-t", "deps"), re.MULTILINE)
    files = sorted({os.path.normpath(file) for file in [*linked, *included]})
    owners = {line.rpartition(": ")[0].split(":")[0] for line in output("dpkg", "-S", *files).splitlines()}
    return {owner: Path(f"/usr/share/doc/{owner}/copyright").read_bytes()
            for owner in sorted(owners - DECLARATIONS_ALONE)}


def newest_glibc(files: list) -> str:
    needed = re.findall(r"\bGLIBC_(\d+)\.(\d+)", output("readelf", "--wide", "--version-info", *files))
    return "_".join(map(str, max((int(major), int(minor)) for major, minor in needed)))


def metadata(project: dict, licences: list, readme: str) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown",
             "Keywords: " + ",".join(project.get("keywords", [])),
             *(f"Classifier: {name}" for name in project.get("classifiers", [])),
             *(f"License-File: {name}" for name in licences),
             *(f"Requires-Dist: {needed}" for needed in project.get("dependencies", []))]
    for extra, packages in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {name}; extra == "{extra}"' for name in packages)]
    return "\n".join(lines) + "\n\n" + readme


def contents(source: Path, build: Path, tree: Path, project: dict):
    """(name in the wheel, bytes, may be run), and the tag."""
    name = project["name"].replace("-", "_")
    about = f"{name}-{project['version']}.dist-info"
    data = f"{name}-{project['version']}.data"
    files = {}
    for file in sorted((source / "python" / name).iterdir()):
        if file.suffix == ".py" or file.name == "py.typed":
            files[f"{name}/{file.name}"] = (file.read_bytes(), False)
    # A recorder that is built of the kit asks for what this one does.
    programs = [build / "kit" / "trial"]
    for file in sorted(path for path in tree.rglob("*") if path.is_file()):
        place, inside = file.read_bytes(), file.relative_to(tree)
        if place.startswith(b"\x7fELF"):
            programs.append(file)
        scheme = f"scripts/{inside.name}" if inside.parts[0] == "bin" else f"data/{inside}"
        files[f"{data}/{scheme}"] = (place, os.access(file, os.X_OK))
    licences = {"LICENSE": (source / "LICENSE").read_bytes(),
                "copyright": (source / "cmake" / "package" / "copyright").read_bytes(),
                **{f"{package}/copyright": text for package, text in grafted(build).items()}}
    files.update({f"{about}/licenses/{licence}": (text, False) for licence, text in licences.items()})
    points = [f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
              for group, entries in project["entry-points"].items()]
    tag = f"py3-none-manylinux_{newest_glibc(programs)}_{platform.machine()}"
    told = {"METADATA": metadata(project, list(licences), (source / project["readme"]).read_text(encoding="utf-8")),
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: repro-check\nRoot-Is-Purelib: false\nTag: {tag}\n",
            "entry_points.txt": "\n".join(points)}
    files.update({f"{about}/{key}": (text.encode(), False) for key, text in told.items()})
    record = "".join(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip('=')},"
                     f"{len(text)}\n" for path, (text, _) in files.items())
    files[f"{about}/RECORD"] = (f"{record}{about}/RECORD,,\n".encode(), False)
    return files, tag


def project_of(source: Path) -> dict:
    return tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def make_wheel(source: Path, build: Path, folder: Path) -> Path:
    project = project_of(source)
    with tempfile.TemporaryDirectory() as tree:
        output("cmake", "--install", build, "--prefix", tree, "--strip")
        files, tag = contents(source, build, Path(tree), project)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{project['name'].replace('-', '_')}-{project['version']}-{tag}.whl"
    # Two wheels of one commit are the same, byte for byte.
    date = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (text, may_run) in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if may_run else 0o100644) << 16
            archive.writestr(entry, text)
    return wheel


def main() -> int:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(make_wheel(*(Path(each).resolve() for each in sys.argv[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
