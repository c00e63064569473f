"""A path of a table with how the table is written: one value that goes wherever a path goes."""

from __future__ import annotations

import os
from typing import Any, Literal

from hierlpr._base.checks import check_choice
from hierlpr.exceptions import DataError

__all__ = ["TablePath", "written"]

_SEP_WORDS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}


class TablePath(str):
    r"""A path, and how the table there is written; taken wherever a path of a table is.

    Parameters
    ----------
    path : path
    sep : str, optional
        The character between columns of text; by default the ending tells, ``.csv`` comma and
        ``.tsv`` tab. Also ``"tab"``. A table whose first row lacks it is read as by default, so
        that one option serves several files.
    decimal : {".", ","}
        The decimal mark of text.
    sample_column : str, optional
        The column that names the samples, wherever it stands; a table without it is read as by
        default.
    columns : {"all", "labels"}
        In a wide table, take every other column as a label, so that an unknown one is a problem;
        or only those that are labels of the hierarchy, and say which are not used.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hierlpr import Hierarchy
    >>> from hierlpr.io import TablePath, read_scores
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = path.write_text("age;patient_id;A;B\n61;p1;0,5;0,25\n")
    >>> table = TablePath(path, sep=";", decimal=",", sample_column="patient_id", columns="labels")
    >>> read_scores(table, Hierarchy([("A", "B")])).table.values
    array([[0.5 , 0.25]])
    """

    sep: str | None
    decimal: Literal[".", ","]
    sample_column: str | None
    columns: Literal["all", "labels"]

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        sep: str | None = None,
        decimal: str = ".",
        sample_column: str | None = None,
        columns: str = "all",
    ) -> TablePath:
        """Check the options, and keep them with the path."""
        made = super().__new__(cls, os.fspath(path))
        sep = _SEP_WORDS.get(sep, sep) if sep is not None else None
        if sep is not None and (len(sep) != 1 or not sep.isascii() or sep in '"\r\n\0'):
            raise DataError(
                f"sep must be one character between columns, or tab; got {sep!r}.\n"
                "Hint: for example --sep ';' (sep=';')."
            )
        made.sep = sep
        made.decimal = check_choice(decimal, (".", ","), name="decimal")  # type: ignore[assignment]
        made.sample_column = sample_column
        made.columns = check_choice(columns, ("all", "labels"), name="columns")  # type: ignore[assignment]
        return made

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not as by default."""
        given = {
            "sep": self.sep,
            "decimal": self.decimal if self.decimal != "." else None,
            "sample_column": self.sample_column,
            "columns": self.columns if self.columns != "all" else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), self.options


def written(path: str | os.PathLike[str]) -> TablePath:
    """Return how the table at a path is written; as by default if nothing says otherwise."""
    return path if isinstance(path, TablePath) else TablePath(path)
