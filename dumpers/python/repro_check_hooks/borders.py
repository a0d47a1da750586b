# SPDX-License-Identifier: Apache-2.0
"""What is read at the border of a block: tensors, numbers and texts inside of what a call is given or returns."""
import array

from .values import held_here, is_tensor

_DEEPEST, _MOST_LEAVES = 8, 10_000
# Types that say nothing of what is computed.
_NO_VALUES = {"torch.dtype", "torch.device", "torch.layout", "torch.memory_format", "builtins.ellipsis",
              "builtins.slice", "builtins.type", "builtins.function", "builtins.builtin_function_or_method",
              "builtins.method"}
# Classes that hold a dict without being one.
_WITH_DICT = ("UserDict", "BatchEncoding", "BatchFeature")


def _name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


class Border:
    """A letter and a word for each leaf, as `Border` of the probe has them; unopened: types that were not opened."""

    def __init__(self, torch):
        self._plain = torch.Tensor, torch.nn.Parameter
        self._kinds, self._words, self._bytes, self.unopened = [], [], [], []
        self._held = []  # tensors that the words are addresses of

    def add(self, value, depth=0):
        kind = type(value)
        if kind in self._plain:
            self._add_tensor(value)
        elif value is None:
            pass
        elif kind is bool:
            self._add_bytes("b", b"\1" if value else b"\0")
        elif kind is int and -2**63 <= value < 2**63:
            self._add_bytes("i", value.to_bytes(8, "little", signed=True))
        elif kind is float:
            self._add_bytes("d", array.array("d", [value]).tobytes())
        elif isinstance(value, (str, int)):  # an enumeration, or a number of more bits
            self._add_bytes("s", str(value).encode(errors="replace"))
        elif isinstance(value, (float, complex)):
            self._add_bytes("c", array.array("d", [value.real, value.imag]).tobytes())
        elif is_tensor(value):
            self._add_subclass(value)
        else:
            self._add_parts(value, kind, depth)
        return self

    def _add_tensor(self, tensor):
        self._kinds.append("T")
        self._words.append(tensor._cdata)
        self._held.append(tensor)

    def _add_bytes(self, kind, value):
        self._kinds.append(kind)
        self._words.append(len(value))
        self._bytes.append(value)

    def _add_subclass(self, tensor):
        """What a class of tensors is made of, as far as it tells that to compilers."""
        if hasattr(tensor, "trigger_wait"):  # of a collective that may still be on its way
            tensor = tensor.trigger_wait()
        _, tensor = held_here("", tensor)
        if hasattr(type(tensor), "__tensor_flatten__"):
            for inner in tensor.__tensor_flatten__()[0]:
                self.add(getattr(tensor, inner))
        else:
            self._add_tensor(tensor)

    def _add_parts(self, value, kind, depth):
        can_open = depth < _DEEPEST and len(self._kinds) < _MOST_LEAVES
        parts = _parts_of(value, kind) if can_open else None
        if parts is not None:
            for part in parts:
                self.add(part, depth + 1)
        elif kind.__module__.partition(".")[0] in ("numpy", "PIL") and _is_of_numbers(value):
            self._add_bytes("s", value.tobytes())
        elif _name(kind) not in _NO_VALUES:
            self.unopened.append(_name(kind))

    def told(self):
        """Letters, words, the bytes of what is no tensor, and how many were not opened."""
        return ("".join(self._kinds).encode(), array.array("Q", self._words).tobytes(), b"".join(self._bytes),
                len(self.unopened))

    def note_unread(self):
        """That tensors could not be read after all: which ones, their classes tell."""
        classes = {_name(type(tensor)) for tensor in self._held if type(tensor) not in self._plain}
        self.unopened += sorted(classes) or ["torch.Tensor"]


def _parts_of(value, kind):
    """None of what has no parts, or of what it is not known which they are."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if hasattr(kind, "__dataclass_fields__"):
        return [getattr(value, name, None) for name in kind.__dataclass_fields__]
    if kind.__module__.startswith("transformers.") and ("Cache" in kind.__name__ or "Layer" in kind.__name__):
        return vars(value).values()
    if kind.__name__ in _WITH_DICT and isinstance(getattr(value, "data", None), dict):
        return value.data.values()
    return None


def _is_of_numbers(value):
    """Whether all of it lies in its bytes: no array of objects."""
    return hasattr(value, "tobytes") and getattr(getattr(value, "dtype", None), "kind", "") not in ("O", "V")
