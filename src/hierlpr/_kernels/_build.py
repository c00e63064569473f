"""Compile all kernels ahead of time to one extension module: ``python -m hierlpr._kernels._build``.

The machine code is for any processor of this kind of machine, so it may be put in a wheel. Needs
Numba, and the C compiler that built Python (for linking).
"""

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any


def build(folder: Path) -> Path:
    """Write the extension module for the present source to `folder` and return its path."""
    os.environ["HIERLPR_KERNELS"] = "numba"  # kernels call each other as Numba's functions
    from hierlpr._kernels._arrays import signatures
    from hierlpr._kernels._jit import KERNELS, extension_name

    fitting = extension_name()  # of the source as it is imported below
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"hierlpr._kernels.{path.stem}")
    compiler = _compiler(fitting, folder)
    target = folder / compiler.output_file
    for stale in folder.glob("compiled_*"):
        if stale != target:
            stale.unlink()
    if target.exists():
        return target
    for function in KERNELS.values():
        for name, signature in signatures(function).items():
            compiler.export(name, tuple(_numba_type(t) for t in signature.parameters))(function)
    compiler.compile()
    if extension_name() != fitting:  # it would be taken for the code of another source
        target.unlink()
        raise RuntimeError("The kernels' source changed while it was compiled: build again.")
    return target


def _compiler(name: str, folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # announces a successor that is not there yet
        pycc: Any = importlib.import_module("numba.pycc.compiler")
        cc: Any = importlib.import_module("numba.pycc.cc")
    plain = pycc.Flags

    def flags() -> Any:
        """Return the options of `kernel`, which this way of compiling cannot be told otherwise."""
        chosen = plain()
        chosen.release_gil = True
        chosen.error_model = "numpy"
        return chosen

    pycc.Flags = flags
    compiler = cc.CC(name, source_module="hierlpr._kernels")
    compiler.output_dir = str(folder)
    return compiler


def _numba_type(parameter: Any) -> Any:
    from hierlpr._kernels._arrays import ArrayType, Signature

    numba: Any = importlib.import_module("numba")
    if isinstance(parameter, ArrayType):
        return numba.types.Array(numba.from_dtype(parameter.dtype), parameter.ndim, "C")
    if isinstance(parameter, Signature):
        fields = [_numba_type(field) for field in parameter.parameters]
        return numba.types.NamedTuple(fields, parameter.kind)
    kinds = {bool: numba.boolean, int: numba.int64, float: numba.float64}
    return kinds[parameter]


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(__file__).parent)}\n")
