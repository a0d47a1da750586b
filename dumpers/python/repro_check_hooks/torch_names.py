# SPDX-License-Identifier: Apache-2.0
"""The private and undocumented names of PyTorch, JAX, Triton, NumPy and Python that hooks lean on. A release may take
one away: then the dump has a note, which says what is lost.

NAMES: by module, and by name in it: since which release of PyTorch (of Triton, of NumPy, of Python) it is there, before
which release it was (empty: it still is), and what is lost without it. `A().b` is an attribute that methods of A give
to their objects. tests/lint/torch_names.py holds the table against the code, and against each PyTorch at hand.

Imports nothing that the interpreter has not got by itself."""
import sys

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Tuple

    Row = Tuple[str, str, str]
    Release = Tuple[int, ...]

_ITS_PYTHON = {"_json", "_thread", "concurrent", "multiprocessing", "random", "sys", "threading"}

_CALLS_OF_JAX = "calls of JAX are not recorded"
_COMPILED = "inputs and results of compiled code are not recorded"
_COMPILING = "the compiler's own operators are recorded as part of the program"
_GROUPS = "the ranks of collectives and messages are not known"
_HANDED_OUT = "batches of data loaders are not recorded"
_KERNELS = "kernels of Triton are not recorded"
_LANES = "operators of the threads of a pool are recorded without an order"
_MADE_BY = "operators of worker processes are not recorded"
_NUMPY = "draws from NumPy's generators are not recorded"
_OF_STAGES = "the passes in which a pipeline stage determines shapes are compared, and may differ by chance"
_ORDER = "the samples of a batch are not recorded"
_PARTS = "distributed tensors are not compared"
_RANDOM = "draws from the module random are not recorded"
_RUNGS = "the rungs of compiling cannot be recorded"
_SCALED = "loss scales and skipped steps are not recorded"
_STEPS = "steps of optimizers are not recorded"
_TUNING = "trial launches of an autotuner are recorded as part of the program"
_WAYS = "a step with hooks of the program may count as one of PyTorch's own"

_EVER = "any", ""

NAMES: "Dict[str, Dict[str, Row]]" = {
    "torch": {
        "Tensor._cdata": (*_EVER, "values, names of parameters and states are not recorded"),
        "Tensor.map_": (*_EVER, "its writes are not recorded"),
        "Tensor.map2_": (*_EVER, "its writes are not recorded"),
        "UntypedStorage._cdata": (*_EVER, "memory that FSDP assigns to a tensor counts as written without an operator"),
        "_C.DisableTorchFunction": (*_EVER, "tensor subclasses of the program see the calls of the hooks"),
        "_C._AutoDispatchBelowAutograd": (*_EVER, _KERNELS),
        "_C._DisableTorchDispatch": (*_EVER, _KERNELS),
        "_C._dynamo.eval_frame._FrameAction": ("2.7", "", _COMPILING),
        "_C._dynamo.eval_frame._FrameExecStrategy": ("2.7", "", _COMPILING),
        "_C._dynamo.eval_frame.set_code_exec_strategy": ("2.7", "", _COMPILING),
        "_C._dynamo.eval_frame.skip_code": ("2.0", "2.7", _COMPILING),
        "_C._len_torch_function_stack": ("2.0", "", "borders of blocks are recorded in more time"),
        "_C._parse_dispatch_key": ("2.2", "", "operators that take functions fail under a recording"),
        "_ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS": (
            "2.2", "", "operators that take functions and are defined later fail under a recording"),
        "_ops._higher_order_ops": ("2.1", "", "operators that take functions fail under a recording"),
        "amp.GradScaler()._per_optimizer_states": ("2.3", "", _SCALED),
        "amp.GradScaler()._scale": ("2.3", "", _SCALED),
        "cuda.amp.GradScaler()._per_optimizer_states": (*_EVER, _SCALED),
        "cuda.amp.GradScaler()._scale": (*_EVER, _SCALED),
        "multiprocessing.reductions.rebuild_tensor": (*_EVER, "memory from another process is not observed"),
        "nn.Module()._parameters": (*_EVER, "parameters that no optimizer has are not reported"),
    },
    "IPython.core.compilerop": {
        "CachingCompiler()._filename_map": (*_EVER, "cells of a notebook are named by their files"),
    },
    "torch.optim.optimizer": {
        "Optimizer()._optimizer_step_post_hooks": ("2.0", "", _WAYS),
        "Optimizer()._optimizer_step_pre_hooks": ("2.0", "", _WAYS),
        "Optimizer._hook_for_profile": ("any", "2.0", _STEPS),
        "Optimizer._patch_step_function": ("2.0", "", _STEPS),
        "_global_optimizer_post_hooks": ("2.0", "", _WAYS),
        "_global_optimizer_pre_hooks": ("2.0", "", _WAYS),
    },
    "torch.utils.data.dataloader": {
        "_BaseDataLoaderIter": (*_EVER, _HANDED_OUT),
        "_BaseDataLoaderIter()._dataset": (*_EVER, _ORDER),
        "_BaseDataLoaderIter()._num_workers": (*_EVER, _ORDER),
        "_BaseDataLoaderIter()._num_yielded": (*_EVER, "the position of a loader before a checkpoint is not recorded"),
        "_BaseDataLoaderIter._next_index": (*_EVER, _ORDER),
        "_MultiProcessingDataLoaderIter": (*_EVER, _HANDED_OUT),
        "_MultiProcessingDataLoaderIter()._in_order": ("2.6", "", _MADE_BY),
        "_MultiProcessingDataLoaderIter()._rcvd_idx": (*_EVER, _ORDER),
        "_MultiProcessingDataLoaderIter()._send_idx": (*_EVER, _ORDER),
        "_MultiProcessingDataLoaderIter()._task_info": (*_EVER, _MADE_BY),
        "_MultiProcessingDataLoaderIter()._workers": (*_EVER, _MADE_BY),
        "_MultiProcessingDataLoaderIter._reset": (*_EVER, _MADE_BY),
        "_MultiProcessingDataLoaderIter._try_get_data": (*_EVER, "batches are compared in the order of their arrival"),
        "_MultiProcessingDataLoaderIter._try_put_index": (*_EVER, _MADE_BY),
        "_utils.pin_memory._pin_memory_loop": (*_EVER, "pinned batches are compared in the order of their arrival"),
        "_utils.worker._worker_loop": (*_EVER, _MADE_BY),
    },
    "torch.distributed.distributed_c10d": {
        "_new_group_with_tag": ("2.1", "", _GROUPS),
        "_pg_group_ranks": (*_EVER, _GROUPS),
        "_pg_names": (*_EVER, _GROUPS),
        "_world": ("2.0", "", _GROUPS),
    },
    "torch.nn.parallel.distributed": {
        "DistributedDataParallel().parameters_to_ignore": (
            *_EVER, "parameters that it ignores count as replicas"),
    },
    "torch.distributed.fsdp.fully_sharded_data_parallel": {
        "FullyShardedDataParallel()._fsdp_wrapped_module": (
            *_EVER, "names of parameters change when a module is sharded"),
    },
    "torch.distributed.tensor._api": {
        "DTensor()._local_tensor": ("2.5", "", _PARTS),
        "DTensor()._spec": ("2.5", "", _PARTS),
    },
    "torch.distributed.tensor._utils": {
        "compute_local_shape_and_global_offset": ("2.5", "", "the position of a part in its tensor is not known"),
    },
    "torch.distributed._functional_collectives": {
        "AsyncCollectiveTensor().elem": ("2.1", "", _PARTS),
    },
    "torch.distributed.pipelining.stage": {
        "PipelineStage._backward_metadata_inference": ("2.12", "", _OF_STAGES),
        "PipelineStage._forward_metadata_inference": ("2.12", "", _OF_STAGES),
        "PipelineStage._shape_inference": ("2.6", "2.12", _OF_STAGES),
        "_PipelineStageBase": ("2.4", "", _OF_STAGES),
    },
    "torch._dynamo.callback": {
        "CompilationCallbackHandler.install_callbacks": ("2.6", "", _COMPILING),
    },
    "torch._dynamo.guards": {
        "CheckFunctionManager": ("2.0", "", "code is compiled again at each call"),
    },
    "torch._dynamo.output_graph": {
        "OutputGraph.call_user_compiler": ("2.0", "", _COMPILED),
    },
    "torch._dynamo.eval_frame": {
        "OptimizedModule()._orig_mod": ("2.0", "", "names of parameters change when a module is compiled"),
    },
    "torch._dynamo.repro.after_dynamo": {
        "WrapBackendDebug()._torchdynamo_orig_backend": ("2.6", "", _RUNGS),
    },
    "torch._functorch.partitioners": {
        "min_cut_rematerialization_partition": ("2.0", "", _RUNGS),
    },
    "torch._inductor.output_code": {
        "CompiledFxGraph()._boxed_call": ("2.6", "", _RUNGS),
        "CompiledFxGraph.__call__": (
            "2.6", "", "gradients of compiled code may be taken for what an operator in it had written before"),
    },
    "torch._inductor.runtime.triton_heuristics": {
        "CachingAutotuner.benchmark_all_configs": ("2.4", "", _TUNING),
        "CachingAutotuner.coordinate_descent_tuning": ("2.4", "", _TUNING),
    },
    "jax._src.pjit": {
        "_get_fastpath_data": ("0.10", "", _CALLS_OF_JAX),
        "_pjit_call_impl_python": ("0.10", "", _CALLS_OF_JAX),
    },
    "jax._src.array": {
        "ArrayImpl._single_device_array_to_np_array_did_copy": ("0.10", "", _CALLS_OF_JAX),
    },
    "jax._src.core": {
        "ArrayRefImpl()._buf": ("0.10", "", "references to arrays of JAX are not recorded"),
        "Ref()._refs": ("0.10", "", "references to arrays of JAX are not recorded"),
    },
    "jax._src.stages": {
        "Compiled()._executable": ("0.10", "", "calls of what JAX compiled ahead of time are not recorded"),
        "Compiled()._params": ("0.10", "", "calls of what JAX compiled ahead of time are not recorded"),
    },
    "jax._src.random.prng": {
        "PRNGKeyArray()._base_array": ("0.10", "", _CALLS_OF_JAX),
        "PRNGKeyArray()._impl": ("0.10", "", _CALLS_OF_JAX),
    },
    "triton.runtime.jit": {
        "JITFunction().arg_names": (*_EVER, _KERNELS),
        "JITFunction().fn": (*_EVER, _KERNELS),
        "JITFunction.run": (*_EVER, _KERNELS),
    },
    "triton.runtime.autotuner": {
        "Autotuner._bench": (*_EVER, _TUNING),
    },
    "numpy.random": {
        "bit_generator.randbits": (*_EVER, "generators of NumPy that were made without a seed are not seeded"),
        "mtrand._rand": (*_EVER, _NUMPY),
        "mtrand._rand._bit_generator": (*_EVER, _NUMPY),
    },
    "random": {"_inst": (*_EVER, _RANDOM)},
    "sys": {
        "_current_frames": (*_EVER, "a module that the program loads itself may be observed too early"),
        "_getframe": (*_EVER, "lines of the program are not known"),
    },
    "_json": {"make_scanner": (*_EVER, "the plan of a recording is read more slowly")},
    "_thread": {
        "_local": (*_EVER, "nothing is recorded"),
        "start_joinable_thread": ("3.13", "", "operators of threads are recorded without an order"),
        "start_new": (*_EVER, "operators of threads are recorded without an order"),
    },
    "threading": {
        "Thread()._target": (*_EVER, _LANES),
        "_make_invoke_excepthook": (*_EVER, "exceptions that end a thread are not recorded"),
    },
    "concurrent.futures.thread": {
        "_WorkItem": (*_EVER, _LANES),
        "_worker": (*_EVER, _LANES),
    },
    "concurrent.futures.process": {
        "_process_worker": (*_EVER, "workers of a pool are compared one by one"),
    },
    "multiprocessing.popen_fork": {
        "Popen._send_signal": (*_EVER, "a process that the program ends counts as one that was interrupted"),
    },
    "multiprocessing.pool": {
        "ThreadPool()._quick_put": (*_EVER, _LANES),
        "ThreadPool._setup_queues": (*_EVER, _LANES),
        "worker": (*_EVER, _LANES),
    },
}


def release_of(module: str) -> "Release":
    """Of what the module is a part of, as a pair of numbers."""
    top = module.partition(".")[0]
    if top in _ITS_PYTHON:
        return sys.version_info[:2]
    return _numbers(getattr(sys.modules.get(top), "__version__", ""))


def _numbers(release: str) -> "Release":
    """`any` is before all others."""
    parts = release.split(".")[:2]
    return tuple(map(int, parts)) if len(parts) == 2 and all(part.isdigit() for part in parts) else (0, 0)


def is_expected(row: "Row", release: "Release") -> bool:
    """Whether the release should have the name of that row."""
    since, before, _ = row
    return _numbers(since) <= release and (not before or release < _numbers(before))


def is_there(module: object, name: str) -> bool:
    """Whether the module has it. Nothing of the module's runs for that."""
    owner: Any = module
    of_object = ""
    for part in name.split("."):
        if of_object:
            return _gives(owner, part)
        part, of_object, _ = part.partition("()")
        owner = _held(owner, part)
        if owner is None:
            return False
    return True


def _held(owner: "Any", name: str) -> "Any":
    spaces = owner.__mro__ if isinstance(owner, type) else (owner,)
    for space in spaces:
        if name in getattr(space, "__dict__", ()):
            return space.__dict__[name]
    return None if isinstance(owner, (type, type(sys))) else getattr(owner, name, None)


def _gives(cls: "Any", name: str) -> bool:
    """Whether a class, or a method of it, knows an attribute by that name."""
    for space in cls.__mro__:
        if name in space.__dict__ or name in space.__dict__.get("__annotations__", ()):
            return True
        for function in list(space.__dict__.values()):
            code = getattr(function, "__code__", None)
            if code is not None and (name in code.co_names or name in code.co_consts):
                return True
    return False


def missing() -> "Iterator[Tuple[str, str]]":
    """(name, what is lost) of each name that a module has not got which the program has loaded."""
    for name, names in NAMES.items():
        module: Any = sys.modules.get(name)
        # A module that is loaded when it is first used is not loaded here.
        kind: Any = type(module)
        if kind.__getattribute__ is not type(sys).__getattribute__:
            continue
        release = release_of(name)
        for part, row in names.items():
            if is_expected(row, release) and not is_there(module, part):
                yield f"{name}.{part}", row[2]


def lost(error: Exception) -> str:
    """What is lost where a hook failed since a name is missing; empty where it failed for another reason."""
    named = str(error).split("'") if isinstance(error, (AttributeError, ImportError)) else ()
    for names in NAMES.values():
        for name, row in names.items():
            if name.rpartition(".")[2] in named:
                return row[2]
    return ""
