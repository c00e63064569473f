"""Compile all kernels ahead of time: ``python -m hierlpr._kernels._build``.

To one extension module where there is the C compiler that built Python (for linking): its machine
code is for any processor of this kind of machine, so it may be put in a wheel. Elsewhere by Numba
alone, which keeps what it compiled for this very processor on disk. Prints the files.
"""

import importlib
import os
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any


def build(folder: Path) -> list[Path]:
    """Compile the present source; return the extension module, in `folder`, or Numba's files."""
    os.environ["HIERLPR_KERNELS"] = "numba"  # kernels call each other as Numba's functions
    from hierlpr._kernels._jit import extension_name

    name = extension_name()  # of the source as it is imported below
    declare_all()
    try:
        built = [_link(name, folder)]
    except Exception as error:  # no compiler, no linker, no headers: whatever they raise
        sys.stderr.write(f"{error}\n")
        return keep_by_numba()
    if extension_name() != name:  # it would be taken for the code of another source
        built[0].unlink()
        raise RuntimeError("The kernels' source changed while it was compiled: build again.")
    return built


def declare_all() -> None:
    """Import every kernel."""
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"hierlpr._kernels.{path.stem}")


def _link(name: str, folder: Path) -> Path:
    """Write the extension module to `folder`, unless it is there."""
    from hierlpr._kernels._arrays import signatures
    from hierlpr._kernels._compiling import numba_types
    from hierlpr._kernels._jit import KERNELS

    for stale in folder.glob("compiled_*"):
        if not stale.name.startswith(name):
            stale.unlink()
    compiler = _compiler(name, folder)
    target = folder / compiler.output_file
    if not target.exists():
        for kernel in KERNELS.values():
            for way, signature in signatures(kernel.function).items():
                compiler.export(way, numba_types(signature))(kernel.function)
        compiler.compile()
    return target


def keep_by_numba() -> list[Path]:
    """Let Numba compile every kernel, and return the files where it keeps them."""
    from hierlpr._kernels._arrays import signatures
    from hierlpr._kernels._compiling import numba_types
    from hierlpr._kernels._jit import KERNELS

    folders = set()
    for kernel in KERNELS.values():
        for signature in signatures(kernel.function).values():
            kernel.dispatcher.compile(numba_types(signature))
        folders.add(Path(kernel.dispatcher.stats.cache_path))
    return sorted(path for folder in folders for path in folder.glob("*.nb[ci]"))


def _compiler(name: str, folder: Path) -> Any:
    """Return what exports functions; raise at once where nothing could be linked."""
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        raise RuntimeError("The headers of Python are not installed.")
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


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in build(Path(__file__).parent))
