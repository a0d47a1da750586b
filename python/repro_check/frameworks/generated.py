# SPDX-License-Identifier: Apache-2.0
"""Generated inputs of a configuration: the numbers that the recorder of TorchScript makes of the same words."""

from __future__ import annotations

import math
import typing

import numpy as np

from ..errors import ReproCheckError

Json = typing.Dict[str, typing.Any]
Array = np.ndarray[typing.Any, typing.Any]

_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: Array) -> Array:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return typing.cast(Array, z ^ (z >> np.uint64(31)))


def _log(x: Array) -> Array:
    """Natural logarithm of positive normal numbers, the same on every machine."""
    mantissa, exponent = np.frexp(x)  # of [0.5, 1)
    low = mantissa < float.fromhex("0x1.6a09e667f3bcdp-1")
    mantissa, exponent = np.where(low, mantissa * 2, mantissa), (exponent - low).astype("f8")
    t = (mantissa - 1) / (mantissa + 1)
    t2, total = t * t, np.zeros_like(t)
    for k in range(25, 0, -2):
        total = total * t2 + 1.0 / k
    low_part = 2 * t * total + exponent * float.fromhex("0x1.ef35793c76730p-45")
    return typing.cast(Array, exponent * float.fromhex("0x1.62e42fefa3800p-1") + low_part)


class RandomNumbers:
    """SplitMix64 (Steele, Lea, Flood, 2014), many at a time."""

    def __init__(self, seed: int) -> None:
        self._state = _mix(np.array([(seed + 1) % (1 << 64)], "u8"))

    def next(self, count: int) -> Array:
        states = self._state + _STEP * np.arange(1, count + 1, dtype="u8")
        self._state = states[-1:] if count else self._state
        return _mix(states)

    def uniform(self, count: int) -> Array:
        """In [0, 1), multiples of 2^-53."""
        return (self.next(count) >> np.uint64(11)).astype("f8") * 2.0**-53

    def normal(self, count: int) -> Array:
        """Standard normal, by Marsaglia's polar method (1964): each pair in a disc gives two."""
        found: list[Array] = []
        have = 0
        while have < count:
            u, v = (2 * self.uniform(2 * (count - have) + 16) - 1).reshape(-1, 2).T
            s = u * u + v * v
            inside = (s < 1) & (s >= 2.0**-1000)
            u, v, s = u[inside], v[inside], s[inside]
            factor = np.sqrt(-2 * _log(s) / s)
            found.append(np.stack([u * factor, v * factor], 1).reshape(-1))
            have += found[-1].size
        return np.concatenate(found)[:count] if found else np.empty(0)

    def below(self, limit: int, count: int) -> Array:
        """In [0, limit), without bias."""
        surplus, found = np.uint64((-limit) % (1 << 64) % limit), np.empty(0, "u8")
        while found.size < count:
            drawn = self.next(count - found.size)
            found = np.concatenate([found, drawn[drawn >= surplus] % np.uint64(limit)])
        return found


def _whole(value: float, where: str, name: str) -> int:
    if value != math.floor(value) or not -(2**63) <= value < 2**63:
        raise ReproCheckError(
            f"{where}: {name} must be a whole number of 64 bits", 'give an integer, or use "uniform"'
        )
    return int(value)


def _integers(spec: Json, dtype: np.dtype[typing.Any], count: int, where: str) -> Array:
    low, high = _whole(spec.get("low", 0), where, "low"), _whole(spec.get("high", 1), where, "high")
    if spec["generate"] == "arange":
        high = low + count
    elif low >= high:
        raise ReproCheckError(f"{where}: low must be below high", "high itself is never drawn")
    if dtype.kind in "iu" and count and (low < np.iinfo(dtype).min or high - 1 > np.iinfo(dtype).max):
        raise ReproCheckError(
            f"{where}: values from {low} do not fit {dtype}", "narrow low and high, or take a wider dtype"
        )
    if spec["generate"] == "arange":
        return np.arange(low, high, dtype="i8")
    drawn = RandomNumbers(spec.get("seed", 0)).below(high - low, count)
    return (drawn + np.uint64(low % (1 << 64))).view("i8")


def _reals(spec: Json, count: int, where: str) -> Array:
    random = RandomNumbers(spec.get("seed", 0))
    if spec["generate"] == "normal":
        return typing.cast(Array, spec.get("mean", 0.0) + spec.get("std", 1.0) * random.normal(count))
    low = spec.get("low", 0.0)
    if spec["generate"] == "arange":
        return typing.cast(Array, low + np.arange(count, dtype="f8"))
    width = spec.get("high", 1.0) - low
    if width <= 0:
        raise ReproCheckError(f"{where}: low must be below high", "high itself is never drawn")
    return typing.cast(Array, low + width * random.uniform(count))


def generate(spec: Json, where: str) -> Array:
    """
    @param spec   an input of a request, with its kind in "generate"
    @param where  in the configuration, for messages
    Raises:
        ReproCheckError
    """
    kind, name = spec["generate"], spec.get("dtype", "float32")
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise ReproCheckError(
            f"{where}: dtype {name} cannot be generated here", "give the tensor as an .npy file"
        ) from None
    shape = tuple(spec.get("shape", ()))
    if kind in ("zeros", "ones"):
        return np.full(shape, kind == "ones", dtype)
    drawn = math.prod(shape) * (2 if dtype.kind == "c" else 1)
    if kind == "randint" or (kind == "arange" and dtype.kind in "iub"):
        values = _integers(spec, dtype, drawn, where)
    else:
        values = _reals(spec, drawn, where)
    if dtype.kind == "c":
        values = values.view("c16")
    elif dtype.itemsize < 4 and values.dtype.kind == "f":
        values = values.astype("f4")
    made = values.astype(dtype).reshape(shape)
    if kind == "uniform" and dtype.kind == "f":  # rounding may reach the upper bound
        made[made.astype("f8") >= spec.get("high", 1.0)] = spec.get("low", 0.0)
    return made
