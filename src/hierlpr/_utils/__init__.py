"""What every package may use: lazy loading of names and of optional libraries."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from hierlpr.exceptions import HierlprError

AnyPath = str | os.PathLike[str]


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports names on first use.

    `homes` maps every name to its module; a name that is the last part of its module's path is the
    module itself.
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
    """Raise an error that says what to install if one of the libraries is missing.

    `extra` is the extra of hierlpr that installs them, and `what` the feature that needs them.
    """
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        raise HierlprError(
            f"{what} needs {' and '.join(missing)} (not installed).\n"
            f'Hint: pip install "hierlpr[{extra}]", or "hierlpr[all]" for everything.'
        )
