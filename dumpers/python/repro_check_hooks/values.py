# SPDX-License-Identifier: Apache-2.0
"""What is found inside of values: tensors, numbers, and of a tensor what it is made of, or a part of."""

from .record_names import HOLDERS_MARK, SHARD_MARK

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

    Leaves = List[Tuple[str, Any]]
    Leaf = Callable[[str, Any, int], Optional[Leaves]]


def leaves(name: str, value: object) -> "Leaves":
    """Tensors and numbers inside of `value`, each with its path."""
    return inside(name, value, leaf)


def leaf(name: str, value: "Any", _depth: int) -> "Optional[Leaves]":
    if is_tensor(value):
        return [(name, value)]
    return [(name, float(value))] if isinstance(value, (bool, int, float)) else None


def is_tensor(value: object) -> bool:
    return hasattr(value, "_cdata") and hasattr(value, "is_floating_point")


def inside(name: str, value: object, leaf: "Leaf", depth: int = 0) -> "Leaves":
    """What `leaf` finds in `value`, or in its items where it returns None, each with its path."""
    found = leaf(name, value, depth)
    if found is not None:
        return found
    if depth > 8:
        return []
    if isinstance(value, dict):
        items: Iterable[Tuple[object, object]] = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return []
    return [each for key, part in items for each in inside(f"{name}[{key!r}]", part, leaf, depth + 1)]


def parts(name: str, value: "Any") -> "Leaves":
    """The tensors that a class of tensors keeps its values in, as far as it tells them to compilers."""
    if not hasattr(type(value), "__tensor_flatten__"):
        return [(name, value)]
    return [part for inner in value.__tensor_flatten__()[0] for part in parts(f"{name}.{inner}", getattr(value, inner))]


def spec_of(tensor: object) -> "Any":
    """How a DTensor lies on its ranks; None of another tensor."""
    return getattr(tensor, "_spec", None) if hasattr(tensor, "_local_tensor") else None


def placed_name(name: str, parts: "Sequence[Tuple[object, int, int]]" = (), holders: "Iterable[object]" = ()) -> str:
    """The name of what a rank holds of a tensor: `weight@0:1/2|0,1`, `placed` in the table of records.
    @param parts    dimension, place and, but for 0, how many there are, by axis of the mesh
    @param holders  ranks that hold the same, or axes of the mesh"""
    texts = [f"{dimension}:{place}/{count}" if count else f"{dimension}:{place}" for dimension, place, count in parts]
    ends = (SHARD_MARK, texts), (HOLDERS_MARK, [str(holder) for holder in holders])
    return name + "".join([mark + ",".join(each) for mark, each in ends if each])


def held_here(name: str, tensor: "Any", holders: "Iterable[object]" = ()) -> "Tuple[str, Any]":
    """Of a DTensor what this rank holds, its name with the part that it is: `weight@0:1/2` is the second
    half along dimension 0. Equal names on several ranks are replicas of one another."""
    spec = spec_of(tensor)
    if spec is None:
        return name, tensor
    place = spec.mesh.get_coordinate()
    parts = [(getattr(placement, "dim", "partial"), place[axis], spec.mesh.size(axis))
             for axis, placement in enumerate(spec.placements) if place is not None and not placement.is_replicate()]
    return placed_name(name, parts, holders), tensor._local_tensor


def axes_of(tensor: object) -> "List[object]":
    """Along which axes of its mesh a DTensor is in parts."""
    spec = spec_of(tensor)
    if spec is None or spec.mesh.get_coordinate() is None:
        return []
    axes = spec.mesh.mesh_dim_names or range(spec.mesh.ndim)
    return [axis for axis, placement in zip(axes, spec.placements) if not placement.is_replicate()]
