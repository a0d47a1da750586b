# SPDX-License-Identifier: Apache-2.0
"""Compiled code: a region is one record of what goes in and one of what comes out."""
import contextlib
import warnings

import repro_check_attach as attach
from repro_check_attach import Excluded, guarded, leaves, unseen


def on_compiler(module):
    """What a compiler runs to compile is none of the program's computation."""
    # Said because of our hooks, which do nothing there.
    warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global hooks")
    cls = module.CompilationCallbackHandler
    original = cls.install_callbacks

    @contextlib.contextmanager
    def install_callbacks(handler, *args, **kwargs):
        if attach.recording is not None:
            attach.recording.probe.repro_check_keep_key()
        with unseen(), original(handler, *args, **kwargs):
            yield

    cls.install_callbacks = install_callbacks


def on_guards(module):
    """The conditions under which compiled code is used again hold the dispatch keys of its inputs, ours
    among them: they are made as they will be checked, or each call would compile anew."""
    cls = module.CheckFunctionManager
    original = cls.__init__

    def __init__(manager, *args, **kwargs):
        with Excluded(False):
            original(manager, *args, **kwargs)

    cls.__init__ = __init__


def on_compiled_graph(module):
    cls = module.OutputGraph
    original = cls.call_user_compiler

    def call_user_compiler(graph, traced, *args, **kwargs):
        compiled = original(graph, traced, *args, **kwargs)
        if attach.recording is None:
            return compiled
        return guarded(_region)(attach.recording, compiled, traced) or compiled

    cls.call_user_compiler = call_user_compiler


def _region(recording, compiled, traced):
    """`compiled`, with a record of what goes in and one of what comes out: operators that were fused
    inside are seen by nobody, so how many there were is said."""
    count = sum(1 for node in traced.graph.nodes if node.op.startswith("call_"))

    def run(*args):
        recording.record("repro_check::region_inputs", guarded(leaves)("input", args) or [])
        result = compiled(*args)
        recording.record("repro_check::region_outputs", guarded(
            lambda: [("operators", float(count))] + leaves("output", result))() or [])
        return result

    return run
