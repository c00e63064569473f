"""What all kernels share: the decorator that compiles them, names of array types, and threads."""

import logging
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numba
import numpy as np
from numba.core import event
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
Scalar = TypeVar("Scalar", bound=np.generic)

WORTH_SHARING = 1 << 13  # numbers to work on, below which a thread costs more than it saves

NO_CACHE = (
    "no folder can hold compiled kernels, so each run compiles them again, which takes a while; "
    "set NUMBA_CACHE_DIR to a folder that can be written"
)

# Array types in the signatures of kernels, C-contiguous unless a docstring says otherwise. Numba
# infers the types by itself.
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Float32s: TypeAlias = NDArray[np.float32]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Integers: TypeAlias = NDArray[np.integer[Any]]  # int32 or int64
UInt64s: TypeAlias = NDArray[np.uint64]

# Two dimensions; the same to a type checker.
Bools2D: TypeAlias = NDArray[np.bool_]
Floats2D: TypeAlias = NDArray[np.float64]
Float32s2D: TypeAlias = NDArray[np.float32]
Int64s2D: TypeAlias = NDArray[np.int64]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function`: no GIL, cached on disk, no fast-math so that ranks match everywhere.

    Where no folder for the cache can be written (NUMBA_CACHE_DIR, ``__pycache__`` beside the code,
    the home), it is compiled anew in every process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # how Numba says that it knows no folder for its cache
        compiled = numba.njit(**options)(function)
        _log_once(logging.WARNING, NO_CACHE)
        return compiled
    return compiled


class _Announcement(event.Listener):
    """Log when the first kernel of this process is compiled instead of loaded from the cache."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("hierlpr."):
            _log_once(logging.WARNING, "compiling inner loops, once: about 10 s")

    def on_end(self, event: Any) -> None:
        """Nothing is said then."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]


@cache  # one message per process at most
def _log_once(severity: int, message: str) -> None:
    logging.getLogger("hierlpr").log(severity, message)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a read-only view.

    Numba compiles once more for each mixture of read-only and writable arguments. Arrays from
    users are of both kinds, so callers pass views of one kind.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def n_jobs_or_default(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`, of which -1 means all cores, as in joblib.

    None means HIERLPR_NUM_THREADS or, if it is not set, all cores that this process may use.
    """
    from_environment = os.environ.get("HIERLPR_NUM_THREADS", "")
    if n_jobs is None and from_environment.isdigit():
        n_jobs = int(from_environment)
    elif n_jobs is None or n_jobs < 0:
        has_affinity = hasattr(os, "sched_getaffinity")
        n_cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        n_jobs = n_cores if n_jobs is None else n_cores + 1 + n_jobs
    return max(1, int(n_jobs))


def threads_for(size: int, n_jobs: int | None) -> int:
    """Return the number of threads for `size` numbers: one if they are few."""
    return 1 if size < WORTH_SHARING else n_jobs_or_default(n_jobs)


def even_bounds(work: NDArray[np.int64], n_chunks: int) -> list[int]:
    """Split rows into up to `n_chunks` runs of about equal work; `work` is its cumulative sum."""
    n_rows = work.size - 1
    if n_chunks == 1 or work[-1] - work[0] < WORTH_SHARING:
        return [0, n_rows]
    targets = np.linspace(work[0], work[-1], n_chunks + 1)[1:-1]
    inner = np.searchsorted(work, targets).tolist()
    return [0, *(min(int(b), n_rows) for b in inner), n_rows]


def even_chunks(n: int, n_chunks: int) -> list[int]:
    """Bounds of `n_chunks` runs of about equal length."""
    return [n * chunk // n_chunks for chunk in range(n_chunks + 1)]


def row_chunks(shape: tuple[int, ...], n_jobs: int) -> list[int]:
    """Bounds of runs of rows for threads; one run where there is too little to share."""
    n_chunks = 1 if math.prod(shape) < WORTH_SHARING else min(n_jobs, shape[0])
    return even_chunks(shape[0], n_chunks)


def run_chunks(task: Callable[[int, int], R], bounds: list[int], n_jobs: int) -> list[R]:
    """Call ``task(start, stop)`` on every run between bounds; results in the order of the runs."""
    runs = list(pairwise(bounds))
    if n_jobs == 1 or len(runs) <= 1:
        return [task(start, stop) for start, stop in runs]
    # A pool per call: it costs well under a millisecond and is safe under fork and nesting.
    with ThreadPoolExecutor(max_workers=min(n_jobs, len(runs))) as pool:
        return list(pool.map(lambda run: task(*run), runs))
