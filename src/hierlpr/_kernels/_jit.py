"""Where kernels come from: compiled with the package where that was possible, else on first use.

`inner` is the one place where compile options are chosen. A package that was built where Numba
and a linker were at hand holds one extension module of all kernels, compiled from these very
files (its name has their digest); then neither Numba is imported nor anything compiled. Otherwise
Numba compiles each kernel when it is first called, and keeps the result on disk.
"""

import hashlib
import importlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

from hierlpr._kernels._arrays import Signature, signatures

P = ParamSpec("P")
R = TypeVar("R")

NOT_COMPILED = ("_compiling.py", "_jit.py", "_threads.py")
KERNELS: dict[str, Callable[..., Any]] = {}  # all that were declared, as Python functions


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function`: no GIL, cached on disk, no fast-math so that ranks match everywhere."""
    KERNELS[function.__name__] = function
    module = _extension()
    return inner(function) if module is None else _checked(function, module)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call."""
    if _extension() is not None:
        return function
    options = {"nogil": True, "cache": True, "fastmath": False, "error_model": "numpy"}
    options["no_cfunc_wrapper"] = True  # nobody calls from C: a tenth of the time to compile
    compiled = _numba().njit(**options)(function)
    return cast("Callable[P, R]", compiled)


@cache
def _numba() -> Any:
    """Import Numba, and let it say when it takes long."""
    import numba

    from hierlpr._kernels._compiling import announce_compiling

    announce_compiling()
    return numba


def extension_name() -> str:
    """Name of the extension module that fits the kernels' present source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in NOT_COMPILED:
            digest.update(path.read_bytes())
    return f"compiled_{digest.hexdigest()[:16]}"


@cache
def _extension() -> ModuleType | None:
    """Return the extension module if there is one and ``HIERLPR_KERNELS=numba`` is not set."""
    if os.environ.get("HIERLPR_KERNELS", "") == "numba":
        return None
    try:
        return importlib.import_module(f"hierlpr._kernels.{extension_name()}")
    except ImportError:
        return None


def _checked(function: Callable[P, R], module: ModuleType) -> Callable[P, R]:
    """Return the compiled function behind a check of its arguments: it would take any memory."""

    @cache  # annotations are read when the kernel is first called; threads may race to it
    def ways() -> tuple[tuple[Signature, Callable[..., Any]], ...]:
        named = signatures(function).items()
        return tuple((signature, getattr(module, name)) for name, signature in named)

    def call(*args: Any) -> Any:
        for signature, run in ways():
            if signature.fits(args):
                return run(*args)
        raise TypeError(f"{function.__name__}: {ways()[0][0].why_not(args)}")

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return cast("Callable[P, R]", call)
