# SPDX-License-Identifier: Apache-2.0
"""The shell that every CI file runs, for real, around a program that ends as it is told to, and around
the tool; and the CI files themselves, as their services would read them."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GATE = ROOT / "ci/repro-check-gate.sh"
FAKE = pathlib.Path(__file__).with_name("fake_tool.py")
REPORTS = {"junit.xml", "report.sarif", "report.html", "summary.md", "report.json"}


@pytest.fixture
def gate(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/repro-check").symlink_to(FAKE)
    (tmp_path / "gate.json").write_text("{}")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("REPRO_CHECK", "GITHUB", "FAKE"))}
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"

    def run(*arguments, command=(str(GATE),), **environment):
        ended = subprocess.run(
            ["bash", *command, *arguments],
            cwd=tmp_path,
            env={**clean, "PATH": path, "FAKE_LOG": str(tmp_path / "log"), **environment},
            capture_output=True,
            text=True,
        )
        log = tmp_path / "log"
        ended.calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return ended

    return run


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 70, 130])
def test_it_ends_with_the_code_of_the_gate(gate, tmp_path, code):
    ended = gate(FAKE_EXIT=str(code))
    assert ended.returncode == code
    assert {p.name for p in (tmp_path / "repro-check-reports").iterdir()} == REPORTS
    (call,) = ended.calls
    assert call[:3] == ["gate", "-c", "gate.json"]
    assert "junit=repro-check-reports/junit.xml" in call
    if code in (0, 1, 3, 4, 5):
        assert ended.stdout == f"VERDICT of the fake, exit {code}\n"


def test_arguments_go_to_the_gate(gate):
    (call,) = gate("--against", "a dump", "-q", REPRO_CHECK_CONFIG="").calls
    assert "-c" not in call and call[-3:] == ["--against", "a dump", "-q"]


def test_reports_are_chosen_and_placed(gate, tmp_path):
    gate(REPRO_CHECK_FORMATS="codequality", REPRO_CHECK_REPORTS="with space/there")
    assert [p.name for p in (tmp_path / "with space/there").iterdir()] == ["codequality.json"]


def test_the_summary_of_the_job_is_appended_to(gate, tmp_path):
    summary, output = tmp_path / "summary", tmp_path / "output"
    summary.write_text("before\n")
    ended = gate(GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(output), FAKE_EXIT="1")
    assert summary.read_text() == "before\nreport as markdown\n"
    assert output.read_text() == "exit-code=1\nreports=repro-check-reports\n"
    assert ended.returncode == 1


def test_a_pass_without_its_reports_is_none(gate, tmp_path):
    tool = tmp_path / "silent"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    (tmp_path / "repro-check-reports").mkdir()
    (tmp_path / "repro-check-reports/junit.xml").write_text("of an earlier gate")
    ended = gate(REPRO_CHECK=str(tool))
    assert ended.returncode == 70
    assert "no junit.xml report.sarif" in ended.stderr


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"REPRO_CHECK": "no-such-program"}, "no-such-program is not a program"),
        ({"REPRO_CHECK_CONFIG": "gone.json"}, "gone.json is not there"),
        ({"REPRO_CHECK_FORMATS": "junit tap"}, "'tap' is no format"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(gate, environment, message):
    ended = gate(**environment)
    assert ended.returncode == 2 and message in ended.stderr
    assert ended.calls == []


def test_the_shell_of_the_action_runs(gate, tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "ci/github/action.yml").read_text())
    first = action["runs"]["steps"][0]
    script = tmp_path / "step.sh"
    script.write_text(first["run"])
    environment = {
        "GITHUB_ACTION_PATH": str(ROOT / "ci/github"),
        "REPRO_CHECK_ARGUMENTS": "--against\na dump\n",
        "REPRO_CHECK_CONFIG": "",
        "FAKE_EXIT": "4",
    }
    # As the runner calls bash.
    ended = gate(command=("--noprofile", "--norc", "-eo", "pipefail", str(script)), **environment)
    (call,) = ended.calls
    assert ended.returncode == 4 and call[-4:] == ["--report", "github=-", "--against", "a dump"]
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(action)))
    assert used == set(action["inputs"])
    assert action["outputs"]["exit-code"]["value"] == "${{ steps.gate.outputs.exit-code }}"
    assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)


def test_the_job_for_gitlab_runs(gate, tmp_path):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())[".repro-check-gate"]
    variables = {**job["variables"], "REPRO_CHECK_GATE": str(GATE)}
    ended = gate(command=("-ec", "\n".join(job["script"])), **variables)
    assert ended.returncode == 0, ended.stderr
    for report in job["artifacts"]["reports"].values():
        assert (tmp_path / report).is_file(), report
    assert job["artifacts"]["when"] == "always" and job["retry"] == 0


def test_the_hook_can_be_read(gate, tmp_path):
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert os.access(ROOT / hook["entry"], os.X_OK)
    ended = gate(*hook["args"], command=(str(ROOT / hook["entry"]),))
    assert ended.returncode == 0 and ended.calls[0][-1] == "-q"
    assert hook["stages"] == ["pre-push"] and hook["pass_filenames"] is False


def test_jenkins_looks_where_the_reports_are(gate, tmp_path):
    text = (ROOT / "ci/Jenkinsfile").read_text()
    gate()
    for name in re.findall(r"'(repro-check-reports/[\w.]+)'", text):
        assert (tmp_path / name).is_file(), name
    assert text.count("{") == text.count("}")


PROBED = {"os.machine": "x86_64", "libtorch.version": "2.13.0"} | {
    f"probe.{part}": "aa" for part in ("convolution", "matmul", "softmax", "exp", "sum")
}
OTHER_RELU = {"r": [1.5, 3.5, 1, 1], "p": [0.1, 0.2, 0.3, 0.5]}


@pytest.fixture
def real_gate(gate, make_dump, tmp_path):
    """The same around the real tool, and two dumps in `out` for it to judge."""
    (tmp_path / "m.pt").write_text("a small model")
    (tmp_path / "gate.json").write_text('{"model": "m.pt", "inputs": [], "dump": {"directory": "out"}}')

    def record(name, **values):
        fixture = json.loads((ROOT / "tests/golden/fixtures/three_ops.json").read_text())
        fixture["manifest"]["environment"] = PROBED
        for tensor, numbers in values.items():
            fixture["tensors"][tensor]["values"] = numbers
        (tmp_path / "fixture.json").write_text(json.dumps(fixture))
        shutil.rmtree(tmp_path / "out" / name, ignore_errors=True)
        (tmp_path / "out").mkdir(exist_ok=True)
        make_dump(tmp_path / "out" / name, fixture=tmp_path / "fixture.json")

    def run(*arguments, candidate=None, **environment):
        record("baseline")
        record("candidate", **(candidate or {}))
        return gate(*arguments, **{"REPRO_CHECK": os.environ["REPRO_CHECK"], "CI": "", **environment})

    return run


def accept(tmp_path):
    words = [os.environ["REPRO_CHECK"], "gate", "accept", "-c", "gate.json", "--yes-in-ci"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)


def outcome_of(directory):
    """Failures and errors in JUnit, exit code in SARIF and JSON: what the services would show."""
    suite = xml.etree.ElementTree.parse(directory / "junit.xml").getroot().find("testsuite")
    (run,) = json.loads((directory / "report.sarif").read_text())["runs"]
    report = json.loads((directory / "report.json").read_text())
    code = report["verdict"]["exit_code"]
    assert run["invocations"][0]["exitCode"] == code
    assert "</html>" in (directory / "report.html").read_text()
    assert (directory / "summary.md").read_text().startswith("<!-- repro-check:")
    return code, int(suite.get("failures")), int(suite.get("errors"))


def test_the_real_gate_is_red_and_then_green(real_gate, tmp_path):
    reports = tmp_path / "repro-check-reports"
    red = real_gate("--against", "out", candidate=OTHER_RELU)
    assert red.returncode == 1, red.stderr
    assert red.stdout.startswith("DIVERGED at op 1 aten::relu")
    code, failures, errors = outcome_of(reports)
    assert code == 1 and failures >= 1 and errors == 0
    assert "aten::relu" in (reports / "junit.xml").read_text()
    new = real_gate("--against", "out")
    assert new.returncode == 4 and new.stdout.startswith("NO BASELINE"), new.stderr
    assert outcome_of(reports)[0] == 4
    accept(tmp_path)
    green = real_gate("--against", "out")
    assert green.returncode == 0, green.stdout + green.stderr
    assert green.stdout.startswith("REPRODUCIBLE") and outcome_of(reports) == (0, 0, 0)


def test_the_step_of_jenkins_runs_with_the_real_tool(real_gate, tmp_path):
    text = (ROOT / "ci/Jenkinsfile").read_text()
    (step,) = re.findall(r"steps \{ sh '([^']*)' \}", text)
    (tmp_path / "ci").symlink_to(ROOT / "ci")
    # As a repository calls it that has recorded before; `sh -xe` is what the service runs.
    variables = dict(re.findall(r"^    (REPRO_CHECK_\w+) = '([^']*)'$", text, re.MULTILINE))
    (tmp_path / "tool").write_text('#!/bin/sh\nexec "$REAL" "$@" --against out\n')
    (tmp_path / "tool").chmod(0o755)
    assert set(variables) == {"REPRO_CHECK_CONFIG", "REPRO_CHECK_REPORTS"}
    real = os.environ["REPRO_CHECK"]
    ended = real_gate(command=("-c", 'exec sh -xec "$0"', step), candidate=OTHER_RELU, **variables,
                      REPRO_CHECK=str(tmp_path / "tool"), REAL=real)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.startswith("DIVERGED at op 1 aten::relu")
    for name in re.findall(r"'(repro-check-reports/[\w.]+)'", text):
        assert (tmp_path / name).stat().st_size > 0, name
    assert outcome_of(tmp_path / variables["REPRO_CHECK_REPORTS"])[0] == 1


def test_the_step_of_the_action_runs_with_the_real_tool(real_gate, tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "ci/github/action.yml").read_text())
    script = tmp_path / "step.sh"
    script.write_text(action["runs"]["steps"][0]["run"])
    summary, output = tmp_path / "summary", tmp_path / "output"
    ended = real_gate(
        command=("--noprofile", "--norc", "-eo", "pipefail", str(script)),
        candidate=OTHER_RELU,
        GITHUB_ACTION_PATH=str(ROOT / "ci/github"),
        GITHUB_STEP_SUMMARY=str(summary),
        GITHUB_OUTPUT=str(output),
        REPRO_CHECK_ARGUMENTS="--against\nout\n",
    )
    assert ended.returncode == 1, ended.stderr
    assert re.search(r"^::error .*aten%3A%3Arelu|^::error .*::.*aten::relu", ended.stdout, re.MULTILINE)
    assert "aten::relu" in summary.read_text()
    assert output.read_text().startswith("exit-code=1\n")
    assert outcome_of(tmp_path / "repro-check-reports")[0] == 1


def test_shellcheck_has_nothing_to_say():
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck is not installed")
    ended = subprocess.run([checker, str(GATE)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
