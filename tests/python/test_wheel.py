# SPDX-License-Identifier: Apache-2.0
"""The wheel in a new virtual environment, offline and where nothing that is built here can be seen: tool, reader and
recording of a program, with the verdicts of the tree that was built."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST = 15_000_000
OF_EVERY_SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
GRAFTED = {"libhdf5-dev", "libaec-dev", "libarchive-dev", "libzstd-dev", "zlib1g-dev", "libre2-dev", "libfmt-dev",
           "libspdlog-dev", "libcli11-dev", "nlohmann-json3-dev", "libxxhash-dev"}
WRITE = """
import numpy, repro_check
for name, value in (("A", 1.0), ("B", 1.0), ("C", 1.5)):
    with repro_check.DumpWriter(name) as writer:
        writer.op("aten::sin", inputs=[numpy.ones(3)], outputs=[numpy.full(3, value)])
assert repro_check.open("A")[0].outputs[0][0] == 1.0
"""
RECORD = """
import torch, repro_check
with repro_check.record("R"):
    torch.sin(torch.ones(2))
assert "aten::sin" in {operator.full_name for operator in repro_check.open("R")}
assert repro_check.compare(lambda: torch.ones(3).sum()).reproducible
"""


def output(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if sys.version_info < (3, 11):
        pytest.skip("a wheel is made by Python 3.11 or newer")
    made = subprocess.run([ROOT / "scripts" / "package", "--wheel"], stdout=subprocess.PIPE, text=True)
    assert made.returncode == 0
    return pathlib.Path(shutil.copy(made.stdout.splitlines()[-1], tmp_path_factory.mktemp("wheel")))


@pytest.fixture
def environment(tmp_path):
    """A new virtual environment."""
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    return place


@pytest.fixture(scope="module")
def out_of_sight():
    """What is put before a command that shall see nothing that was built here."""
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"',
             str(ROOT / "build")]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True) if shutil.which(words[0]) else None
    return words if tried and tried.returncode == 0 else []


@pytest.fixture
def call(environment, tmp_path, out_of_sight):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith("REPRO_CHECK") and k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "CXX")}
    clean["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def run(program, *arguments, code=0, path=f"{environment / 'bin'}:/usr/bin:/bin"):
        ended = subprocess.run([*out_of_sight, environment / "bin" / program, *arguments], cwd=tmp_path,
                               capture_output=True, text=True, env={**clean, "PATH": path})
        assert ended.returncode == code, (program, arguments, ended.stdout[-2000:], ended.stderr[-3000:])
        return ended

    return run


def pip(call, *arguments):
    return call("python", "-m", "pip", "--disable-pip-version-check", *arguments)


def borrow_packages(environment):
    """NumPy, h5py and torch of this Python, in place of an index."""
    own = next(environment.glob("lib/python*/site-packages"))
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_needs_nothing_but_what_every_system_has(wheel, tmp_path):
    assert wheel.stat().st_size <= LARGEST
    newest = re.fullmatch(r"repro_check-[0-9.]+-py3-none-manylinux_2_(\d+)_x86_64\.whl", wheel.name)
    assert newest, wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        licences = {name.split("/")[-2] for name in archive.namelist() if name.endswith("/copyright")}
    assert GRAFTED <= licences
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if str(ROOT).encode() in path.read_bytes()]
    programs = [path for path in files if path.read_bytes().startswith(b"\x7fELF")]
    assert {path.name for path in programs} == {"repro-check", "librepro_check_stub.so"}
    for program in programs:
        dynamic = output("readelf", "--wide", "--dynamic", program)
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) <= OF_EVERY_SYSTEM
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
        asked = re.findall(r"\bGLIBC_2\.(\d+)", output("readelf", "--wide", "--version-info", program))
        assert max(map(int, asked)) <= int(newest[1])


def test_from_installing_to_removing(wheel, environment, call, tmp_path):
    before = files_below(environment)
    pip(call, "install", "-q", "--no-index", str(wheel))
    # Compiled once, and not at the start of every program.
    assert list(environment.glob("libexec/repro-check/python/__pycache__/repro_check_attach.*.pyc"))
    assert "Usage: repro-check " in call("repro-check", "--help").stdout
    assert (environment / "share/man/man1/repro-check-diff.1").is_file()
    assert (environment / "share/bash-completion/completions/repro-check").is_file()
    assert call("repro-check", "env").returncode == 0
    call("python", "-c", "import repro_check; assert repro_check.compare")
    refused = call("python", "-c", "import repro_check; repro_check.open('A')", code=1)
    assert "pip install 'repro-check[dumps]'" in refused.stderr

    borrow_packages(environment)
    call("python", "-c", WRITE)
    built = {k: v for k, v in os.environ.items() if k != "REPRO_CHECK_LIBEXEC"}
    for other, code in (("B", 0), ("C", 1)):
        ours = subprocess.run([os.environ["REPRO_CHECK"], "diff", "A", other], cwd=tmp_path, env=built,
                              capture_output=True, text=True)
        assert ours.returncode == code and call("repro-check", "diff", "A", other, code=code).stdout == ours.stdout

    assert "no recorder" in call("repro-check", "run", str(ROOT / "examples/nondeterministic.pt"), code=2).stderr
    records_programs(call, tmp_path)
    pip(call, "uninstall", "-q", "-y", "repro-check")
    assert {pathlib.Path(file).name for file in files_below(environment) - before} == {"borrowed.pth"}


def records_programs(call, tmp_path):
    if not pathlib.Path(sysconfig.get_path("purelib"), "torch").is_dir():
        return
    shutil.copy(ROOT / "examples" / "train.py", tmp_path)
    program = ["python", "train.py", "--epochs", "1"]
    first = call("repro-check", "exec", "-o", "first", "--", *program)
    assert "building the probe for PyTorch" in first.stderr
    again = call("repro-check", "exec", "-o", "again", "--", *program)
    assert "building" not in again.stderr
    assert call("repro-check", "diff", "first", "again").stdout.startswith("REPRODUCIBLE")
    # As from a notebook of an environment that was not activated.
    call("python", "-c", RECORD, path="/usr/bin:/bin")
    assert str(tmp_path / "cache" / "repro-check") in call("repro-check", "env").stdout
    assert "removed the probe" in call("repro-check", "env", "--clean").stdout
