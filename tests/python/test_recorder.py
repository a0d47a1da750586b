# SPDX-License-Identifier: Apache-2.0
"""With a recorder: what it records is read, written again and found equal; a model is asserted."""

import pathlib

import pytest
import repro_check
from repro_check.testing import assert_reproducible
from rewrite import rewrite

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_recording_is_read_and_written_again(tool, tmp_path):
    recorded = tmp_path / "recorded"
    config = ROOT / "examples/transformer.json"
    ended = tool("record", "-c", config, "-o", recorded, "--set", "/dump/level=tensor")
    assert ended.returncode == 0, ended.stderr
    with repro_check.open(recorded) as dump:
        linear = dump["aten::linear", 3]
        assert linear.module == "encoder.layer.0.attention.output"
        assert linear.outputs[0].shape == (2, 16, 16) and linear.outputs[0].dtype == "float32"
        product = linear.inputs["input"] @ linear.inputs["weight"].T + linear.inputs["bias"]
        assert abs(product - linear.outputs[0]).max() < 1e-5
        assert dump.named("embedding.weight").shape == (100, 16)
        assert dump.verify() == dump.manifest["trace"]["contents"]
    written = rewrite(recorded, tmp_path / "written")
    same = tool("diff", recorded, written)
    assert same.returncode == 0, same.stdout
    assert same.stdout.startswith("REPRODUCIBLE: 62 of 62 operators bit-identical")


def test_a_model_is_asserted(tmp_path):
    config = ROOT / "config.example.json"
    passed = assert_reproducible(config, determinism="error", directory=tmp_path)
    assert passed.reports[0]["coverage"]["compared"] == 6
    # Two threads that race may come out alike.
    with pytest.raises(AssertionError, match="DIVERGED at op 3 aten::index_put_"):
        for _ in range(5):
            assert_reproducible(config)
    with pytest.raises(repro_check.ToolError, match="/runs") as raised:
        assert_reproducible(config, runs=[])
    assert raised.value.exit_code == 2
