"""Where kernels come from: compiled with the package where that was possible, else on first use.

A package that was built where Numba and a linker were at hand holds one extension module of all
kernels, compiled from these very files (its name has their digest); then neither Numba is imported
nor anything compiled. Otherwise Numba compiles each kernel when it is first called, or loads what
it compiled before from disk. Either way a kernel is compiled for what its annotations say.
"""

import hashlib
import importlib
import os
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

from hierlpr._kernels._arrays import Signature, signatures

P = ParamSpec("P")
R = TypeVar("R")

NOT_COMPILED = ("_compiling.py", "_jit.py", "_threads.py")
KERNELS: dict[str, "Kernel"] = {}  # all that were declared


class Kernel:
    """A compiled function behind a check of its arguments: it would take any memory."""

    def __init__(self, function: Callable[..., Any], find: Callable[..., Callable[..., Any]]):
        update_wrapper(self, function)
        self.function = function
        self.find = find  # the compiled function, by its name and signature
        self.dispatcher: Any = None  # Numba's, for kernels that call this one

    @cached_property  # annotations are read when the kernel is first called; threads may race to it
    def ways(self) -> tuple[tuple[Signature, Callable[..., Any]], ...]:
        """What the kernel may be called with, and the function for that."""
        named = signatures(self.function).items()
        return tuple((signature, self.find(name, signature)) for name, signature in named)

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function that fits the arguments."""
        for signature, run in self.ways:
            if signature.fits(args):
                return run(*args)
        raise TypeError(f"{self.function.__name__}: {self.ways[0][0].why_not(args)}")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function`: no GIL, cached on disk, no fast-math so that ranks match everywhere."""
    module = _extension()
    if module is None:
        from hierlpr._kernels._compiling import on_first_use

        made = on_first_use(function)
    else:
        made = Kernel(function, lambda name, _: getattr(module, name))
    KERNELS[function.__name__] = made
    return cast("Callable[P, R]", made)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call."""
    if _extension() is not None:
        return function
    from hierlpr._kernels._compiling import compile_lazily

    return cast("Callable[P, R]", compile_lazily(function))


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
    except Exception:  # built for another NumPy, it may raise anything; Numba does as well
        return None
