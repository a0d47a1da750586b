#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants violations in a copy of the house and demands that each is seen:
`include_firewall_selftest.py ROOT`."""
import shutil
import sys
import tempfile
from pathlib import Path

import include_firewall
import source_tree

PLANTS = [
    ("core/error.h", '#include "configs/spec/run_config.h"', "core may not include configs"),
    ("core/error.cpp", "#include <ATen/ATen.h>", "core may not include LibTorch"),
    ("core/trace/op_record.h", "#include <nlohmann/json.hpp>", "a public header may not include json"),
    ("configs/parser/config_parser.h", '#include "comparators/report/report.h"',
     "may not include comparators"),
    ("comparators/compare.h", '#include "dumpers/store/dump_reader.h"',
     "comparators may not include dumpers/store"),
    ("comparators/compare.h", "#include <fstream>", "comparators may not touch files"),
    ("comparators/report/report.h", "#include <hdf5.h>", "comparators may not include HDF5"),
    ("dumpers/capture/engine/capture_options.h", "#include <c10/core/Device.h>", "a public header may not"),
    ("dumpers/capture/engine/capture_options.h", '#include "dumpers/store/dump_writer.h"',
     "dumpers/capture may not include dumpers/store"),
    ("dumpers/capture/engine/capture_options.h", '#include "dumpers/torchscript/torchscript_run.h"',
     "dumpers/capture may not include dumpers/torchscript"),
    ("dumpers/torchscript/torchscript_run.h", "#include <H5Dpublic.h>",
     "dumpers/torchscript may not include HDF5"),
    ("dumpers/store/dump_reader.h", "#include <hdf5.h>", "a public header may not include HDF5"),
    ("dumpers/store/dump_reader.h", "#include <torch/script.h>", "may not include LibTorch"),
    ("dumpers/journal/journal.h", '#include "dumpers/store/dump_reader.h"',
     "dumpers/journal may not include dumpers/store"),
    ("cmd/main.cpp", "#  include <torch/torch.h>", "cmd may not include LibTorch"),
    ("cmd/main.cpp", "#include <hdf5.h>", "cmd may not include HDF5"),
    ("cmd/dumps/pack_command.cpp", "#include <archive.h>", "cmd may not include libarchive"),
    ("comparators/measure/policy.cpp", "#include <re2/re2.h>", "comparators may not include RE2"),
    ("core/digest/digest.cpp", "#include <zstd.h>", "core may not include zstd"),
    ("dumpers/store/pack.h", "#include <zstd.h>", "a public header may not include zstd"),
    ("cmd/main.cpp", '#include "dumpers/journal/detail/anything.h"', "private to dumpers/journal"),
    ("core/digest/digest.h", '#include "core/trace/op_record.h"', "has core/trace below core/digest"),
    ("comparators/align/align.cpp", '#include "comparators/compare.h"',
     "has comparators/. below comparators/align"),
    ("cmd/main.cpp", '#include "cmd/attic/anything.h"', "cmd/attic is no room of"),
    ("cmd/main.cpp", '#include "neighbour.h"', "by their path from the top"),
]


def main() -> int:
    root = Path(sys.argv[1])
    unseen = 0
    before, _ = include_firewall.check(root)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        (copy / include_firewall.ARCHITECTURE).parent.mkdir()
        shutil.copy(root / include_firewall.ARCHITECTURE, copy / include_firewall.ARCHITECTURE)
        for _, path in source_tree.sources(root):
            (copy / path.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, copy / path)
        for victim, line, expected in PLANTS:
            file = copy / victim
            whole = file.read_bytes() if file.exists() else b""
            file.write_bytes(whole + f"\n{line}\n".encode())
            after, _ = include_firewall.check(copy)
            file.write_bytes(whole)
            news = [p for p in after if p not in before]
            seen = len(news) == 1 and news[0].startswith(victim + ":") and expected in news[0]
            print(f"{'seen  ' if seen else 'UNSEEN'} {victim}: {line} -> {news}")
            unseen += not seen
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
