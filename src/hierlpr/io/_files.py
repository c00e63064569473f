"""Bytes and text in: gzip, encodings, lines."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

from hierlpr.exceptions import FileError

__all__ = ["ending", "read_bytes", "read_lines"]

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 1 << 24  # a header of 500,000 labels still fits; a file without newlines does not


def ending(path: str | os.PathLike[str]) -> str:
    """Lower-case ending of a file name, looking through ``.gz``: ``"scores.CSV.gz"`` -> ``".csv"``.

    >>> ending("scores.CSV.gz")
    '.csv'
    """
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Whole content of a file; gzip is recognised by its first bytes and unpacked."""
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder, not a file.") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if raw.startswith(GZIP_MAGIC):
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError, zlib.error) as error:
            raise FileError(
                f"{path}: the gzip data is damaged or cut off ({error}).\n"
                "Hint: copy or download the file again."
            ) from None
    elif str(path).lower().endswith(".gz"):
        raise FileError(f"{path}: ends in .gz but is not gzip data.\nHint: rename it without .gz.")
    if not raw.strip():
        raise FileError(f"{path}: the file is empty.")
    return raw


def read_lines(path: str | os.PathLike[str], raw: bytes | None = None) -> list[str]:
    """Lines of a UTF-8 text file without their ends; line ``i + 1`` of the file is item ``i``."""
    if raw is None:
        raw = read_bytes(path)
    check_text(path, raw)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError(
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not UTF-8 text.\n"
            "Hint: save the file as UTF-8, for example with iconv -f latin1 -t utf-8."
        ) from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    return lines


def check_text(path: str | os.PathLike[str], raw: bytes) -> None:
    """Refuse binary content and lines too long to be lines."""
    zero = raw.find(b"\x00")
    if zero >= 0:
        line = raw.count(b"\n", 0, zero) + 1
        raise FileError(
            f"{path}, line {line}: this is binary data, not text.\n"
            "Hint: the ending decides how a file is read; Parquet files end in .parquet."
        )
    start, line = 0, 1
    while len(raw) - start > LONGEST_LINE:
        end = raw.rfind(b"\n", start, start + LONGEST_LINE)
        if end < 0:
            raise FileError(
                f"{path}, line {line}: the line is longer than {LONGEST_LINE >> 20} MB.\n"
                "Hint: rows end with a newline; is this a text table?"
            )
        line += raw.count(b"\n", start, end + 1)
        start = end + 1
