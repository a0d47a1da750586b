#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cpack makes holds what it should, and asks for what it needs: `packages.py CPACK BUILD VERSION`.
That the packages install and run in a clean root is what `scripts/package --check` is for."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77
NEEDED = ["dpkg-deb", "dpkg-shlibdeps", "file", "gzip"]

# Package, and what it must hold. Of the recorder there is a package only beside the system's LibTorch.
CONTENTS = {
    "repro-check": [
        "usr/bin/repro-check", "usr/share/man/man1/repro-check.1.gz",
        "usr/share/man/man1/repro-check-gate.1.gz",
        "usr/share/bash-completion/completions/repro-check",
        "usr/share/zsh/site-functions/_repro-check",
        "usr/share/fish/vendor_completions.d/repro-check.fish",
        "usr/share/repro-check/repro-check-config.schema.json",
        "usr/share/repro-check/presets/bitwise.json",
        "usr/share/repro-check/ci/repro-check-gate.sh",
        "usr/libexec/repro-check/python/repro_check_hooks/attach.py",
        "usr/libexec/repro-check/kit/id", "usr/libexec/repro-check/kit/fmt/format.h",
        "usr/libexec/repro-check/kit/nlohmann/json.hpp",
        "usr/share/doc/repro-check/README.md", "usr/share/doc/repro-check/docs/TUTORIAL.md",
        "usr/share/doc/repro-check/examples/nondeterministic.pt",
        "usr/share/doc/repro-check/copyright", "usr/share/doc/repro-check/changelog.gz"],
    "python3-repro-check": [
        "usr/lib/python3/dist-packages/repro_check/__init__.py",
        "usr/lib/python3/dist-packages/repro_check/py.typed",
        "usr/lib/python3/dist-packages/repro_check-{version}.dist-info/entry_points.txt",
        "usr/share/doc/python3-repro-check/copyright"],
    "repro-check-recorder": [
        "usr/libexec/repro-check/repro-check-recorder",
        "usr/share/doc/repro-check-recorder/copyright"],
}
DEPENDS = {
    "repro-check": ["libc6", "libhdf5-", "libarchive13"],
    "python3-repro-check": ["python3-h5py", "python3-numpy", "python3-xxhash"],
    "repro-check-recorder": ["repro-check (= {version})", "libtorch"],
}
SCRIPTS = {"repro-check": {"postinst": "py3compile -p repro-check", "prerm": "py3clean -p repro-check"}}
PROGRAMS = {"usr/bin/repro-check", "usr/libexec/repro-check/repro-check-recorder",
            "usr/share/repro-check/ci/repro-check-gate.sh"}


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_files(name: str, package: Path, version: str):
    """Paths, owners and modes, as `dpkg-deb --contents` lists them."""
    files = {}
    for line in output("dpkg-deb", "--contents", str(package)).splitlines():
        mode, owner, _, _, _, path = line.split(maxsplit=5)
        files[path.removeprefix("./")] = mode
        if owner != "root/root":
            yield f"{name}: {path} belongs to {owner}"
        if mode[0] == "d" and mode != "drwxr-xr-x":
            yield f"{name}: {path} has mode {mode}"
        if "__pycache__" in path or path.endswith("/LICENSE"):
            yield f"{name}: {path} does not belong into a package"
    for wanted in CONTENTS[name]:
        mode = files.get(wanted.format(version=version))
        if mode is None:
            yield f"{name}: {wanted} is missing"
        elif mode != ("-rwxr-xr-x" if wanted in PROGRAMS else "-rw-r--r--"):
            yield f"{name}: {wanted} has mode {mode}"


def check_control(name: str, package: Path, version: str):
    fields = {}
    for line in output("dpkg-deb", "--field", str(package)).splitlines():
        if not line.startswith(" "):
            key, _, value = line.partition(":")
            fields[key] = value.strip()
    if fields.get("Version") != version:
        yield f"{name}: version {fields.get('Version')}, not {version}"
    if not re.fullmatch(r".+ <[^<>]+>", fields.get("Maintainer", "")):
        yield f"{name}: maintainer {fields.get('Maintainer')}"
    depends = [each.strip() for each in fields.get("Depends", "").split(",")]
    for wanted in DEPENDS[name]:
        if not any(each.startswith(wanted.format(version=version)) for each in depends):
            yield f"{name}: depends on {depends}, and not on {wanted}"
    for script, command in SCRIPTS.get(name, {}).items():
        if command not in output("dpkg-deb", "--info", str(package), script):
            yield f"{name}: {script} does not call {command}"
    if name != "repro-check-recorder" and any("torch" in each for each in depends):
        yield f"{name}: depends on LibTorch: {depends}"


def problems(folder: Path, version: str):
    made = {path.name.split("_")[0]: path for path in folder.glob("*.deb")}
    for name in {"repro-check", "python3-repro-check"} - set(made):
        yield f"there is no package {name}"
    for name, package in made.items():
        if name not in CONTENTS:
            yield f"{package.name} is a package of no name"
            continue
        yield from check_files(name, package, version)
        yield from check_control(name, package, version)


def main() -> int:
    cpack, build, version = sys.argv[1:]
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        # gzip, because a test need not wait for xz.
        made = subprocess.run(
            [cpack, "--config", f"{build}/CPackConfig.cmake", "-B", folder,
             "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode != 0:
            print(made.stdout)
            return 1
        found = list(problems(Path(folder), version))
        count = len(list(Path(folder).glob("*.deb")))
    print("\n".join(found) or f"{count} packages are as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
