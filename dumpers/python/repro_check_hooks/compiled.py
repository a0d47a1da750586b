# SPDX-License-Identifier: Apache-2.0
"""Compiled code: a region is one record of what goes in and one of what comes out."""
import contextlib

from . import hooks, record_names
from .hooks import Excluded, Instead, guarded, unseen, watch, within
from .values import leaves

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any


def on_compiler(module):
    """What a compiler runs to compile is none of the program's computation."""

    @contextlib.contextmanager
    def around(callbacks):
        if hooks.recording is not None:
            hooks.recording.probe.repro_check_keep_key()
        with unseen(), callbacks:
            yield

    _skip_hooks()
    watch(module.CompilationCallbackHandler, "install_callbacks", None,
          lambda _token, callbacks, *_args, **_kwargs: Instead((around(callbacks),)))


def on_inductor(module):
    """Nor is what it starts to compile, to measure, or to ask which instructions there are."""

    def forget_plan(_token, environment):
        environment.pop(hooks.PLAN_VARIABLE, None)

    if hasattr(module, "python_subprocess_env"):  # not in each release
        watch(module, "python_subprocess_env", None, guarded(forget_plan))


def _skip_hooks():
    """Has no hook compiled where compiled code calls one, nor what it calls."""
    import torch

    frames: Any = torch._C._dynamo.eval_frame
    code = guarded(_skip_hooks).__code__
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    else:
        frames.skip_code(code)


def on_guards(module):
    """The conditions under which compiled code is used again hold the dispatch keys of its inputs, ours
    among them: they are made as they will be checked, or each call would compile anew."""
    within(module.CheckFunctionManager, "__init__", lambda *_args, **_kwargs: Excluded(False))


def on_compiled_graph(module):

    def compiled(_token, made, _graph, traced, *_args, **_kwargs):
        if hooks.recording is not None:
            return Instead((_region(hooks.recording, made, traced),))

    watch(module.OutputGraph, "call_user_compiler", None, guarded(compiled))


def _region(recording, compiled, traced):
    """`compiled`, with a record of what goes in and one of what comes out: operators that were fused
    inside are seen by nobody, so how many there were is said."""
    if recording.of_blocks:
        return recording.modules.region(compiled)
    count = sum(1 for node in traced.graph.nodes if node.op.startswith("call_"))

    def run(*args):
        recording.record(record_names.REGION_INPUTS_RECORD, guarded(leaves)(record_names.INPUT_VALUES, args) or [])
        result = compiled(*args)
        recording.record(record_names.REGION_RECORD, guarded(lambda: [
            (record_names.REGION_OPERATORS, float(count)), *leaves(record_names.OUTPUT_VALUES, result)])() or [])
        return result

    return run
