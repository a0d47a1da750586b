# SPDX-License-Identifier: Apache-2.0
"""What is read at the border of a block of values that borders.c does not know."""
import array

from .values import held_here, is_tensor

# Types that say nothing of what is computed.
_NO_VALUES = {"torch.dtype", "torch.device", "torch.layout", "torch.memory_format", "builtins.ellipsis",
              "builtins.slice", "builtins.function", "builtins.builtin_function_or_method",
              "builtins.method"}
# Classes that hold a dict without being one.
_WITH_DICT = ("UserDict", "BatchEncoding", "BatchFeature")


def _name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def opened(value, can_open, unopened):
    """What a value is that is none of the language's own types, see tell_borders() of borders.c."""
    kind = type(value)
    if isinstance(value, (str, int)):  # an enumeration, or a number of more bits
        return "s", str(value).encode(errors="replace")
    if isinstance(value, (float, complex)):
        return "c", array.array("d", [value.real, value.imag]).tobytes()
    if is_tensor(value):
        return _of_subclass(value)
    parts = _parts_of(value, kind) if can_open else None
    if parts is not None:
        return "p", list(parts)
    of_transformers = can_open and kind.__module__.startswith("transformers.")
    if of_transformers and ("Cache" in kind.__name__ or "Layer" in kind.__name__):
        return "a", None
    if kind.__module__.partition(".")[0] in ("numpy", "PIL") and _is_of_numbers(value):
        return "s", value.tobytes()
    if isinstance(value, type) or _name(kind) in _NO_VALUES:
        return "n", None
    unopened.append(_name(kind))
    return None


def _of_subclass(tensor):
    """What a class of tensors is made of, as far as it tells that to compilers."""
    if hasattr(tensor, "trigger_wait"):  # of a collective that may still be on its way
        tensor = tensor.trigger_wait()
    _, tensor = held_here("", tensor)
    if hasattr(type(tensor), "__tensor_flatten__"):
        return "p", [getattr(tensor, inner) for inner in tensor.__tensor_flatten__()[0]]
    return "T", tensor


def unread(tensors, plain):
    """That some of them could not be read after all: which ones, their classes tell."""
    return sorted({_name(type(tensor)) for tensor in tensors if type(tensor) not in plain}) or ["torch.Tensor"]


def _parts_of(value, kind):
    """None of what has no parts, or of what it is not known which they are."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if hasattr(kind, "__dataclass_fields__"):
        return [getattr(value, name, None) for name in kind.__dataclass_fields__]
    if kind.__name__ in _WITH_DICT and isinstance(getattr(value, "data", None), dict):
        return value.data.values()
    return None


def _is_of_numbers(value):
    """Whether all of it lies in its bytes: no array of objects."""
    return hasattr(value, "tobytes") and getattr(getattr(value, "dtype", None), "kind", "") not in ("O", "V")
