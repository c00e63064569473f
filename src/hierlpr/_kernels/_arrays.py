"""The types kernels take, and what a kernel's annotations say about its arguments.

Annotations are the signatures kernels are compiled for. All arrays are C-contiguous. One that may
hold either kind of index has dtype ``np.integer``; then all such arrays of a call have the same.
"""

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Index = NDArray[np.int32]
Ints = NDArray[np.int64]
Places = NDArray[np.integer]
Sides = NDArray[np.int8]
Words = NDArray[np.uint64]

Bools2 = Annotated[NDArray[np.bool_], 2]
Floats2 = Annotated[NDArray[np.float64], 2]
Ints2 = Annotated[NDArray[np.int64], 2]
Sides2 = Annotated[NDArray[np.int8], 2]

# What np.integer stands for.
INDEX_TYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.int32), np.dtype(np.int64))


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A C-contiguous array."""

    dtype: np.dtype[Any]
    ndim: int


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of the arguments: arrays, numbers as Python types, named tuples as their own kind."""

    parameters: tuple[Any, ...]
    kind: type | None = None  # the named tuple these are the fields of

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether compiled code may run on `args`."""
        if len(args) != len(self.parameters):
            return False
        for value, wanted in zip(args, self.parameters, strict=True):
            if type(wanted) is ArrayType:
                if not (
                    isinstance(value, np.ndarray)
                    and value.dtype == wanted.dtype
                    and value.ndim == wanted.ndim
                    and value.flags.c_contiguous
                    and value.flags.aligned
                ):
                    return False
            elif type(wanted) is Signature:
                kind: Any = type(value)
                if kind is not wanted.kind or not wanted.fits(value):
                    return False
        return True

    def why_not(self, args: Sequence[Any]) -> str:
        """Name the first argument that does not fit."""
        if len(args) != len(self.parameters):
            return f"{len(args)} arguments instead of {len(self.parameters)}"
        for place, (value, wanted) in enumerate(zip(args, self.parameters, strict=True)):
            if not Signature((wanted,)).fits((value,)):
                shown: Any = value
                if isinstance(value, np.ndarray):
                    order = "in" if value.flags.c_contiguous else "not in"
                    aligned = "" if value.flags.aligned else ", not aligned"
                    shown = f"a {value.ndim}-D array of {value.dtype} {order} C order{aligned}"
                return f"argument {place} is {shown!s:.60}, expected {wanted}"
        return "the arguments fit"


def signatures(function: Callable[..., Any]) -> dict[str, Signature]:
    """Every way to compile a kernel, by name: one, or one for each kind of index."""
    hints = typing.get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    both = [
        Signature(tuple(_parse(hint, index) for hint in hints.values())) for index in INDEX_TYPES
    ]
    if both[0] == both[1]:
        return {function.__name__: both[0]}
    return {f"{function.__name__}_{INDEX_TYPES[i].name}": both[i] for i in range(2)}


def _parse(hint: Any, index: np.dtype[Any]) -> Any:
    """Type of one argument; `index` is what np.integer stands for."""
    ndim = 1
    if typing.get_origin(hint) is typing.Annotated:
        hint, ndim = typing.get_args(hint)
    if typing.get_origin(hint) is np.ndarray:
        scalar = typing.get_args(typing.get_args(hint)[1])[0]
        return ArrayType(index if scalar is np.integer else np.dtype(scalar), ndim)
    if hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True).values()
        return Signature(tuple(_parse(field, index) for field in fields), hint)
    if hint not in (bool, int, float):
        raise TypeError(f"{hint!r} is no type of a kernel's argument.")
    return hint
