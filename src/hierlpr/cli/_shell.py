"""What all commands share: messages, progress, closing lines, and errors without tracebacks."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from hierlpr._base.own_folders import own_folder, stopping_cleanly
from hierlpr.exceptions import HierlprError, HierlprWarning

if TYPE_CHECKING:
    from hierlpr.io import ReadReport


class BadInput(click.ClickException):
    """Bad input: one message and exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the message to stderr."""
        click.echo(f"{painted('Error:', 'red')} {self.format_message()}", file=file, err=True)


class Group(click.Group):
    """Commands whose errors end in one message: 2 for bad input, 1 for anything else."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; warnings become lines on stderr."""
        _keep_blas_to_one_thread()
        with stopping_cleanly() as stop, warnings.catch_warnings():
            warnings.simplefilter("default", HierlprWarning)
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except Exception as error:
                if stop.asked:  # a library made another error of the interruption
                    raise click.Abort from error
                raise _told(error) from error


def _keep_blas_to_one_thread() -> None:
    """Let threads of OpenBLAS not wait in a loop for products that no command makes.

    Samples are shared among threads of our own. What users or their programs have set stays, and
    so does a process that has loaded NumPy, where this would come too late.
    """
    asked = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    if "numpy" not in sys.modules and not any(name in os.environ for name in asked):
        os.environ["OPENBLAS_NUM_THREADS"] = "1"


def _told(error: Exception) -> Exception:
    """Return the error with which a command ends, which is told in one message."""
    if isinstance(error, HierlprError):
        return BadInput(_shown(str(error)))
    if isinstance(
        error, (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError)
    ):
        return error
    if isinstance(error, MemoryError):
        return click.ClickException("there is not enough memory for this.")
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return click.ClickException(f"{where}{error.strerror or error}.")
    if os.environ.get("HIERLPR_DEBUG"):
        return error
    return click.ClickException(
        f"unexpected {type(error).__name__}: {error}\n"
        "Hint: this is a fault of hierlpr; please report it with the traceback that "
        "HIERLPR_DEBUG=1 shows."
    )


def painted(word: str, color: str) -> str:
    """Colour a word, unless NO_COLOR is set; what is no terminal gets it plain from click."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return word
    return click.style(word, fg=color, bold=True)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, HierlprWarning):
        click.echo(f"{painted('Warning:', 'yellow')} {_shown(str(message))}", err=True)
    elif os.environ.get("HIERLPR_DEBUG"):
        click.echo(f"{filename}:{lineno}: {category.__name__}: {message}", err=True)


class _Messages(logging.Handler):
    """What the library logs, said as the commands say things."""

    shell: Shell | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message to stderr, unless quiet."""
        if self.shell is not None:
            self.shell.say(record.getMessage())


_messages = _Messages()
_streams: dict[str, str] = {}  # files that stand for streams, and what to call them


def _shown(text: str) -> str:
    """Call files that stand for streams by the names of these."""
    for file, name in _streams.items():
        text = text.replace(file, name)
    return text


class Shell:
    """One run of a command: what it says, and how long it took."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._start = time.perf_counter()
        self._rates: Rates | None = None
        _streams.clear()
        # One handler, whatever the number of runs in this process: the latest run speaks.
        _messages.shell = self
        logger = logging.getLogger("hierlpr")
        logger.setLevel(logging.INFO)
        logger.addHandler(_messages)

    def _clear(self) -> None:
        if self._rates is not None:
            self._rates.clear()

    def say(self, text: str) -> None:
        """Print a message to stderr, unless quiet."""
        if not self.quiet:
            self._clear()
            click.echo(_shown(text), err=True)

    def warn(self, text: str) -> None:
        """Print something the user must know to stderr."""
        self._clear()
        click.echo(f"{painted('Warning:', 'yellow')} {_shown(text)}", err=True)

    def read(self, report: ReadReport) -> None:
        """Say what a reader saw; losses are never quiet."""
        lines = report.lines()
        self.say(lines[0])
        for line in lines[1:]:
            lost = "passed over" in line or "left out" in line or "reversed" in line
            (self.warn if lost else self.say)(line)

    def notes(self, notes: Iterable[str]) -> None:
        """Warn of every note."""
        for note in notes:
            self.warn(note)

    def stdin(self, path: str) -> str:
        """Return the path, or a file with what stands on stdin if it is -, until the run ends."""
        if path != "-":
            return path
        if "stdin" in _streams.values():
            raise click.UsageError("only one file can come from stdin (-).")
        file = self.scratch("stdin", "")
        with open(file, "wb") as part:
            shutil.copyfileobj(sys.stdin.buffer, part)
        return file

    def scratch(self, name: str, suffix: str) -> str:
        """Make room for a file that is called `name` in messages, until the run ends."""
        made = own_folder(os.path.realpath(tempfile.gettempdir()), name=name)
        folder = os.path.join(click.get_current_context().with_resource(made), "streams")
        os.mkdir(folder, 0o700)  # what comes from stdin is nobody else's
        file = os.path.join(folder, name + suffix)
        _streams[file] = name  # messages call it so
        return file

    def result(self, text: str) -> None:
        """Print data to stdout."""
        self._clear()
        click.echo(text)

    def close(self, text: str) -> None:
        """Print the closing line, with the time taken."""
        verb, space, rest = text.partition(" ")
        took = f"({time.perf_counter() - self._start:.2f} s)"
        self.say(f"{painted(verb, 'green')}{space}{rest} {took}")

    @contextmanager
    def rates(self, unit: str = "") -> Iterator[Callable[[str, int, int], None]]:
        """Give an ``on_progress(stage, done, total)`` that shows rate and time left."""
        if self.quiet:
            yield lambda stage, done, total: None
            return
        self._rates = Rates(unit, is_terminal=sys.stderr.isatty())
        try:
            yield self._rates.update
        finally:
            self._clear()


class Rates:
    """Progress with rate and time left: a line that rewrites itself, or now and then a new one."""

    def __init__(self, unit: str, *, is_terminal: bool) -> None:
        self._unit = f" {unit}" if unit else ""
        self._is_terminal = is_terminal
        self._stage = ""
        self._began = self._shown = time.perf_counter()
        self._done_before = 0
        self._width = 0

    def update(self, stage: str, done: int, total: int) -> None:
        """Show how far a stage has come, at most twice a second (every 10 s in a log)."""
        now = time.perf_counter()
        if stage != self._stage:
            self._stage, self._began, self._done_before = stage, now, done
            if self._is_terminal:
                self._show(f"{stage} ...")
            return
        if done < total and now - self._shown < (0.5 if self._is_terminal else 10.0):
            return
        self._shown = now
        if not self._is_terminal and done >= total and now - self._began < 10.0:
            return
        rate = (done - self._done_before) / max(now - self._began, 1e-9)
        left = (total - done) / rate if rate > 0.0 else 0.0
        text = (
            f"{stage} {100 * done // max(total, 1):3d} %, {done:,} of {total:,}{self._unit}, "
            f"{rate:,.0f} a second, {_clock(left)} left"
        )
        if self._is_terminal:
            self._show(text)
        else:
            click.echo(text, err=True)

    def _show(self, text: str) -> None:
        click.echo(f"\r{text:<{self._width}}", err=True, nl=False)
        self._width = len(text)

    def clear(self) -> None:
        """Leave a terminal's line empty."""
        if self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def put_json(out: str | None, data: Any) -> None:
    """Write JSON to a file, whole or not at all, or to stdout; nowhere if it was not asked for."""
    from hierlpr._base.files import json_text, write_json

    if out == "-":
        click.echo(json_text(data), nl=False)
    elif out is not None:
        write_json(out, data)
