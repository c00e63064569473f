"""The decorator of all kernels: Numba compiles on first use and keeps the result on disk."""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
Scalar = TypeVar("Scalar", bound=np.generic)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function`: no GIL, cached on disk, no fast-math so that ranks match everywhere."""
    compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    if hasattr(compiled, "stats"):  # not with NUMBA_DISABLE_JIT=1
        _announce_compilation(compiled.stats.cache_path)
    return compiled


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a read-only view.

    Numba compiles once more for each mixture of read-only and writable arguments. Arrays from
    users are of both kinds, so callers pass views of one kind.
    """
    view = array.view()
    view.flags.writeable = False
    return view


@cache  # one message per process at most
def _announce_compilation(cache_path: str) -> None:
    """Log one line if no kernel has been compiled on this machine yet."""
    if not any(Path(cache_path).glob("*.nbi")):
        logging.getLogger("hierlpr").info("compiling kernels, once: later runs start right away")
