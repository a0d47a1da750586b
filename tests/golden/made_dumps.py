# SPDX-License-Identifier: Apache-2.0
"""Dumps of fixtures, made once a test: make_dump writes the same bytes whenever it is asked for the same."""

import contextlib
import hashlib
import os
import shutil
import tempfile


def share(folder):
    """Dumps are kept below `folder` from now on, also by the processes that are started."""
    os.environ["MADE_DUMPS"] = os.path.abspath(folder)


def make(tool, description, target, *words):
    """Leaves the dump of a fixture's text at `target`, as `tool` makes it with further words."""
    shared = os.environ.get("MADE_DUMPS")
    # What another dump holds is no part of the words that name it.
    kept = shared and os.path.basename(tool) == "make_dump" and not any(
        word.startswith("reference=") for word in words)
    if not kept:
        return run(tool, description, target, words)
    key = hashlib.sha256("\0".join([tool, *words, description]).encode()).hexdigest()
    place = os.path.join(shared, key)
    if not os.path.exists(place):
        with tempfile.TemporaryDirectory(dir=shared) as folder:
            run(tool, description, os.path.join(folder, "dump"), words)
            with contextlib.suppress(OSError):  # somebody else has made it meanwhile
                os.rename(os.path.join(folder, "dump"), place)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(target)
    shutil.copytree(place, target)
    return None


def run(tool, description, target, words):
    import subprocess

    with tempfile.NamedTemporaryFile("w", suffix=".json") as source:
        source.write(description)
        source.flush()
        subprocess.run([tool, source.name, target, *words], check=True)


def set_pointer(document, pointer, value):
    """Puts a value where a JSON pointer says; none takes away what is there."""
    *path, last = pointer.lstrip("/").split("/")
    for key in path:
        document = document[int(key) if isinstance(document, list) else key]
    if value is None:
        del document[int(last) if isinstance(document, list) else last]
    else:
        document[int(last) if isinstance(document, list) else last] = value
