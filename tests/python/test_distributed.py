# SPDX-License-Identifier: Apache-2.0
"""Ranks over workers, with a stand-in for the cluster and, where there is one, with Dask: what the command says of
all of them is what comes out."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

import pytest
from repro_check import ToolError, distributed

RANKS = 40


class Workers:
    """submit() and gather() as Dask has them: what is a future among the arguments becomes what it holds."""

    def __init__(self, pool):
        self.pool, self.calls = pool, []

    def submit(self, task, *arguments, pure, **place):
        assert pure is False
        self.calls.append((task, len(arguments), place))
        held = [each.result() if isinstance(each, concurrent.futures.Future) else each for each in arguments]
        return self.pool.submit(task, *held)

    def gather(self, future):
        return future.result()


@pytest.fixture
def workers():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield Workers(pool)


@pytest.fixture
def make_ranks(tmp_path):
    program = os.environ.get("REPRO_CHECK_RANK_DUMPS", "")

    def make(name, *fault):
        subprocess.run([program, str(tmp_path / name), *map(str, (RANKS, 4, 8, *fault))], check=True)
        return tmp_path / name

    return make


def expect_the_same(verdict, done):
    assert (verdict.exit_code, verdict.text) == (done.returncode, done.stdout)


def test_ranks(make_ranks, workers, tool):
    run = make_ranks("run", 21, 2, "grad")
    verdict = distributed.ranks(run, workers, width=2)
    expect_the_same(verdict, tool("ranks", run))
    assert verdict.report["first"]["odd_ranks"] == [21]
    # 20 slices, two joins of them, one of these.
    assert [arguments for _, arguments, _ in workers.calls] == [4] * 20 + [16, 4, 2]
    shutil.rmtree(run / "rank-7")
    expect_the_same(distributed.ranks(run, workers), tool("ranks", run))
    os.truncate(run / "rank-9" / "trace.h5", 100)
    expect_the_same(distributed.ranks(run, workers), tool("ranks", run))


def test_diff(make_ranks, workers, tool):
    runs = make_ranks("a"), make_ranks("b", 5, 1, "param")
    verdict = distributed.diff(*runs, workers, options=["--policy", "bitwise"])
    expect_the_same(verdict, tool("diff", *runs))
    assert (verdict.exit_code, len(verdict.report)) == (1, RANKS)


def test_verify(make_ranks, workers):
    run = make_ranks("run")
    assert distributed.verify(run, workers).exit_code == 0
    shutil.rmtree(run / "rank-7")
    verdict = distributed.verify(run, workers)
    assert (verdict.exit_code, verdict.text) == (4, f"ABSENT {run / 'rank-7'}\n")
    os.truncate(run / "rank-9" / "trace.h5", 100)
    verdict = distributed.verify(run, workers)
    assert verdict.exit_code == 3 and "rank-9" in verdict.text and "rank-7" not in verdict.text
    assert len(verdict.report) == RANKS


def test_places_and_failures(make_ranks, workers, tmp_path):
    run = make_ranks("run")
    distributed.ranks(run, workers, where=lambda first, last: [f"node-{first}-{last}"])
    assert [place["workers"] for _, _, place in workers.calls[:3]] == [["node-0-15"], ["node-16-31"], ["node-32-39"]]
    with pytest.raises(ToolError, match="ended with 2"):
        distributed.diff(run, tmp_path / "none", workers)
    with pytest.raises(ToolError, match="ended with 2"):
        distributed.diff(run, run, workers, options=["--no-such-flag"])
    # Ranks that nobody reads are no pass.
    (run / "ranks.json").unlink()
    with pytest.raises(ToolError, match="ended with 4") as failed:
        distributed.ranks(run, workers, count=16)
    assert "no file holds the ranks 16:40" in failed.value.hint


def test_without_dask(make_ranks, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(ToolError, match="dask.distributed, which is not installed"):
        distributed.ranks(make_ranks("run"))


def test_on_dask(make_ranks, tool):
    pytest.importorskip("dask.distributed")
    from dask.distributed import Client

    run = make_ranks("run", 21, 2, "grad")
    expect_the_same(distributed.ranks(run), tool("ranks", run))
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        expect_the_same(distributed.ranks(run, client, width=4), tool("ranks", run))
        expect_the_same(distributed.diff(run, run, client), tool("diff", run, run))
        assert distributed.verify(run, client).exit_code == 0
        assert json.dumps(distributed.ranks(run, client).report)
