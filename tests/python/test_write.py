# SPDX-License-Identifier: Apache-2.0
"""Dumps written in Python, judged by the program itself."""

import json

import numpy as np
import pytest
import repro_check
from repro_check import digest
from rewrite import rewrite

ml_dtypes = pytest.importorskip("ml_dtypes")
BOTH = pytest.mark.parametrize("browse", [True, False])


def contents(directory):
    with repro_check.open(directory) as dump:
        return {(t.dtype, t.shape, t.digest) for op in dump for t in op.tensors}


def arrays():
    """Every dtype, and every awkward shape."""
    random = np.random.default_rng(5)
    found = {
        name: (random.normal(size=(3, 5)) * 4).astype(name)
        for name in "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split()
    }
    for name in "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split():
        found[name] = np.array([0.5, 1, 2, 4, float("nan")]).astype(getattr(ml_dtypes, name))
    for name in ("complex64", "complex128"):
        found[name] = (random.normal(size=4) + 1j * random.normal(size=4)).astype(name)
    halves = np.array([(1, 2), (-0.5, np.inf)], [("r", "<f2"), ("i", "<f2")])
    found["complex32"] = repro_check.tensor(halves, dtype="complex32")
    found["float4"] = repro_check.tensor(np.arange(16, dtype="u1"), dtype="float4_e2m1fn_x2")
    for name in ("qint8", "quint8", "qint32"):
        values = np.array([1, 100], name[1:] if name != "quint8" else "uint8")
        found[name] = repro_check.tensor(
            values, dtype=name, layout="quantised", attributes="scale 0.1, zero point 3"
        )
    wide = random.normal(size=(40, 30)).astype("f4")
    found.update(
        scalar=np.float64(0.1),
        empty=np.empty((0, 3), "i8"),
        transposed=wide.T,
        strided=wide[::2, 1::3],
        reversed=wide[::-1],
        expanded=np.broadcast_to(np.float32(7), (4, 5)),
        swapped=wide.astype(">f4"),
        leaf=random.bytes(1 << 20) and np.frombuffer(random.bytes(1 << 20), "u1"),
        leaves=random.normal(size=500_001),
        deep=np.ones((1,) * 40 + (2,)) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else wide,
    )
    return found


def record(directory, tensors, **options):
    with repro_check.DumpWriter(directory, **options) as writer:
        writer.op(
            "numpy::everything",
            overload="all",
            module="encoder.0",
            inputs=tensors,
            outputs=list(tensors.values()),
            arguments={"alpha": 1.5, "mode": "same", "sizes": [1, [2, None], True], "z": 1j},
            source="model.py:41",
        )
    return directory


@BOTH
def test_the_program_verifies_every_dtype_and_shape(tool, tmp_path, browse):
    tensors = arrays()
    path = record(tmp_path / "written", tensors, browse=browse)
    verified = tool("verify", path)
    assert verified.returncode == 0, verified.stderr
    with repro_check.open(path) as dump:
        assert dump.verify() > 25
        for slot, given in tensors.items():
            if isinstance(given, (np.ndarray, np.generic)):
                read = dump[0].inputs[slot]
                assert read.shape == given.shape and read.dtype == given.dtype.newbyteorder("=")
                assert np.ascontiguousarray(given).astype(read.dtype).tobytes() == read.tobytes(), slot
        assert dump[0].inputs.record("transposed").strides == (1, 30)
        assert dump[0].inputs.record("expanded").strides == (0, 0)
        assert dump[0].inputs.record("qint8").attributes == "scale 0.1, zero point 3"
        assert dict(dump[0].arguments)["sizes"] == [1, [2, None], True]
    shown = tool("inspect", path, "--op", "0")
    assert shown.returncode == 0 and "model.py:41" in shown.stdout, shown


@BOTH
def test_digests_are_those_of_the_recorder(tool, make_dump, recorded, tmp_path, browse):
    written = rewrite(recorded, tmp_path / "written", browse=browse)
    assert contents(written) == contents(recorded)
    same = tool("diff", recorded, written)
    assert same.returncode == 0, same.stdout
    assert same.stdout.startswith("REPRODUCIBLE: 2 of 2 operators bit-identical")


@BOTH
def test_a_difference_is_found_with_its_origin(tool, tmp_path, browse):
    def run(name, error):
        x, w = np.linspace(0, 1, 64, dtype="f4").reshape(8, 8), np.eye(8, dtype="f4")
        with repro_check.DumpWriter(tmp_path / name, browse=browse, settings={"threads": error}) as out:
            out.input("x", x)
            out.parameter("encoder.weight", w)
            y = x @ w
            out.op("numpy::matmul", module="encoder", inputs=[x, w], outputs=[y])
            z = y + np.float32(1)
            z[2, 3] = np.nextafter(z[2, 3], np.float32(error * 100))
            out.op("numpy::add", module="encoder", inputs=[y], outputs=[z])
            out.op("numpy::copy", module="head", inputs=[z[1:]], outputs=[z[1:].copy()])
        return tmp_path / name

    found = tool("diff", run("a", 0), run("b", 1), "--format", "json", "--all")
    assert found.returncode == 1, found.stderr
    report = json.loads(found.stdout)
    first, second = report["divergences"]["items"]
    assert (first["key"]["operator"], first["relation"]) == ("numpy::add", "origin")
    assert (second["key"]["operator"], second["relation"]) == ("numpy::copy", "propagated")
    assert second["producers"] == [1]


def test_what_a_call_returned_is_compared_though_no_operator_matches(tool, tmp_path):
    def run(name, operator, loss):
        y = np.arange(4, dtype="f4")
        with repro_check.DumpWriter(tmp_path / name) as out:
            out.op(operator, inputs=[y], outputs=[y * 2])
            out.returned({"logits": [y * 2], "last state": None, "loss": loss, "empty": ()})
        return tmp_path / name

    with repro_check.open(run("a", "numpy::multiply", 0.5)) as dump:
        assert dump[1].name == "repro_check::returned"
        assert dump[1].inputs["out.logits[0]"][1] == dump[1].outputs["out.logits[0]"][1] == 2
        others = {path: value for path, value in dump[1].arguments if path != "out.logits[0]"}
        assert others == {'out["last state"]': None, "out.loss": 0.5, "out.empty": []}
        assert dump.manifest["trace"]["returned"] == 1
    same = tool("diff", tmp_path / "a", run("b", "jax::double", 0.5), "--format", "json")
    assert same.returncode == 4 and json.loads(same.stdout)["returned"]["equal"] == 1
    other = tool("diff", tmp_path / "a", run("c", "jax::double", 0.75))
    assert other.returncode == 1
    assert other.stdout.startswith("DIVERGED in what the model returns: out.loss: 0.5 against 0.75"), other.stdout


def test_a_difference_of_the_weights_is_told_as_such(tool, tmp_path):
    def run(name, value):
        w = np.full((2, 2), value, "f4")
        with repro_check.DumpWriter(tmp_path / name) as out:
            out.parameter("head.weight", w)
            out.op("numpy::relu", module="head", inputs=[w], outputs=[np.maximum(w, 0)])
        return tmp_path / name

    found = tool("diff", run("a", 1), run("b", 2))
    assert found.returncode == 1
    assert found.stdout.startswith("DIVERGED from the weights: head.weight"), found.stdout


@pytest.mark.parametrize(
    "name, why",
    [
        ("aten::lstm.input", "computes layers side by side"),
        ("aten::_cudnn_rnn", "computes layers side by side"),
        ("aten::conv2d", "chooses among algorithms"),
        ("aten::cudnn_convolution", "chooses among algorithms"),
        ("aten::convolution_backward", "chooses among algorithms"),
        ("aten::sum", "in the order in which its blocks finish"),
        ("aten::mean.dim", "in the order in which its blocks finish"),
        ("aten::scatter_add", "in the order in which threads arrive"),
    ],
)
def test_what_varies_on_a_device_alone(tool, tmp_path, name, why):
    def run(side, device, value):
        x = np.arange(4, dtype="f4")
        operator, _, overload = name.partition(".")
        with repro_check.DumpWriter(tmp_path / device / side, device=device, depth="leaf") as out:
            out.op(operator, overload=overload, inputs=[x], outputs=[np.full(4, value, "f4")])
        return tmp_path / device / side

    for device in ("cuda:0", "cpu"):
        found = tool("diff", run("a", device, 1), run("b", device, 2), "--format", "json")
        assert found.returncode == 1, found.stderr
        cause = json.loads(found.stdout)["first_divergence"]["cause"]
        assert cause["name"] == ("nondeterministic kernel" if device == "cuda:0" else "unexplained")
        assert (why in cause["evidence"]) == (device == "cuda:0")
        assert ('"determinism": "error"' in cause["advice"]) == (device == "cuda:0")
        assert "threads" not in cause["advice"]


@pytest.mark.parametrize("level", ["digest", "stats"])
def test_levels_without_bytes(tool, tmp_path, level):
    for name in "ab":
        record(tmp_path / name, arrays(), level=level)
    same = tool("diff", tmp_path / "a", tmp_path / "b")
    assert same.returncode == 0, same.stdout
    with repro_check.open(tmp_path / "a") as dump:
        assert dump.manifest["trace"]["contents"] == 0
        assert (dump[0].inputs.record("float32").stats is not None) == (level == "stats")
        with pytest.raises(repro_check.NotStored, match="digest and no bytes"):
            dump[0].inputs["float32"]


@pytest.mark.parametrize("level", ["digest", "stats", "tensor"])
def test_nan_and_infinity_are_counted_at_every_level(tool, tmp_path, level):
    x = np.array([np.nan, np.inf, -np.inf, -np.inf, 1], "f4")
    given = {
        "float32": x,
        "float64": x.astype("f8"),
        "float16": x.astype("f2"),
        "complex64": np.array([complex(np.nan, np.inf), complex(-np.inf, -np.inf)], "c8"),
        "bfloat16": repro_check.tensor((x.view("u4") >> 16).astype("u2"), dtype="bfloat16"),
    }
    plain = {"float32": np.ones(3, "f4"), "int32": np.full(3, -1, "i4")}
    for name in "ab":
        with repro_check.DumpWriter(tmp_path / name, level=level) as out:
            out.op("numpy::plain", inputs=plain, outputs=plain)
            out.op("numpy::odd", inputs=plain, outputs=given)
            out.op("numpy::plain", inputs=given, outputs=plain)
    with repro_check.open(tmp_path / "a") as dump:
        for slot in given:
            assert dump[1].outputs.record(slot).non_finite == (1, 1, 2), slot
            assert dump[2].inputs.record(slot).non_finite == (1, 1, 2), slot
        for slot in plain:
            assert dump[1].inputs.record(slot).non_finite == (0, 0, 0), slot
    found = tool("inspect", tmp_path / "a", "--list", "--where", "nan=1 and inf=3")
    assert found.returncode == 0, found.stderr
    assert [line.split("\t")[1] for line in found.stdout.splitlines()] == ["operator", "numpy::odd"], found.stdout
    same = tool("diff", tmp_path / "a", tmp_path / "b", "--format", "json")
    assert same.returncode == 0, same.stdout
    assert json.loads(same.stdout)["warnings"][:2] == [
        "NaN in 5 outputs (5 elements), first made by op 1 numpy::odd",
        "Infinity in 5 outputs (15 elements), first made by op 1 numpy::odd",
    ]


def test_equal_contents_are_stored_once(tmp_path):
    x = np.ones(1000)
    with repro_check.DumpWriter(tmp_path / "dump") as writer:
        for _ in range(5):
            writer.op("numpy::copy", inputs=[x], outputs=[x.copy()])
    with repro_check.open(tmp_path / "dump") as dump:
        assert dump.manifest["trace"]["stored_bytes"] == x.nbytes
        assert dump.manifest["trace"]["contents"] == 1


def test_what_cannot_be_recorded_is_refused_and_leaves_the_dump_whole(tool, tmp_path):
    with repro_check.DumpWriter(tmp_path / "dump") as writer:
        for broken in (
            {"inputs": [np.array(["text"])]},
            {"inputs": [repro_check.tensor(np.ones(2, "f4"), dtype="bfloat16")]},
            {"inputs": [repro_check.tensor(np.ones(2), dtype="float65")]},
            {"arguments": {"x": object()}},
            {"arguments": {"x": 1 << 64}},
            {"parent": 0},
            {"phase": "sideways"},
        ):
            with pytest.raises((repro_check.InvalidRecord, repro_check.UnsupportedDtype)):
                writer.op("numpy::bad", **{"outputs": [np.ones(3)], **broken})
        writer.op("numpy::good", inputs=[None, np.ones(2)], outputs=[])
    assert tool("verify", tmp_path / "dump").returncode == 0
    with repro_check.open(tmp_path / "dump") as dump:
        assert [op.name for op in dump] == ["numpy::good"]
        assert dump[0].inputs.record(0).state == "undefined"


def test_hostile_names_stay_names(tool, tmp_path):
    names = ["a/b", "..", "", "x" * 300, "\x1b[2J", "ü€𝄞", "%2F", "\ud800", "nul\0nul"]
    with repro_check.DumpWriter(tmp_path / "dump") as writer:
        for name in names:
            writer.op(name, module=name, inputs={name: np.ones(1)}, source=(name, 3))
    shown = tool("verify", tmp_path / "dump")
    assert shown.returncode == 0, shown.stderr
    with repro_check.open(tmp_path / "dump") as dump:
        assert [op.name for op in dump][:7] == names[:7]


def test_the_tree_digest_has_no_seam():
    data = np.random.default_rng(1).bytes(3 * digest.CHUNK + 5)
    for size in (0, 1, digest.CHUNK - 1, digest.CHUNK, digest.CHUNK + 1, len(data)):
        assert digest.of_bytes(data[:size]) == digest.of_bytes(np.frombuffer(data[:size], "u1"))
    assert digest.of_bytes(b"") == digest.parse("99aa06d3014798d86001c324468d497f")
    assert digest.of_bytes(data[: digest.CHUNK]) != digest.of_bytes(data[: digest.CHUNK + 1])


def blocks_of(directory, **options):
    with repro_check.DumpWriter(directory, depth="blocks", level="digest", **options) as writer:
        for step in range(2):
            for path in ("fc1", "fc2", "fc1"):
                writer.block(path, inputs=[np.ones(3)], outputs=[np.arange(step, step + 3), None], step=step)
            writer.parameter_read("fc1.weight", np.full(2, step), step=step)
        writer.block("head", phase="eval", training=False, unopened=2)
        writer.parameter_read("fc2.weight", None)


def test_blocks_are_read_back(tmp_path, tool):
    blocks_of(tmp_path / "dump")
    with repro_check.open(tmp_path / "dump") as dump:
        calls = list(dump.blocks())
        assert [(b.step, b.path, b.call) for b in calls[:4]] == [(0, "fc1", 0), (0, "fc2", 0), (0, "fc1", 1), (1, "fc1", 0)]
        assert calls[0].inputs == calls[3].inputs and calls[0].outputs != calls[3].outputs
        assert calls[-1] == repro_check.Block(0, "head", 0, "eval", False, None, None, 2)
        first, second, moved = dump.parameters()
        assert (first.name, first.step, second.step) == ("fc1.weight", 0, 1) and first.digest != second.digest
        assert moved == repro_check.Parameter(0, "fc2.weight", None)
        assert len(dump) == 0 and list(dump.operators()) == []
    assert tool("verify", tmp_path / "dump").returncode == 0


def test_blocks_and_operators_do_not_mix(tmp_path):
    with repro_check.DumpWriter(tmp_path / "operators") as writer:
        with pytest.raises(repro_check.InvalidRecord, match="operators"):
            writer.block("fc1")
    with repro_check.DumpWriter(tmp_path / "blocks", depth="blocks") as writer:
        with pytest.raises(repro_check.InvalidRecord, match="phase"):
            writer.block("fc1", phase="lunch")
