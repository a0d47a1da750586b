# SPDX-License-Identifier: Apache-2.0
"""The wheel in a new virtual environment, offline and where nothing can be seen that is built here or that it is built
of: tool, reader and recordings of a program and of a model, with the verdicts of the tree that was built."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
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


HIDING = """
for folder in "$0" /usr/include/ATen /usr/include/c10 /usr/include/caffe2 /usr/include/torch; do
  [ ! -d "$folder" ] || mount -t tmpfs none "$folder"
done
while read -r file; do mount --bind /dev/null "$file"; done
exec "$@" </dev/null
"""


@pytest.fixture(scope="module")
def out_of_sight():
    """What is put before a command that shall see nothing that was built here, none of the libraries that the wheel is
    made of as a compiler takes them, and no PyTorch but the environment's; and what it reads."""
    listed = subprocess.run(["dpkg", "-L", *sorted(GRAFTED)], capture_output=True, text=True).stdout.split()
    hidden = [file for file in listed if file.endswith((".a", ".so", ".h", ".hpp"))
              and os.path.isfile(file) and not os.path.islink(file)]
    words = ["unshare", "--map-root-user", "--mount", "sh", "-e", "-c", HIDING, str(ROOT / "build")]
    tried = subprocess.run([*words, "true"], input="", text=True) if shutil.which(words[0]) else None
    if tried is None or tried.returncode != 0:
        pytest.skip("nothing can be hidden here: no `unshare --map-root-user --mount`")
    return words, "".join(file + "\n" for file in hidden)


@pytest.fixture
def call(environment, tmp_path, out_of_sight):
    hiding, hidden = out_of_sight
    clean = {k: v for k, v in os.environ.items() if not k.startswith("REPRO_CHECK")
             and k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "CXX", "VIRTUAL_ENV", "CI")}
    clean["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def run(program, *arguments, code=0, path=f"{environment / 'bin'}:/usr/bin:/bin"):
        words = ["env", f"PATH={path}", environment / "bin" / program, *arguments]
        ended = subprocess.run([*hiding, *words], cwd=tmp_path, capture_output=True, text=True, env=clean, input=hidden)
        assert code in (None, ended.returncode), (program, arguments, ended.stdout[-2000:], ended.stderr[-3000:])
        return ended

    return run


@pytest.fixture
def built(tmp_path):
    """The tool of the tree that was built."""
    def run(*arguments, code=0):
        clean = {k: v for k, v in os.environ.items() if k not in ("REPRO_CHECK_LIBEXEC", "CI")}
        ended = subprocess.run([os.environ["REPRO_CHECK"], *arguments], cwd=tmp_path, env=clean, capture_output=True,
                               text=True)
        assert code in (None, ended.returncode), (arguments, ended.stdout[-2000:], ended.stderr[-3000:])
        return ended

    return run


def raced(run, *arguments):
    """All tries up to the one in which the race of the example shows."""
    tries = [run(*arguments, code=None)]
    while tries[-1].returncode == 0 and len(tries) < 10:
        tries.append(run(*arguments, code=None))
    assert tries[-1].returncode == 1, (len(tries), tries[-1].stdout[-2000:], tries[-1].stderr[-3000:])
    return tries


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
    # The libraries of the kit are linked where there is no {fmt}: each has what it uses of it within.
    for library in (path for path in files if path.suffix == ".a"):
        assert " U fmt::" not in output("nm", "--demangle", "--quiet", library), library
    assert not [path for path in files if str(ROOT).encode() in path.read_bytes()]
    programs = [path for path in files if path.read_bytes().startswith(b"\x7fELF")]
    assert {path.name for path in programs} == {"repro-check", "librepro_check_stub.so", "calls.so"}
    for program in programs:
        dynamic = output("readelf", "--wide", "--dynamic", program)
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) <= OF_EVERY_SYSTEM
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
        asked = re.findall(r"\bGLIBC_2\.(\d+)", output("readelf", "--wide", "--version-info", program))
        assert max(map(int, asked)) <= int(newest[1])


def test_from_installing_to_removing(wheel, environment, call, built, tmp_path):
    before = files_below(environment)
    pip(call, "install", "-q", "--no-index", str(wheel))
    # Compiled once, and not at the start of every program.
    assert list(environment.glob("libexec/repro-check/python/repro_check_hooks/__pycache__/attach.*.pyc"))
    # No compiler, and nothing else either, is in this path.
    alone = {"path": environment / "bin"}
    assert "Usage: repro-check " in call("repro-check", "--help", **alone).stdout
    assert (environment / "share/man/man1/repro-check-diff.1").is_file()
    assert (environment / "share/bash-completion/completions/repro-check").is_file()
    call("repro-check", "env", **alone)
    call("python", "-c", "import repro_check; assert repro_check.compare")
    refused = call("python", "-c", "import repro_check; repro_check.open('A')", code=1)
    assert "pip install 'repro-check[dumps]'" in refused.stderr
    example = environment / "share" / "doc" / "repro-check" / "config.example.json"
    refused = call("repro-check", "run", "-c", example, code=2, **alone)
    assert "no PyTorch to build one for" in refused.stderr

    borrow_packages(environment)
    call("python", "-c", WRITE)
    for other, code in (("B", 0), ("C", 1)):
        ours = built("diff", "A", other, code=code)
        assert call("repro-check", "diff", "A", other, code=code, **alone).stdout == ours.stdout
    call("repro-check", "diff", "A", "C", "--format", "json", "--output", "report.json", "--report", "html=report.html",
         "--report", "sarif=report.sarif", code=1, **alone)
    assert (tmp_path / "report.html").stat().st_size > 1000 and (tmp_path / "report.sarif").is_file()
    for command in (["inspect", "A"], ["verify", "A"], ["pack", "A", "-o", "A.repro"], ["report", "report.json"]):
        assert call("repro-check", *command, code=int(command[0] == "report"), **alone).stdout
    pip(call, "uninstall", "-q", "-y", "repro-check")
    assert {pathlib.Path(file).name for file in files_below(environment) - before} == {"borrowed.pth"}


@pytest.fixture
def with_torch(wheel, environment, call):
    if not pathlib.Path(sysconfig.get_path("purelib"), "torch").is_dir():
        pytest.skip("this Python has no torch")
    pip(call, "install", "-q", "--no-index", str(wheel))
    borrow_packages(environment)
    return environment / "share" / "doc" / "repro-check"


def test_it_records_programs_and_models(with_torch, environment, call, built, tmp_path):
    shutil.copy(with_torch / "examples" / "train.py", tmp_path)
    program = ["python", "train.py", "--epochs", "1"]
    first = call("repro-check", "exec", "-o", "first", "--", *program)
    assert "building the probe for PyTorch" in first.stderr
    again = call("repro-check", "exec", "-o", "again", "--", *program)
    assert "building" not in again.stderr
    built("exec", "-o", "built", "--", sys.executable, *program[1:])
    for other in ("again", "built"):
        assert call("repro-check", "diff", "first", other).stdout.startswith("REPRODUCIBLE")
    # As from a notebook of an environment that was not activated.
    call("python", "-c", RECORD, path="/usr/bin:/bin")

    example = ["run", "-c", with_torch / "config.example.json", "--force", "--out"]
    tries = raced(call, "repro-check", *example, "race")
    assert "building the recorder for PyTorch" in tries[0].stderr
    diverged = tries[-1]
    assert diverged.stdout.split(":")[0] == raced(built, *example, "race")[-1].stdout.split(":")[0]
    assert "DIVERGED at op 3 aten::index_put_" in diverged.stdout
    mended = [*example, "mended", "--set", "/determinism=error", "--set", "/dump/level=tensor"]
    ended = call("repro-check", *mended)
    assert "building" not in ended.stderr and ended.stdout.startswith("REPRODUCIBLE")
    assert ended.stdout == built(*mended).stdout
    gate = ["gate", *mended[1:3], "--set", "/determinism=error", "--against", "mended"]
    assert call("repro-check", *gate, code=4).stdout == built(*gate, code=4).stdout
    assert call("repro-check", "replay", "mended/baseline", "--op", "3").stdout
    listed = call("repro-check", "env").stdout
    assert re.search(rf"built\.\S+ +probe and recorder, .*: {tmp_path}/cache/repro-check/", listed)

    before = files_below(tmp_path / "cache")
    pip(call, "uninstall", "-q", "-y", "repro-check")
    assert not list(environment.glob("**/*repro*check*"))
    assert files_below(tmp_path / "cache") == before and any(file.endswith("/probe.so") for file in before)


def test_what_was_built_is_removed(with_torch, environment, call, tmp_path):
    folder = tmp_path / "cache" / "repro-check" / "2.9.1-cxx11-0.1.0-0123"
    folder.mkdir(parents=True)
    (folder / "probe.so").touch()
    assert "removed for PyTorch 2.9.1: probe" in call("repro-check", "env", "--clean").stdout
    assert not folder.parent.exists()


def test_the_source_distribution(tmp_path):
    """Holds what git keeps, twice the same, and makes itself anew."""
    def make(root, folder):
        place = output(sys.executable, "-B", root / "cmake" / "package" / "backend.py", folder).strip()
        return pathlib.Path(place)

    first = make(ROOT, tmp_path / "first")
    with tarfile.open(first) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path)
    unpacked = tmp_path / first.name[:-len(".tar.gz")]
    assert names == {"PKG-INFO", *output("git", "-C", ROOT, "ls-files").split()}
    assert "Name: repro-check\n" in (unpacked / "PKG-INFO").read_text()
    assert os.access(unpacked / "scripts" / "package", os.X_OK)
    assert make(unpacked, tmp_path / "again").read_bytes() == first.read_bytes()
