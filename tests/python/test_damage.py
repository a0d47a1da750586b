# SPDX-License-Identifier: Apache-2.0
"""A reader fails closed: damage is named, and never changes a value."""

import json
import random
import shutil

import h5py
import numpy as np
import pytest
import repro_check
from repro_check import manifest
from rewrite import rewrite


def everything(directory):
    """All that can be read of a dump."""
    with repro_check.open(directory) as dump:
        dump.verify()
        ops = [
            (op.key, op.arguments, [(t.slot, t.shape, t.raw().tobytes()) for t in op.tensors])
            for op in dump
        ]
        return json.dumps(dump.manifest), ops


def relay(directory, **creation):
    """Stores every dataset of the trace as another program might, with `creation` for h5py."""
    with h5py.File(directory / "trace.h5", "r+") as file:
        names = [f"{group}/{name}" for group in ("index", "content") for name in file[group]]
        for name in names + ["packed"] * ("packed" in file):
            old = file[name]
            values, order = old[()], old.dtype.newbyteorder(creation.get("order", "<"))
            chunked = {"chunks": True, **{k: v for k, v in creation.items() if k != "order"}}
            widened = "bfloat16" in name or "float8" in name  # by h5py: numpy has no such type
            if widened or not old.shape or not old.size or 0 in old.shape:
                continue
            del file[name]
            file.create_dataset(name, data=np.asarray(values, order), dtype=order, **chunked)


@pytest.mark.parametrize("options", [(), ("packed",)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_same_elements_in_chunks_or_another_order_are_the_same_dump(
    make_dump, tmp_path, options, order
):
    dump = make_dump(tmp_path / "dump", *options)
    expected, before = everything(dump), (dump / "trace.h5").read_bytes()
    relay(dump, order=order)
    assert (dump / "trace.h5").read_bytes() != before
    assert everything(dump) == expected


def test_what_lies_behind_a_filter_is_refused(recorded):
    relay(recorded, compression="gzip")
    with pytest.raises(repro_check.DamagedDump, match="through a filter"):
        everything(recorded)


def reseal(directory, change):
    """Changes the manifest and gives it a digest that fits, as a program that meant it would."""
    path = directory / "manifest.json"
    fields = json.loads(path.read_text())
    del fields["manifest_digest"]
    change(fields)
    path.write_bytes(manifest.to_bytes(fields))


@pytest.mark.parametrize("options", [(), ("packed",)])
@pytest.mark.parametrize("name", ["trace.h5", "manifest.json"])
def test_a_flipped_bit_is_found_or_changes_nothing(make_dump, tmp_path, options, name):
    whole = make_dump(tmp_path / "whole", *options)
    expected, original = everything(whole), (whole / name).read_bytes()
    chance, found = random.Random(7), 0
    damaged = tmp_path / "damaged"
    shutil.copytree(whole, damaged)
    for _ in range(300):
        data = bytearray(original)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (damaged / name).write_bytes(data)
        try:
            assert everything(damaged) == expected
        except repro_check.ReproCheckError:
            found += 1
    assert found > (290 if name == "manifest.json" else 50)


@pytest.mark.parametrize("name", ["trace.h5", "manifest.json"])
def test_a_file_that_was_cut_is_refused(recorded, name):
    data = (recorded / name).read_bytes()
    for keep in (0, 1, len(data) // 2, len(data) - 1):
        (recorded / name).write_bytes(data[:keep])
        with pytest.raises(repro_check.ReproCheckError, match=name):
            everything(recorded)


def test_damage_is_named_with_its_place(recorded):
    dump = repro_check.open(recorded)
    wide = dump[0].inputs["wide"]
    dump.close()
    path = recorded / "trace.h5"
    data = path.read_bytes()
    at = data.index(wide.tobytes())
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    dump = repro_check.open(recorded)  # the index is whole
    with pytest.raises(repro_check.DamagedDump, match=r"trace.h5: /content/.*-float32-2x3: .*digest"):
        dump[0].inputs["wide"]
    assert dump[0].inputs["flags"].tolist() == [True, False, True]
    with pytest.raises(repro_check.DamagedDump):
        dump.verify()


def test_links_are_not_followed(recorded, tmp_path):
    (recorded / "trace.h5").rename(tmp_path / "elsewhere.h5")
    (recorded / "trace.h5").symlink_to(tmp_path / "elsewhere.h5")
    with pytest.raises(repro_check.DamagedDump, match="is a link"):
        repro_check.open(recorded)


def test_versions(recorded):
    def set_version(version):
        reseal(recorded, lambda fields: fields.update(version=version))

    set_version("1.99")  # only adds
    assert len(repro_check.open(recorded)) == 2
    set_version("2.0")
    with pytest.raises(repro_check.UnknownFormat, match="format 2.0 cannot be read"):
        repro_check.open(recorded)
    set_version("two")
    with pytest.raises(repro_check.DamagedDump, match="<major>.<minor>"):
        repro_check.open(recorded)


def test_a_partial_dump_is_asked_for(recorded):
    partial = {"reason": "killed by SIGKILL", "last": 1, "last_operator": "aten::relu"}
    partial.update(unfinished=[], lost_contents=0)
    reseal(recorded, lambda fields: fields["trace"].update(partial=partial))
    with pytest.raises(repro_check.IncompleteDump, match="SIGKILL"):
        repro_check.open(recorded)
    assert len(repro_check.open(recorded, partial=True)) == 2


def test_counts_are_held_against_the_index(recorded):
    reseal(recorded, lambda fields: fields["trace"].update(operators=3))
    with pytest.raises(repro_check.DamagedDump, match="holds 2 operators, the manifest says 3"):
        repro_check.open(recorded)


def test_what_a_writer_leaves_behind_is_no_dump(recorded, tmp_path):
    with pytest.raises(RuntimeError):
        with repro_check.DumpWriter(tmp_path / "left") as writer:
            writer.op("aten::relu")
            raise RuntimeError("the model failed")
    assert not (tmp_path / "left").exists()
    killed = repro_check.DumpWriter(tmp_path / "killed")
    killed.op("aten::relu")
    with pytest.raises(repro_check.IncompleteDump):
        repro_check.open(tmp_path / "killed")
    with pytest.raises(repro_check.ReproCheckError, match="is not empty"):
        rewrite(recorded, tmp_path / "killed")
    killed.discard()
