"""Open local files, folders of Parquet files and object stores (fsspec); gzip is unpacked.

Limits that keep damaged or hostile files from using all memory: a line has at most
`MAX_LINE` bytes, and a file that is read whole (a hierarchy) has at most `MAX_TEXT`.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hierlpr._utils import AnyPath
from hierlpr.exceptions import FileError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE = 1 << 24  # a header of 500,000 labels fits
MAX_TEXT = 1 << 29  # the Gene Ontology has 35 MB
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_SEP_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}


def ending(path: AnyPath) -> str:
    """Return the lower-case ending of a file name without ``.gz``.

    >>> ending("scores.CSV.gz")
    '.csv'
    """
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def is_remote(path: str) -> bool:
    """Return whether a path is an address such as ``s3://bucket/scores.parquet``."""
    return "://" in path


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the path in it."""
    try:
        import fsspec

        filesystem, inside = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise FileError(
            f"{path}: the store cannot be reached ({reason(error)}).\n"
            "Hint: pip install fsspec and the package for the store, such as s3fs or gcsfs."
        ) from None
    return filesystem, inside


def open_bytes(path: str) -> Any:
    """Open a local or remote file for reading bytes."""
    try:
        if is_remote(path):
            filesystem, inside = filesystem_of(path)
            return filesystem.open(inside, "rb")
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise FileError(f"{path}: this is a pipe.\nHint: save it to a file first.")
        return open(path, "rb")
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder, not a file.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: cannot be read ({reason(error)}).") from None


@contextmanager
def open_plain(path: str) -> Iterator[Any]:
    """Open a file for reading bytes; gzip is recognised by its first bytes and unpacked."""
    with open_bytes(path) as stream:
        is_packed = stream.read(2) == GZIP_MAGIC
        stream.seek(0)
        if not is_packed:
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


def numbered_lines(path: AnyPath, stream: Any) -> Iterator[tuple[int, str]]:
    """Yield the lines of UTF-8 text with their numbers, without line ends."""
    for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), start=1):
        line = bytes(raw).removeprefix(BYTE_ORDER_MARK) if number == 1 else bytes(raw)
        if len(line) > MAX_LINE:
            raise FileError(
                f"{path}, line {number}: the line is longer than {MAX_LINE >> 20} MB.\n"
                "Hint: rows end with a newline; is this a text file?"
            )
        if b"\x00" in line:
            raise FileError(
                f"{path}, line {number}: this is binary data, not text.\n"
                "Hint: the ending decides how a file is read; Parquet files end in .parquet. "
                "Export tables of databases with COPY ... TO 'x.parquet'."
            )
        try:
            yield number, line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise FileError(
                f"{path}, line {number}: byte 0x{line[error.start]:02x} is not UTF-8 text.\n"
                "Hint: save the file as UTF-8, for example with iconv -f latin1 -t utf-8."
            ) from None


def read_bytes(path: AnyPath) -> bytes:
    """Return the whole content of a file, unpacked; at most `MAX_TEXT` bytes."""
    name = os.fspath(path)
    with open_plain(name) as stream:
        raw = bytes(stream.read(MAX_TEXT + 1))
    if len(raw) > MAX_TEXT:
        raise FileError(f"{name}: the content is larger than {MAX_TEXT >> 20} MB.")
    if not raw.strip():
        raise FileError(f"{name}: the file is empty.")
    return raw


def read_lines(path: AnyPath) -> list[str]:
    """Return all lines of a UTF-8 text file; line ``i + 1`` of the file is item ``i``."""
    name = os.fspath(path)
    lines: list[str] = []
    size = 0
    with open_plain(name) as stream:
        for _, line in numbered_lines(name, stream):
            size += len(line) + 64
            if size > MAX_TEXT:
                raise FileError(f"{name}: the text is larger than {MAX_TEXT >> 20} MB.")
            lines.append(line)
    if not any(line.strip() for line in lines):
        raise FileError(f"{name}: the file is empty.")
    return lines


def check_sep(sep: str | None) -> str | None:
    """Return the separator of columns as one character; ``"tab"`` and similar names are known."""
    sep = _SEP_NAMES.get(sep, sep) if sep is not None else None
    if sep is not None and (len(sep) != 1 or not sep.isascii() or sep in '"\r\n\0'):
        raise FileError(
            f"sep must be one character or 'tab'; got {sep!r}.\nHint: for example --sep ';'."
        )
    return sep


def find_delimiter(path: str, first_line: str, sep: str | None = None) -> str:
    """Return the delimiter by option, by the ending of the file, or by its first line.

    An option `sep` that the first line does not contain is ignored, so that one option can be
    given for several files.
    """
    sep = check_sep(sep)
    if sep is not None and sep in first_line:
        return sep
    by_ending = _DELIMITERS.get(ending(path))
    if by_ending == "\t" and "\t" not in first_line and len(first_line.split(" ")) in (2, 3):
        return " "  # CAFA files are sometimes written with spaces
    return by_ending or next((x for x in ("\t", ",", " ") if x in first_line), ",")


# -- Parquet ----------------------------------------------------------------------------------


def is_parquet(path: str) -> bool:
    """Return whether a path is a Parquet file or a folder of Parquet files."""
    if ending(path) == ".parquet" or (not is_remote(path) and os.path.isdir(path)):
        return True
    with open_bytes(path) as stream:
        return bool(stream.read(4) == b"PAR1")


def parquet_files(path: str) -> list[str]:
    """Return the Parquet files of a folder in order of their names, or the file itself."""
    if is_remote(path):
        filesystem, inside = filesystem_of(path)
        if not filesystem.isdir(inside):
            return [path]
        scheme = path.split("://", 1)[0]
        found = [f"{scheme}://{name}" for name in filesystem.find(inside)]
    elif os.path.isdir(path):
        found = [os.path.join(path, name) for name in os.listdir(path)]
    else:
        return [path]
    files = sorted(name for name in found if name.lower().endswith(".parquet"))
    if not files:
        raise FileError(f"{path}: the folder holds no .parquet file.")
    return files


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a Parquet file."""
    try:
        return pq.ParquetFile(open_bytes(path) if is_remote(path) else path, pre_buffer=False)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        raise FileError(
            f"{path}: this is not a readable Parquet file ({reason(error)}).\n"
            "Hint: was it cut off while it was copied or written?"
        ) from None


def reason(error: BaseException) -> str:
    """Return the first line of an error, short enough to show."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
