"""Where bytes come from: local files, folders of Parquet files, object stores by fsspec; gzip.

A path may say how the table there is written (`TablePath`), or lie inside a file (``file::table``).
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice
from hierlpr.exceptions import DataError, FileError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEP_WORDS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}
LONGEST_LINE = 1 << 24  # a header of 500,000 labels still fits; a file without newlines does not


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


def ending(path: AnyPath) -> str:
    """Lower-case ending of a file name, looking through ``.gz``: ``"scores.CSV.gz"`` -> ``".csv"``.

    >>> ending("scores.CSV.gz")
    '.csv'
    """
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def is_remote(path: str) -> bool:
    """Whether a path is the address of an object store, such as ``s3://bucket/scores.parquet``."""
    return "://" in path


def database_of(path: AnyPath) -> tuple[str, str] | None:
    """Part ``file::table`` of a database; None if a path is no such.

    >>> database_of("study.duckdb::scores")
    ('study.duckdb', 'scores')
    """
    file, colons, table = os.fspath(path).partition("::")
    is_database = file.lower().endswith((".db", ".duckdb", ".ddb", ".sqlite", ".sqlite3"))
    return (file, table) if colons and table and is_database else None


def workbook_of(path: AnyPath) -> tuple[str, str] | None:
    """Part ``file.xlsx::sheet``, or ``file.xlsx`` with no sheet named; None if a path is no such.

    >>> workbook_of("study.xlsx::scores"), workbook_of("study.xlsx"), workbook_of("study.csv")
    (('study.xlsx', 'scores'), ('study.xlsx', ''), None)
    """
    file, _, sheet = os.fspath(path).partition("::")
    return (file, sheet) if file.lower().endswith((".xlsx", ".xlsm")) else None


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return the object store of an address, and the place in it."""
    try:
        import fsspec
    except ImportError:
        raise FileError(
            f"{path}: reading from an object store needs fsspec.\n"
            "Hint: pip install fsspec and the package for the store, such as s3fs or gcsfs."
        ) from None
    try:
        filesystem, inside = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise FileError(f"{path}: the store cannot be reached ({error}).") from None
    return filesystem, inside


def open_bytes(path: str) -> Any:
    """Open a file for reading bytes, wherever it is."""
    try:
        found = database_of(path) or workbook_of(path)
        file = path if found is None else found[0]
        if is_remote(file):
            filesystem, inside = filesystem_of(file)
            return filesystem.open(inside, "rb")
        return open(file, "rb")
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder, not a file.") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from None


def file_size(path: str) -> tuple[int, bool]:
    """Size of a file in bytes, and whether it is packed."""
    with open_bytes(path) as stream:
        is_packed = stream.read(2) in (GZIP_MAGIC, b"PK")
        return int(stream.seek(0, os.SEEK_END)), is_packed


@contextmanager
def open_plain(path: str) -> Iterator[Any]:
    """Open a file for reading bytes; gzip is recognised by its first bytes and unpacked."""
    with open_bytes(path) as stream:
        is_packed = stream.read(2) == GZIP_MAGIC
        stream.seek(0)
        if not is_packed:
            if path.lower().endswith(".gz"):
                raise FileError(
                    f"{path}: ends in .gz but is not gzip data.\nHint: rename it without .gz."
                )
            yield stream
            return
        try:
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield unpacked
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FileError(
                f"{path}: the gzip data is damaged or cut off ({reason(error)}).\n"
                "Hint: copy or download the file again."
            ) from None


def read_bytes(path: AnyPath) -> bytes:
    """Whole content of a file, unpacked."""
    name = os.fspath(path)
    with open_plain(name) as stream:
        try:
            raw = bytes(stream.read())
        except OSError as error:
            if isinstance(error, gzip.BadGzipFile | FileError):
                raise
            raise FileError(f"{name}: cannot be read ({error.strerror or error}).") from None
    if not raw.strip():
        raise FileError(f"{name}: the file is empty.")
    return raw


def read_lines(path: AnyPath, raw: bytes) -> list[str]:
    """Lines of UTF-8 text without their ends; line ``i + 1`` of the file is item ``i``."""
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    refuse_binary(path, raw, 1)
    refuse_long_lines(path, raw, 1)
    text = decode(path, raw, 1)
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def numbered_lines(path: AnyPath, stream: Any) -> Iterator[tuple[int, str]]:
    """Read lines of UTF-8 text with their numbers, without their ends, never all of them."""
    for number, raw in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), b""), start=1):
        line = bytes(raw).removeprefix(BYTE_ORDER_MARK) if number == 1 else bytes(raw)
        if len(line) > LONGEST_LINE:
            raise too_long(path, number)
        refuse_binary(path, line, number)
        yield number, decode(path, line, number).removesuffix("\n").removesuffix("\r")


def decode(path: AnyPath, raw: bytes, first_line: int) -> str:
    """Return bytes as text; `first_line` is the number of their first line."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        raise FileError(
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8 text.\n"
            "Hint: save the file as UTF-8, for example with iconv -f latin1 -t utf-8."
        ) from None


def refuse_binary(path: AnyPath, raw: bytes, first_line: int) -> None:
    """Refuse what holds the byte 0, which no text does."""
    zero = raw.find(b"\x00")
    if zero >= 0:
        line = first_line + raw.count(b"\n", 0, zero)
        if raw.startswith(b"SQLite format 3\x00") or raw[8:12] == b"DUCK":
            raise FileError(
                f"{path}: this is a database.\nHint: name the table in it, {path}::TABLE."
            )
        raise FileError(
            f"{path}, line {line}: this is binary data, not text.\n"
            "Hint: the ending decides how a file is read; Parquet files end in .parquet, Excel "
            "workbooks in .xlsx (save others, such as .xls and .ods, as .xlsx or .csv)."
        )


def refuse_long_lines(path: AnyPath, raw: bytes, line: int) -> None:
    """Refuse lines too long to be lines; `line` is the number of the first."""
    start = 0
    while len(raw) - start > LONGEST_LINE:
        end = raw.rfind(b"\n", start, start + LONGEST_LINE)
        if end < 0:
            raise too_long(path, line)
        line += raw.count(b"\n", start, end + 1)
        start = end + 1


def too_long(path: AnyPath, line: int) -> FileError:
    """Make the error for a line that is too long to be one."""
    return FileError(
        f"{path}, line {line}: the line is longer than {LONGEST_LINE >> 20} MB.\n"
        "Hint: rows end with a newline; is this a text table?"
    )


# -- Parquet ----------------------------------------------------------------------------------


def is_parquet(path: str) -> bool:
    """Whether a path is a Parquet file, by its name or first bytes, or a folder of them."""
    if database_of(path) is not None or workbook_of(path) is not None:
        return False
    if ending(path) == ".parquet" or (not is_remote(path) and os.path.isdir(path)):
        return True
    with open_bytes(path) as stream:
        return bool(stream.read(4) == b"PAR1")


def parquet_files(path: str) -> list[str]:
    """Return the Parquet files of a dataset in name order, or the file itself."""
    if is_remote(path):
        filesystem, inside = filesystem_of(path)
        scheme = path.split("://", 1)[0]
        if filesystem.isdir(inside):
            found = [f"{scheme}://{name}" for name in filesystem.find(inside)]
        else:
            return [path]
    elif os.path.isdir(path):
        found = [os.path.join(path, name) for name in os.listdir(path)]
    else:
        return [path]
    kept = sorted(name for name in found if name.lower().endswith(".parquet"))
    if not kept:
        raise FileError(f"{path}: the folder holds no .parquet file.")
    return kept


def open_parquet(
    path: str, *, buffer_size: int = 0, dictionaries: Sequence[str] = (), metadata: Any = None
) -> Any:
    """Open a Parquet file for reading row groups; refuse what is none.

    Text columns in `dictionaries` are read as codes and a dictionary. `metadata` of a file that was
    open before need not be read again, which of ten thousands of columns takes long.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = open_bytes(path) if is_remote(path) else path
    try:
        return pq.ParquetFile(
            source, metadata=metadata, buffer_size=buffer_size,
            read_dictionary=list(dictionaries) or None,
        )  # fmt: skip
    except KeyError:  # a list or a structure has no codes; its type is refused when it is read
        return open_parquet(path, buffer_size=buffer_size, metadata=metadata)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        raise FileError(
            f"{path}: this is no readable Parquet file ({reason(error)}).\n"
            "Hint: was it cut off while being copied or written?"
        ) from None


def reason(error: BaseException) -> str:
    """First line of an error, short enough to show."""
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
