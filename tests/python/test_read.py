# SPDX-License-Identifier: Apache-2.0
"""Dumps as the recorder writes them, read."""

import json
import math
import pathlib
import re

import numpy as np
import pytest
import repro_check
from repro_check import dtypes, layout

NAN, INF = float("nan"), float("inf")
ml_dtypes = pytest.importorskip("ml_dtypes")

EXPECTED = {
    "flags": ("bool", [True, False, True]),
    "brain": ("bfloat16", [[1.5, -2.0], [INF, NAN]]),
    "half": ("float16", [0.5, -1.25, 65504.0]),
    "complex": ("complex64", [1 + 2j, complex(-0.5, INF)]),
    "e5m2": ("float8_e5m2", [1.0, -0.5, 57344.0]),
    "scalar": ("float64", 0.1),
    "empty": ("int64", np.empty((0, 3))),
    "wide": ("float32", [[1, 2, 3], [4, 5, 6]]),
}


def same(values, expected):
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    expected = np.asarray(expected)
    with np.errstate(invalid="ignore"):
        equal = np.array_equal(values.astype(wide), expected.astype(wide), equal_nan=True)
    return values.shape == expected.shape and equal


@pytest.mark.parametrize("options", [(), ("packed",)])
def test_values_have_the_right_dtype_and_shape(make_dump, tmp_path, options):
    with repro_check.open(make_dump(tmp_path / "dump", *options)) as dump:
        everything = dump["aten::everything", 0]
        assert everything.full_name == "aten::everything.all"
        assert len(everything.inputs) == len(EXPECTED)
        for slot, (dtype, expected) in EXPECTED.items():
            values = everything.inputs[slot]
            assert values.dtype.name == dtype
            assert same(values, expected), slot
        assert everything.outputs[0].dtype == ml_dtypes.float8_e4m3fn
        assert same(everything.outputs[0], [448.0, 1.0])
        assert dump.verify() == len(EXPECTED) + 1


def test_a_notebook_shows_a_table(recorded):
    shown = repro_check.open(recorded)._repr_html_()
    assert shown.count("<tr>") == 3
    assert "<td>aten::relu</td>" in shown
    assert "&lt;Dump" in shown


def test_a_notebook_shows_a_dump_of_digests(make_dump, described, tmp_path):
    for tensor in described["tensors"].values():
        tensor["stored"] = False
    (tmp_path / "fixture.json").write_text(json.dumps(described))
    dump = repro_check.open(make_dump(tmp_path / "dump", fixture=tmp_path / "fixture.json"))
    assert "<td>float8_e4m3fn [2]</td>" in dump._repr_html_()


def test_operators_are_found_by_index_key_and_module(recorded):
    dump = repro_check.open(recorded)
    assert [op.full_name for op in dump] == ["aten::everything.all", "aten::relu"]
    assert dump[1].name == dump[-1].name == dump["aten::relu", 0].name == "aten::relu"
    assert dump["aten::everything.all", 0].index == 0
    assert [op.index for op in dump.module("encoder")] == [0]
    assert [op.index for op in dump.module("encoder.layers.3")] == [0]
    assert [op.index for op in dump.module("encoder.layers")] == [0]
    assert dump.module("enc") == []
    assert [op.index for op in dump.module("")] == [0, 1]
    assert ("aten::relu", 1) not in dump and ("aten::relu", 0) in dump
    assert [op.index for op in dump[:1]] == [0] and [op.index for op in dump[::-1]] == [1, 0]
    with pytest.raises(KeyError, match="aten::relu is called 1, not 2 times"):
        dump["aten::relu", 1]
    for name in ("relu", "aten::rellu"):
        with pytest.raises(KeyError, match=rf"{name} is never called in .* \(there is aten::relu\)"):
            dump[name]
    with pytest.raises(IndexError, match="op 2 is not one of the 2"):
        dump[2]
    frame = dump[0].frames[0]
    assert (frame.file, frame.line) == ("model.py", 123)
    assert dump[1].inputs.record("self").digest == dump[1].outputs.record(0).digest
    with pytest.raises(KeyError, match="there are 'self'"):
        dump[1].inputs["other"]


def test_contents_of_another_dump_need_that_dump(make_dump, recorded, tmp_path):
    referring = make_dump(tmp_path / "referring", f"reference={recorded}")
    alone = repro_check.open(referring)
    with pytest.raises(repro_check.NotStored, match="reference=DIR"):
        alone[0].inputs["wide"]
    assert alone.verify() == 0
    both = repro_check.open(referring, reference=recorded)
    assert same(both[0].inputs["wide"], EXPECTED["wide"][1])
    assert both.reference.directory == str(recorded)
    other = make_dump(tmp_path / "other", "packed")
    with pytest.raises(repro_check.DamagedDump, match="another dump"):
        repro_check.open(referring, reference=other)


def test_a_slice_is_told_apart_from_the_whole(make_dump, tmp_path):
    dump = repro_check.open(make_dump(tmp_path / "dump", "slice=4:2"))
    tensor = dump[0].inputs.record("wide")
    assert not tensor.stored
    with pytest.raises(repro_check.NotStored, match="slice"):
        tensor.numpy()
    positions, values = tensor.slice()
    assert values.tolist() == np.ravel(EXPECTED["wide"][1])[positions].tolist()
    assert 0 < len(values) < 6


def test_without_ml_dtypes_the_bytes_are_there(recorded, monkeypatch):
    monkeypatch.setattr(dtypes, "ml_dtypes", None)
    inputs = repro_check.open(recorded)[0].inputs
    with pytest.raises(repro_check.UnsupportedDtype, match="pip install ml_dtypes"):
        inputs["brain"]
    brain = inputs.record("brain").raw().ravel().tolist()
    assert brain[:3] == [0x3FC0, 0xC000, 0x7F80] and brain[3] & 0x7FFF > 0x7F80
    assert inputs.record("e5m2").raw().tolist() == [0x3C, 0xB8, 0x7B]


def test_the_frame_has_a_row_a_tensor(recorded):
    pytest.importorskip("pandas")
    frame = repro_check.open(recorded).frame(compute=True)
    assert len(frame) == len(EXPECTED) + 1 + 2
    wide = frame[frame.slot == "wide"].iloc[0]
    assert (wide["min"], wide["max"], wide["mean"], wide["zeros"]) == (1, 6, 3.5, 0)
    assert wide["l2"] == pytest.approx(math.sqrt(91))
    assert wide["std"] == pytest.approx(np.std([1, 2, 3, 4, 5, 6]))
    assert "values" not in frame
    values = repro_check.open(recorded).frame(values=True).set_index("slot")["values"]
    assert same(values["wide"], EXPECTED["wide"][1])
    brain = frame[frame.slot == "brain"].iloc[0]
    assert (brain["nans"], brain["positive_infs"], brain["mean"]) == (1, 1, -0.25)


def test_what_is_no_dump_is_refused(recorded, tmp_path):
    with pytest.raises(repro_check.IncompleteDump, match="is not there"):
        repro_check.open(tmp_path / "nothing")
    (recorded / "manifest.json").unlink()
    with pytest.raises(repro_check.IncompleteDump, match="repro-check recover"):
        repro_check.open(recorded)
    (tmp_path / "dump.tar.zst").write_bytes(b"")
    with pytest.raises(repro_check.UnknownFormat, match="repro-check unpack"):
        repro_check.open(tmp_path / "dump.tar.zst")


def test_an_input_that_was_written_while_it_was_digested_says_so(make_dump, described, tmp_path):
    described["tensors"]["f"]["watch"] = "moved"
    described["tensors"]["s"]["watch"] = "steady"
    (tmp_path / "fixture.json").write_text(json.dumps(described))
    dump = repro_check.open(make_dump(tmp_path / "dump", fixture=tmp_path / "fixture.json"))
    inputs = dump["aten::everything", 0].inputs
    moved = {slot: inputs.record(slot).moved for slot in ("wide", "scalar", "brain")}
    assert moved == {"wide": True, "scalar": False, "brain": None}


def documented():
    """The tables of /index as docs/DUMP_FORMAT.md has them: member, numpy's code, offset where it says."""
    codes = {"text": "<u4", "texts": "<u4", **{f"{k}{8 * n}": f"<{k}{n}" for k in "iuf" for n in (1, 2, 4, 8)}}
    text = (pathlib.Path(__file__).parents[2] / "docs/DUMP_FORMAT.md").read_text(encoding="utf-8")
    text = text.split("### /index\n")[1].split("### /content\n")[0]
    tables, table = {}, None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if named := re.match(r"\*\*`(\w+)`\*\*", line):
            table = tables.setdefault(named[1], [])
        elif re.match(r"\| [0-9]", line):
            types = cells[2].split(", ") * 2
            for place, member, code in zip(cells[0].split(", "), re.findall(r"`(\w+)`", cells[1]), types):
                table.append((member, codes[code], int(place)))
        elif row := re.match(r"\| `(\w+)` \| (.*) \|$", line):
            members, table = [], tables.setdefault(row[1], [])
            for member, code in re.findall(r"`(\w+)`|\b([iuf](?:8|16|32|64)|texts?)\b", row[2]):
                members += [member] if member else []
                if code and members:
                    table += [(name, codes[code], None) for name in members]
                    members = []
                elif code:
                    tables[row[1]] = codes[code]
                    break
    return tables


def test_the_tables_are_those_of_the_document():
    tables = documented()
    assert tables.keys() == layout.TABLES.keys()
    for name, found in layout.TABLES.items():
        if found.names is None:
            assert np.dtype(tables[name]) == found, name
            continue
        stated = sorted(tables[name], key=lambda member: found.fields[member[0]][1])
        assert [(member, np.dtype(code)) for member, code, _ in stated] == [
            (member, found.fields[member][0]) for member in found.names
        ], name
        for member, _, offset in stated:
            assert offset in (None, found.fields[member][1]), (name, member)
