"""What every room may use: checks, files, and what is loaded on first use.

Names of a package, and libraries that not everybody installs, are loaded late.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hierlpr.exceptions import HierlprError

AnyPath = str | os.PathLike[str]
Kind = TypeVar("Kind", bound=type)


def constructor_only(kind: Kind) -> Kind:
    """Leave of a dataclass its constructor, which names every parameter once.

    Whoever copies, hashes or saves dataclasses (Dask, Streamlit) looks at their fields alone, and
    would miss what an estimator has learned.
    """
    for mark in ("__dataclass_fields__", "__dataclass_params__"):
        delattr(kind, mark)
    return kind


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package; `homes` has the module of every name.

    A name that ends the path of its home is a module.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(f"{package}.{homes[name]}")
        value = home if homes[name].split(".")[-1] == name else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def require(*libraries: str, extra: str, what: str) -> None:
    """Refuse, with the line to install them, where one of the libraries is not there.

    Parameters
    ----------
    *libraries : str
        Names to import.
    extra : str
        The extra of this package that brings them.
    what : str
        What needs them, to begin the message with.
    """
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        raise HierlprError(
            f"{what} needs {' and '.join(missing)}, which is not installed.\n"
            f'Hint: pip install "hierlpr[{extra}]", or "hierlpr[all]" for everything.'
        )
