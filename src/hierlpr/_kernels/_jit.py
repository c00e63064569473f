"""The one place where compile options are chosen."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function`: no GIL, cached on disk, no fast-math so that ranks match everywhere."""
    compiled = numba.njit(nogil=True, cache=True, fastmath=False, error_model="numpy")(function)
    return cast("Callable[P, R]", compiled)
