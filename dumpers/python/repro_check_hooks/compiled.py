# SPDX-License-Identifier: Apache-2.0
"""Compiled code: a region is one record of what goes in and one of what comes out."""
import contextlib
import ctypes

from . import hooks, record_names, rungs
from .hooks import Excluded, Instead, guarded, unseen, watch, within
from .values import is_tensor, leaves, parts

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

    def compiling(output_graph, traced, *_args, **_kwargs):
        given, region = output_graph.compiler_fn, None
        if rungs.is_asked() and hooks.recording is not None:
            # Before a compiler writes the graph anew.
            region = rungs.Region(hooks.recording, traced, output_graph.root_tx.f_code)
            output_graph.compiler_fn = rungs.compiler_in_place_of(given)
        return output_graph, given, region

    def compiled(token, made, _graph, traced, *_args, **_kwargs):
        if hooks.recording is not None:
            return Instead((_region(hooks.recording, made, traced, token[2]),))

    def leave(token, _error):
        output_graph, given, _region = token
        output_graph.compiler_fn = given

    watch(module.OutputGraph, "call_user_compiler", guarded(compiling), guarded(compiled), leave)


def on_generated_code(module):
    """Kernels that were generated fill memory that a recorded operator may have filled before: what comes out of them,
    forward and backward, is read anew wherever it is read."""

    def ran(_token, results, _graph, *_args, **_kwargs):
        if hooks.attached() is not None:
            _written_unseen(hooks.recording, results)

    watch(module.CompiledFxGraph, "__call__", lambda *_args, **_kwargs: True, guarded(ran))


def _written_unseen(recording, values, unless=lambda _tensor: False):
    for name, value in leaves("", values):
        if is_tensor(value) and not unless(value):
            for _, part in parts(name, value):
                recording.probe.repro_check_shared(ctypes.c_void_p(part._cdata))


def _may_have_written(recording, args):
    """Nor does an operator tell of what generated code writes in place of what it is given, where autograd does not
    guard it, as it does parameters."""
    guards = recording.torch.is_grad_enabled()
    _written_unseen(recording, args, lambda tensor: guards and tensor.is_leaf and tensor.requires_grad)


def _region(recording, compiled, traced, region):
    """`compiled`, with a record of what goes in and one of what comes out: operators that were fused
    inside are seen by nobody, so how many there were is said."""
    if recording.of_blocks:
        return recording.modules.region(compiled)
    count = sum(1 for node in traced.graph.nodes if node.op.startswith("call_"))
    if region is not None:
        generated = rungs.generates()

        def run_on_rung(*args):
            guarded(region.before)(args)
            result = compiled(*args)
            if generated:
                guarded(_may_have_written)(recording, args)
            guarded(region.behind)(result, [(record_names.REGION_OPERATORS, float(count))] if generated else [])
            return result

        return run_on_rung

    def run(*args):
        recording.record(record_names.REGION_INPUTS_RECORD, guarded(leaves)(record_names.INPUT_VALUES, args) or [])
        result = compiled(*args)
        guarded(_may_have_written)(recording, args)
        recording.record(record_names.REGION_RECORD, guarded(lambda: [
            (record_names.REGION_OPERATORS, float(count)), *leaves(record_names.OUTPUT_VALUES, result)])() or [])
        return result

    return run
