"""What hierlpr raises: every message says what is wrong, where, and what to do."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Sequence
from typing import Self


class HierlprError(ValueError):
    """Bad input. The base of every error that hierlpr raises on purpose.

    Hints name options of Python; `options` lists them as ``"name"`` or ``"name=value"``, so that
    the command line can add its own.
    """

    def __init__(self, *args: object, options: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.options = tuple(options)


class HierarchyError(HierlprError):
    """The label hierarchy is not a directed acyclic graph of named labels."""


class DataError(HierlprError):
    """Scores, truth or LPRs do not fit the hierarchy or hold values they cannot have."""


class FileError(HierlprError):
    """A file cannot be read as what it claims to be."""


class ResourceError(HierlprError):
    """Memory, disk space or the workers of a scheduler do not suffice; the input may be good."""


class HierlprWarning(UserWarning):
    """The result is valid, but something about it needs attention."""


class UnreachableWarning(HierlprWarning):
    """No cutoff reaches the target; `cutoff_.reason` says so too."""


class Note(str):
    """A sentence about data or results; a warning if something was lost or needs attention."""

    is_warning: bool

    def __new__(cls, text: str, *, is_warning: bool = False) -> Self:
        """Return the sentence with its severity."""
        note = super().__new__(cls, text)
        note.is_warning = is_warning
        return note


def warn(text: str, category: type[HierlprWarning] = HierlprWarning) -> None:
    """Warn about the line outside of this package that led here, however deep this call is."""
    # From Python 3.12 on, warnings.warn can skip the files of a package by itself.
    package = os.path.join(os.path.dirname(__file__), "")
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
