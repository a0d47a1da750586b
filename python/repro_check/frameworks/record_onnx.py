# SPDX-License-Identifier: Apache-2.0
"""Started by `repro-check` as a file, with the package beside it, by an interpreter that may not have what it needs:
what that is the answer says."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    from repro_check.frameworks import onnx_recorder
    from repro_check.frameworks.recorder import main
except ImportError as error:
    print(f"has no {error.name}")
    sys.exit(2)

sys.exit(main(onnx_recorder.VERBS, sys.argv[1:]))
