"""Kernels that Numba compiles on first use, and what users who wait for that are told.

`compile_lazily` is the one place where compile options are chosen.
"""

import logging
import threading
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numba
from numba.core import event
from numba.extending import typeof_impl

from hierlpr._kernels._arrays import ArrayType, Signature
from hierlpr._kernels._jit import Kernel

PATIENCE = 2.0  # seconds of compiling, all kernels together, before anything is said


def compile_lazily(function: Callable[..., Any]) -> Any:
    """Return Numba's dispatcher: no GIL, kept on disk, no fast-math."""
    announce_compiling()
    options: dict[str, Any] = {"nogil": True, "cache": True, "fastmath": False}
    options["error_model"] = "numpy"
    options["no_cfunc_wrapper"] = True  # nobody calls from C: a tenth of the time to compile
    return numba.njit(**options)(function)


def on_first_use(function: Callable[..., Any]) -> Kernel:
    """Return a kernel that is compiled, or loaded from disk, when it is first called.

    Once for each signature, not for each kind of arguments (read-only, literal) that Numba tells
    apart: so all that will ever be compiled is known beforehand.
    """
    dispatcher = compile_lazily(function)

    def find(_: str, signature: Signature) -> Callable[..., Any]:
        @cache
        def compiled() -> Callable[..., Any]:
            entry: Callable[..., Any] = dispatcher.compile(numba_types(signature))
            return entry

        return lambda *args: compiled()(*args)

    made = Kernel(function, find)
    made.dispatcher = dispatcher
    return made


@typeof_impl.register(Kernel)
def _type_of_called(called: Kernel, context: Any) -> Any:
    """Let kernels call kernels."""
    return numba.types.Dispatcher(called.dispatcher)


def numba_types(signature: Signature) -> tuple[Any, ...]:
    """Return what Numba calls the types of a signature."""
    return tuple(_numba_type(parameter) for parameter in signature.parameters)


def _numba_type(parameter: Any) -> Any:
    if isinstance(parameter, ArrayType):
        return numba.types.Array(numba.from_dtype(parameter.dtype), parameter.ndim, "C")
    if isinstance(parameter, Signature):
        tuples: Any = numba.types.BaseTuple
        return tuples.from_types(numba_types(parameter), parameter.kind)
    kinds = {bool: numba.boolean, int: numba.int64, float: numba.float64}
    return kinds[parameter]


class Announcer(event.Listener):
    """Adds up the time Numba compiles, and logs one line when that is long."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.depth = 0  # kernels compile the functions they call
        self.began = 0.0
        self.timer = threading.Timer(0.0, self.say)
        self.said = False

    def on_start(self, event: Any) -> None:
        """Set the clock."""
        self.depth += 1
        if self.depth == 1 and not self.said:
            self.began = perf_counter()
            self.timer = threading.Timer(max(0.0, PATIENCE - self.spent), self.say)
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        self.depth -= 1
        if self.depth == 0 and not self.said:
            self.timer.cancel()
            self.spent += perf_counter() - self.began

    def say(self) -> None:
        """Log the line."""
        self.said = True
        logging.getLogger("hierlpr").info("compiling, once: the next runs start right away")


@cache
def announce_compiling() -> None:
    """Have one line logged (logger ``hierlpr``, level INFO) when compiling takes long."""
    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
