#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest over one file of this folder: `run_pytest.py TEST_FILE`. Ends with 77 where a package
is missing that the tests cannot do without."""
import importlib.util
import os
import pathlib
import sys

NEEDED = ("numpy", "h5py", "xxhash", "ml_dtypes", "pytest")
here = pathlib.Path(__file__).resolve().parent
missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if missing:
    print(f"skipped: this Python lacks {', '.join(missing)} (scripts/setup installs them)")
    sys.exit(77)
package = str(here.parents[1] / "python")
sys.path.insert(0, package)
# An installed copy of the package would bring its plugin a second time.
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))

if __name__ == "__main__":  # not in the processes that Dask makes of it
    import pytest

    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(here), str(here / sys.argv[1])]))
