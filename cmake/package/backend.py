# SPDX-License-Identifier: Apache-2.0
"""What pip builds with (PEP 517). In a checkout that is the Python side alone, whose command starts what CMake has built
there; of a source distribution it is the whole wheel. As a program, `backend.py FOLDER` puts a source distribution
there and prints its path."""
import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

ROOT = Path(__file__).resolve().parents[2]

try:
    from setuptools import build_meta as _checkout
    from setuptools.build_meta import *  # noqa: F403
except ModuleNotFoundError:  # a source distribution is made without
    _checkout = None


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not (ROOT / "PKG-INFO").exists():
        return _checkout.build_wheel(wheel_directory, config_settings, metadata_directory)
    from wheel_file import make_wheel

    for step in (["--preset"], ["--build", "--preset"]):
        subprocess.run(["cmake", *step, "wheel"], cwd=ROOT, check=True)
    return make_wheel(ROOT, ROOT / "build" / "wheel", Path(wheel_directory)).name


def build_sdist(sdist_directory, config_settings=None):
    from wheel_file import metadata, project_of

    project = project_of(ROOT)
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    readme = (ROOT / project["readme"]).read_text(encoding="utf-8")
    date = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    contents = io.BytesIO()
    with tarfile.open(fileobj=contents, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file, text in {"PKG-INFO": metadata(project, ["LICENSE"], readme).encode(), **_sources()}.items():
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime = len(text), date
            entry.mode = 0o755 if os.access(ROOT / file, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(text))
    made = Path(sdist_directory) / f"{name}.tar.gz"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(gzip.compress(contents.getvalue(), mtime=date))
    return made.name


def _sources():
    """What git keeps; of an unpacked distribution everything that was in it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    files = listed.stdout.split("\0")[:-1] if listed.returncode == 0 else [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.relative_to(ROOT).parts[0] != "build"]
    return {file: (ROOT / file).read_bytes() for file in sorted(files)
            if file != "PKG-INFO" and (ROOT / file).is_file()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(Path(sys.argv[1], build_sdist(sys.argv[1])).resolve())
