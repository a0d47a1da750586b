# SPDX-License-Identifier: Apache-2.0
"""`assert_reproducible` and the plugin, against a program that ends as it is told to."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import repro_check
from repro_check.testing import assert_reproducible, set_arguments
from repro_check.tool import find_tool

FAKE = pathlib.Path(__file__).with_name("fake_tool.py")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Sets what the fake does, and returns the arguments that it was called with."""
    log = tmp_path / "calls"
    monkeypatch.setenv("REPRO_CHECK", str(FAKE))
    monkeypatch.setenv("FAKE_LOG", str(log))

    def calls(**settings):
        for name, value in settings.items():
            monkeypatch.setenv(f"FAKE_{name.upper()}", str(value))
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    return calls


def test_a_pass_gives_the_report(fake, tmp_path):
    outcome = assert_reproducible("config.json", directory=tmp_path / "kept", threads=1)
    assert outcome.reproducible and outcome.reports == [{"verdict": {"exit_code": 0}}]
    assert (tmp_path / "kept/report.json").exists()
    (call,) = fake()
    assert call[:4] == ["run", "-c", "config.json", "--out"]
    assert call[call.index("--set") + 1] == "/threads=1"


def test_a_divergence_fails_with_the_report(fake):
    fake(exit=1, stdout="DIVERGED at op 3 aten::index_put_\n  why  threads")
    with pytest.raises(AssertionError, match=r"DIVERGED at op 3 aten::index_put_\n  why  threads"):
        assert_reproducible("config.json")


@pytest.mark.parametrize(
    "code, meaning",
    [
        (2, "usage or configuration"),
        (3, "damaged"),
        (4, "nothing was compared"),
        (5, "a run failed"),
        (70, "internal error"),
        (130, "interrupted"),
        (99, "does not know"),
        (-9, "killed by signal 9"),
    ],
)
def test_every_other_code_is_an_error_with_the_message(fake, code, meaning):
    fake(exit=code)
    with pytest.raises(repro_check.ToolError, match=meaning) as raised:
        assert_reproducible("config.json")
    assert raised.value.exit_code == code
    assert f"the fake was told to end with {code}" in str(raised.value)
    assert not isinstance(raised.value, AssertionError)


@pytest.mark.parametrize("report", ["", "{", "{}", "[]", '{"verdict": {"exit_code": 1}}'])
def test_a_report_that_does_not_agree_is_no_pass(fake, report):
    fake(exit=0, report=report)
    with pytest.raises(repro_check.ToolError):
        assert_reproducible("config.json")


def test_a_report_of_an_earlier_run_does_not_count(fake, tmp_path):
    assert_reproducible("config.json", directory=tmp_path)
    fake(report="")
    with pytest.raises(repro_check.ToolError, match="left no report"):
        assert_reproducible("config.json", directory=tmp_path)


def test_several_pairs_give_a_list(fake):
    fake(exit=1, report='[{"verdict": {"exit_code": 0}}, {"verdict": {"exit_code": 1}}]')
    with pytest.raises(AssertionError):
        assert_reproducible("config.json")
    fake(exit=0)
    with pytest.raises(repro_check.ToolError, match="its report says"):
        assert_reproducible("config.json")


def test_a_timeout_is_an_error(fake):
    fake(sleep=30)
    with pytest.raises(repro_check.ToolError, match="within 0.2 s"):
        assert_reproducible("config.json", timeout=0.2)


def test_a_configuration_may_be_a_mapping(fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_reproducible({"model": {"path": "model.pt"}})
    path = pathlib.Path(fake()[0][2])
    assert path.parent in (pathlib.Path("."), tmp_path) and not path.exists()


def test_overrides_become_pointers():
    made = set_arguments({"threads": 2, "compare": {"policy": "ulp", "ulp": 4}, "a/b": None, "runs": []})
    assert made[1::2] == ["/threads=2", '/compare/policy="ulp"', "/compare/ulp=4", "/a~1b=null", "/runs=[]"]
    assert set(made[::2]) == {"--set"}


def test_where_the_program_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("REPRO_CHECK", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(repro_check.ToolError, match="not in PATH"):
        find_tool()
    shutil.copy(FAKE, tmp_path / "repro-check")
    assert find_tool() == str(tmp_path / "repro-check")
    monkeypatch.setenv("REPRO_CHECK", str(FAKE))
    assert find_tool() == str(FAKE)
    assert find_tool(tmp_path / "repro-check") == str(tmp_path / "repro-check")
    with pytest.raises(repro_check.ToolError, match="/nowhere: is not a program"):
        find_tool("/nowhere")
    monkeypatch.setenv("REPRO_CHECK", "/gone")
    with pytest.raises(repro_check.ToolError, match="REPRO_CHECK is /gone"):
        find_tool()


def test_a_checkout_that_others_can_write_to_is_not_run(monkeypatch, tmp_path):
    monkeypatch.delenv("REPRO_CHECK", raising=False)
    monkeypatch.setattr("repro_check.tool._checkout", lambda: tmp_path)
    place = tmp_path / "build" / "release" / "bin"
    place.mkdir(parents=True)
    shutil.copy(FAKE, place / "repro-check")
    assert str(find_tool()) == str(place / "repro-check")
    place.parent.chmod(0o777)
    with pytest.raises(repro_check.ToolError, match="other users can write to it"):
        find_tool()


def copy_package(checkout):
    shutil.copytree(ROOT / "python", checkout / "python", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "cmake" / "package", checkout / "cmake" / "package")
    shutil.copy(ROOT / "pyproject.toml", checkout)


TEST_FILE = """
    def test_model(assert_reproducible, tmp_path):
        assert_reproducible("config.json", threads=2)
        assert (tmp_path / "repro-check-out/report.json").exists()
"""


def test_the_fixture_takes_the_option(fake, pytester, monkeypatch):
    monkeypatch.delenv("REPRO_CHECK")
    pytester.makepyfile(TEST_FILE)
    plugin = ["-p", "repro_check.pytest_plugin", "-p", "no:cacheprovider"]
    pytester.runpytest(*plugin, "--repro-check", FAKE).assert_outcomes(passed=1)
    fake(exit=1, stdout="DIVERGED at op 3")
    failed = pytester.runpytest(*plugin, "--repro-check", FAKE)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*AssertionError: DIVERGED at op 3*"])
    fake(exit=5, stdout="RUN FAILED")
    undecided = pytester.runpytest(*plugin, "--repro-check", FAKE)
    undecided.stdout.fnmatch_lines(["*ToolError: repro-check could not judge: a run failed*"])
    for shown in (failed, undecided):
        assert "tool.py:" not in shown.stdout.str() and "testing.py:" not in shown.stdout.str()


def test_a_folder_that_is_gone_leaves_no_trace(fake, pytester):
    pytester.makepyfile("""
        from repro_check.testing import assert_reproducible
        def test_model():
            assert_reproducible({})
    """)
    fake(exit=5, stdout="RUN FAILED")
    shown = pytester.runpytest("-p", "no:cacheprovider").stdout.str()
    assert "ToolError" in shown and "removed: directory=... keeps them" in shown
    assert "testing.py:" not in shown and "contextlib.py:" not in shown


def test_the_installed_package_brings_its_plugin(fake, tmp_path):
    """pip install from a copy of the source tree, and pytest that finds the plugin by itself."""
    for needed in ("pip", "setuptools", "wheel"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"this Python lacks {needed}")
    source, target = tmp_path / "source", tmp_path / "installed"
    copy_package(source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    installed = subprocess.run([*pip, *options], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    assert (target / "repro_check/py.typed").exists()
    (tmp_path / "test_it.py").write_text("\n".join(line[4:] for line in TEST_FILE.splitlines()))
    environment = {**os.environ, "PYTHONPATH": str(target)}
    environment.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0 and "1 passed" in ended.stdout, ended.stdout + ended.stderr
