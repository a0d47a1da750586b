# SPDX-License-Identifier: Apache-2.0
"""The Python side of `repro-check exec`: waits for the program to import torch, loads the probe, and
tells it of modules, optimizers, steps, batches and threads.

Imports nothing that the interpreter has not got by itself, before the program does."""
import os

from . import calls, hooks, imports, ownership

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional


def start() -> None:
    """Called at the start of every Python process below `exec`."""
    path = os.environ.get(hooks.PLAN_VARIABLE)
    if not path or hooks.plan is not None:
        return
    why = ownership.refusal(path)
    if why:
        raise PermissionError(why)
    with open(path, encoding="utf-8") as file:
        hooks.plan = _from_json(file.read())
    hooks.guarded(calls.defer_signals)()
    import atexit

    from . import seeds

    # The first that is registered is the last that is called.
    atexit.register(hooks.guarded(_end))
    _wait_for_modules(seeds.watched())


def _end() -> None:
    if hooks.arrays is not None:
        hooks.arrays.end()
    if hooks.recording is not None:
        hooks.recording.end()


def _from_json(text: str) -> "Any":
    """The module `json` costs as much as all else here, and the program may have another one of that name: this is the
    part of it that is built in."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)

    class Rules:
        strict, parse_float, parse_int, parse_constant = True, float, int, float
        memo: "Dict[str, str]" = {}
        object_hook = object_pairs_hook = array_hook = None

    rules: Any = Rules
    return make_scanner(rules)(text, 0)[0]


def begin_here(settings: "Dict[str, Any]") -> "Any":
    """For a process that records a part of itself: the recording, whose end() ends it."""
    if os.environ.get(hooks.PLAN_VARIABLE) or (hooks.recording is not None and not hooks.recording.ended):
        raise RuntimeError("this process is being recorded already")
    from . import seeds

    hooks.plan = settings
    hooks.guarded(calls.defer_signals)()
    if hooks.recording is not None:
        if hooks.recording.attached:
            seeds.take_facts()  # of what was not recorded
        hooks.recording.begin()
    else:
        import torch  # noqa: F401 (what waits for it makes the recording)

        _wait_for_modules()
    if hooks.recording.failure is None:
        hooks.recording.stop_counting = hooks.guarded(seeds.count_here)() or bool
    return hooks.recording


def _wait_for_modules(more: "Optional[Dict[str, Callable[[Any], Any]]]" = None) -> None:
    imports.wait({"torch": _on_torch, **{name: _late(*place) for name, place in _WATCHED.items()}, **(more or {})})


# Modules of others, and by which function of ours each is watched once it has been imported.
_WATCHED = {
    "torch.utils.data.dataloader": ("loaders", "on_dataloader"),
    "concurrent.futures.thread": ("lanes", "on_executor"),
    "multiprocessing.pool": ("lanes", "on_pool"),
    "torch.distributed.distributed_c10d": ("ranks", "on_distributed"),
    "torch.nn.parallel.distributed": ("ranks", "on_wrapper"),
    "torch.distributed.tensor._api": ("ranks", "on_dtensor"),
    "torch.distributed._tensor.api": ("ranks", "on_dtensor"),
    "torch.distributed.fsdp.fully_sharded_data_parallel": ("ranks", "on_fsdp"),
    "torch.distributed.checkpoint.state_dict_saver": ("checkpoints", "on_saver"),
    "torch.distributed.pipelining.stage": ("ranks", "on_pipeline"),
    "torch.distributed.algorithms.join": ("ranks", "on_join"),
    "torch.distributed.algorithms.model_averaging.averagers": ("ranks", "on_averagers"),
    "multiprocessing.process": ("ends", "on_process"),
    "multiprocessing.popen_fork": ("processes", "on_multiprocessing"),
    "subprocess": ("processes", "on_subprocess"),
    "triton.runtime.jit": ("kernels", "on_triton"),
    "triton.runtime.autotuner": ("kernels", "on_autotuner"),
    "torch._inductor.runtime.triton_heuristics": ("kernels", "on_heuristics"),
    "torch._inductor.utils": ("compiled", "on_inductor"),
    "torch._inductor.output_code": ("compiled", "on_generated_code"),
    "safetensors.torch": ("kernels", "on_safetensors"),
    "torch._dynamo.callback": ("compiled", "on_compiler"),
    "torch._dynamo.guards": ("compiled", "on_guards"),
    "torch._dynamo.output_graph": ("compiled", "on_compiled_graph"),
    "jax._src.pjit": ("jax_calls", "on_pjit"),
}


def _late(room: str, function: str) -> "Callable[[Any], Any]":
    """That function, whose file is read when it is called."""
    return lambda module: getattr(__import__(f"{__package__}.{room}", fromlist=[function]), function)(module)


def _on_torch(torch: "Any") -> None:
    if not hasattr(torch, "__version__"):  # another module of that name
        imports.wait_again("torch")
        return
    if hooks.recording is not None:
        return
    hooks.untold = getattr(getattr(torch, "_C", None), "DisableTorchFunction", hooks.Nothing)
    from .recording import Recording

    hooks.recording = Recording(torch)
