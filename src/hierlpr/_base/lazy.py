"""Names of a package that are loaded on first use, so that importing it costs nothing."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["loader"]


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
