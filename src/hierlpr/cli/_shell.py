"""What all commands share: loading, messages, progress, and errors without tracebacks."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import shlex
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from hierlpr._utils.checks import nearest
from hierlpr._utils.files import (
    SPOOLED,
    STDOUT,
    copy_to_stream,
    json_text,
    spool,
    stream_number,
    write_json,
)
from hierlpr.cli import _signals
from hierlpr.exceptions import HierlprError, HierlprWarning, Note, ResourceError

if TYPE_CHECKING:
    from hierlpr.io import ReadReport


class BadInput(click.ClickException):
    """Bad input: one message and exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the message to stderr."""
        click.echo(f"{colored('Error:', 'red')} {self.format_message()}", file=file, err=True)


class LazyGroup(click.Group):
    """Commands that are imported on use, and whose errors end in one message.

    Parameters
    ----------
    commands_in : mapping
        Module of `hierlpr.cli` and summary of every command.
    """

    def __init__(self, *args: Any, commands_in: Mapping[str, tuple[str, str]], **options: Any):
        super().__init__(*args, **options)
        self._commands_in = commands_in

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(self._commands_in)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        if name not in self._commands_in:
            if hint := nearest(name, self._commands_in):
                ctx.fail(f"no such command {name!r}; {hint}")
            return None
        # Imported modules stay until the end. Searching them for garbage takes 0.6 s of a command.
        gc.disable()
        module = importlib.import_module(f"hierlpr.cli.{self._commands_in[name][0]}")
        gc.freeze()
        gc.enable()
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._commands_in.items()])

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command; signals that stop it leave no temporary files."""
        with _signals.clean_exit():
            return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; warnings become lines on stderr."""
        with warnings.catch_warnings():
            warnings.simplefilter("default", HierlprWarning)
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except Exception as error:
                command = self.get_command(ctx, ctx.invoked_subcommand or "")
                raise _as_click_error(error, command) from error


def _as_click_error(error: Exception, command: click.Command | None) -> Exception:
    """Return the error that a command ends with, which prints one message."""
    if _signals.received:
        return click.Abort()
    if isinstance(error, HierlprError):
        params = {param.name: param for param in command.params} if command else {}
        pairs = (text.partition("=")[::2] for text in error.options)
        flags = [_flag(params[name], value) for name, value in pairs if name in params]
        text = f"{error}\nOn the command line: {', '.join(flags)}" if flags else str(error)
        kind = click.ClickException if isinstance(error, ResourceError) else BadInput
        return kind(text)
    expected = (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError)
    if isinstance(error, expected) or os.environ.get("HIERLPR_DEBUG"):
        return error
    if isinstance(error, MemoryError):
        return click.ClickException("there is not enough memory for this.")
    if isinstance(error, ImportError):
        return click.ClickException(
            f"a library cannot be loaded ({error}).\n"
            "Hint: is it installed completely, and is there enough memory?"
        )
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return click.ClickException(f"{where}{error.strerror or error}.")
    return click.ClickException(
        f"unexpected {type(error).__name__}: {error}\n"
        "Hint: this is a fault of hierlpr; please report it with the traceback that "
        "HIERLPR_DEBUG=1 shows."
    )


def _flag(option: click.Parameter, value: str) -> str:
    """Return an option with a value, as a user types it."""
    return f"{option.opts[0]} {shlex.quote(value) if value else option.metavar or ''}".rstrip()


def colored(word: str, color: str) -> str:
    """Return a word in color, unless NO_COLOR is set; click removes colors outside terminals."""
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
        click.echo(f"{colored('Warning:', 'yellow')} {message}", err=True)
    elif os.environ.get("HIERLPR_DEBUG"):
        click.echo(f"{filename}:{lineno}: {category.__name__}: {message}", err=True)


class _LogHandler(logging.Handler):
    """Print what the library logs to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        click.echo(record.getMessage(), err=True)


_logger = logging.getLogger("hierlpr")
_logger.addHandler(_LogHandler())


class Shell:
    """One run of a command: its messages, its progress and its duration."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._start = self._shown = time.perf_counter()
        self._width = 0  # of the progress line on the terminal
        self._outputs: list[tuple[str, int]] = []  # files whose content goes to streams at the end
        SPOOLED.clear()
        _logger.setLevel(logging.WARNING if quiet else logging.INFO)

    def _clear(self) -> None:
        if self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0

    def say(self, text: str) -> None:
        """Print a message to stderr, unless quiet."""
        if not self.quiet:
            self._clear()
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Print a warning to stderr."""
        self._clear()
        click.echo(f"{colored('Warning:', 'yellow')} {text}", err=True)

    def read(self, report: ReadReport) -> None:
        """Print what a reader found; data that were left out are warnings."""
        for note in report.lines():
            (self.warn if note.is_warning else self.say)(note)

    def notes(self, notes: Iterable[str]) -> None:
        """Print notes, as warnings unless their severity says otherwise."""
        for note in notes:
            is_remark = isinstance(note, Note) and not note.is_warning
            (self.say if is_remark else self.warn)(note)

    def input_file(self, path: Any) -> Any:
        """Return the path of an input; stdin (-) and pipes are copied to temporary files first."""
        if path is None or (path != "-" and not _is_pipe(path)):
            return path
        name = "/dev/stdin" if path == "-" else path
        if name in SPOOLED:
            raise click.UsageError("only one file can come from stdin (-).")
        if path == "-" and sys.stdin is None:
            raise click.UsageError("stdin (-) is closed.")
        with click.open_file(path, "rb") as stream:
            spool(name, stream, _temporary_folder())
        return name

    def output_file(self, path: Any, ending: str = "") -> Any:
        """Return the path of a file to write; that of a stream (-) is copied to it at the end."""
        number = STDOUT if path == "-" else None if path is None else stream_number(path)
        if number is None:
            return path
        file = os.path.join(_temporary_folder(), f"output{ending}")
        self._outputs.append((file, number))
        return file

    def result(self, text: str) -> None:
        """Print text to stdout, or to stderr if an output goes to stdout."""
        self._clear()
        if any(number == STDOUT for _, number in self._outputs):
            self.say(text)
        else:
            click.echo(text)

    def results(self, json_out: str | None, data: Any, text: str = "") -> None:
        """Write a result as JSON to a file or to stdout (-); otherwise print it as text."""
        if json_out == "-":
            click.echo(json_text(data), nl=False)
            return
        if json_out is not None:
            write_json(json_out, data)
        if text:
            self.result(text)

    def close(self, text: str) -> None:
        """Write the outputs that go to streams, and print the closing line with the duration."""
        for file, number in self._outputs:
            copy_to_stream(file, number)
        verb, space, rest = text.partition(" ")
        took = f"({time.perf_counter() - self._start:.2f} s)"
        self.say(f"{colored(verb, 'green')}{space}{rest} {took}")

    @contextmanager
    def progress(self, unit: str = "") -> Iterator[Callable[[str, int, int], None]]:
        """Yield an ``on_progress(stage, done, total)`` that draws one line of a terminal."""
        is_drawn = not self.quiet and sys.stderr is not None and sys.stderr.isatty()
        last = ""

        def draw(stage: str, done: int, total: int) -> None:
            nonlocal last
            _signals.raise_if_stopped()
            now = time.perf_counter()
            if not is_drawn or (stage == last and now - self._shown < 0.5):
                return
            share = f"{100 * done // max(total, 1):3d} %, {done:,} of {total:,} {unit}".rstrip()
            text = f"{stage} {share}" if stage == last else f"{stage} ..."
            click.echo(f"\r{text:<{self._width}}", err=True, nl=False)
            last, self._shown, self._width = stage, now, max(self._width, len(text))

        try:
            yield draw
        finally:
            self._clear()


def _is_pipe(path: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _temporary_folder() -> str:
    """Return a new private folder, which is removed when the command ends."""
    folder = tempfile.TemporaryDirectory(prefix="hierlpr-")
    return click.get_current_context().with_resource(folder)
