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
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from hierlpr._base.own_folders import stopping_cleanly
from hierlpr.exceptions import HierlprError, HierlprWarning

if TYPE_CHECKING:
    from hierlpr.io import HierarchyFile, ReadReport, TablePath

__all__ = [
    "PARTS",
    "BadInput",
    "Group",
    "Shell",
    "hierarchy_options",
    "json_option",
    "lenient_option",
    "memory_option",
    "names_option",
    "other_names",
    "parts_options",
    "put_json",
    "quiet_option",
    "read_hierarchy_file",
    "sep_option",
    "table_options",
    "taken",
    "work_option",
    "written_tables",
]

F = TypeVar("F", bound=Callable[..., Any])
PARTS = ("memory", "partitions", "work", "resume", "scheduler")
TABLES = ("sep", "decimal", "sample_column", "columns")


class BadInput(click.ClickException):
    """Bad input: one message and exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the message to stderr."""
        click.echo(f"Error: {self.format_message()}", file=file, err=True)


class Group(click.Group):
    """Commands whose errors end in one message: 2 for bad input, 1 for anything else."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; warnings become lines on stderr."""
        with stopping_cleanly() as stop, warnings.catch_warnings():
            warnings.simplefilter("default", HierlprWarning)
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except Exception as error:
                if stop.asked:  # a library made another error of the interruption
                    raise click.Abort from error
                raise _told(error) from error


def _told(error: Exception) -> Exception:
    """Return the error with which a command ends, which is told in one message."""
    if isinstance(error, HierlprError):
        return BadInput(_shown(str(error)))
    if isinstance(error, (click.ClickException, click.exceptions.Exit, click.Abort)):
        return error
    if isinstance(error, BrokenPipeError):
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


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, HierlprWarning):
        click.echo(_shown(f"Warning: {message}"), err=True)
    elif os.environ.get("HIERLPR_DEBUG"):
        click.echo(f"{filename}:{lineno}: {category.__name__}: {message}", err=True)


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Say nothing but problems.")
lenient_option = click.option(
    "--lenient", is_flag=True,
    help="Pass over rows with problems and unknown labels, and count them.",
)  # fmt: skip
names_option = click.option(
    "--hierarchy", type=click.Path(), metavar="H",
    help="The hierarchy file again, if scores use its other names of labels (OBO alt_id and "
    "replaced_by).",
)  # fmt: skip
memory_option = click.option(
    "--memory", default="1GB", show_default=True, metavar="SIZE",
    help="Working memory. What needs more is read and worked on in parts; the result is the same.",
)  # fmt: skip
work_option = click.option(
    "--work", type=click.Path(file_okay=False), metavar="DIR",
    help="Where a folder for work files is made: beside the output if not given, for evaluate "
    "among the system's temporary files. The workers of a scheduler must share it.",
)  # fmt: skip
json_option = click.option(
    "--json", "json_out", type=click.Path(dir_okay=False, allow_dash=True), metavar="OUT",
    help="Write the result as JSON to this file, or to stdout if it is -.",
)  # fmt: skip


def parts_options(command: F) -> F:
    """Add the options that say how to work in parts."""
    for option in reversed(
        [
            memory_option,
            click.option(
                "--partitions", type=click.IntRange(min=1), metavar="N",
                help="Number of parts to work on one by one; by default as --memory needs.",
            ),
            work_option,
            click.option(
                "--resume", is_flag=True,
                help="Continue an interrupted run from its finished parts, and keep them if this "
                "run fails.",
            ),
            click.option(
                "--scheduler", metavar="ADDRESS",
                help="Work on the parts with the workers of this Dask scheduler, such as "
                "tcp://host:8786; local starts one worker a core here. A ranking is then a folder "
                "of Parquet files.",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


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
        self._has_status = False
        _streams.clear()
        # One handler, whatever the number of runs in this process: the latest run speaks.
        _messages.shell = self
        logger = logging.getLogger("hierlpr")
        logger.setLevel(logging.INFO)
        logger.addHandler(_messages)

    @property
    def shows_progress(self) -> bool:
        """Whether somebody watches: a terminal, and not quiet."""
        return not self.quiet and sys.stderr.isatty()

    def step(self, done: int, total: int, text: str) -> None:
        """Show the step that now begins as a bar with words, only on a terminal."""
        if self.shows_progress:
            self._clear()
            filled = 20 * done // max(total, 1)
            click.echo(f"[{'#' * filled}{'-' * (20 - filled)}] {text} ...", nl=False, err=True)
            self._has_status = True

    def _clear(self) -> None:
        if self._has_status:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._has_status = False

    def say(self, text: str) -> None:
        """Print a message to stderr, unless quiet."""
        if not self.quiet:
            self._clear()
            click.echo(_shown(text), err=True)

    def warn(self, text: str) -> None:
        """Print something the user must know to stderr."""
        self._clear()
        click.echo(_shown(f"Warning: {text}"), err=True)

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
        folder = tempfile.mkdtemp(prefix="hierlpr-")
        click.get_current_context().call_on_close(lambda: shutil.rmtree(folder, True))
        file = os.path.join(os.path.realpath(folder), name + suffix)
        _streams[file] = name  # messages call it so
        return file

    def result(self, text: str) -> None:
        """Print data to stdout."""
        self._clear()
        click.echo(text)

    def close(self, text: str) -> None:
        """Print the closing line, with the time taken."""
        self.say(f"{text} ({time.perf_counter() - self._start:.2f} s)")

    @contextmanager
    def rates(self, unit: str) -> Iterator[Callable[[str, int, int], None]]:
        """Give an ``on_progress(stage, done, total)`` that shows rate and time left."""
        if self.quiet:
            yield lambda stage, done, total: None
            return
        rates = Rates(unit, is_terminal=sys.stderr.isatty())
        try:
            yield rates.update
        finally:
            rates.clear()

    @contextmanager
    def progress(self, label: str) -> Iterator[Callable[[int, int], None]]:
        """Give an ``on_progress(done, total)`` that draws a bar, only on a terminal."""
        if not self.shows_progress:
            yield lambda done, total: None
            return
        with click.progressbar(length=1000, label=label, file=sys.stderr) as bar:
            reached = 0

            def update(done: int, total: int) -> None:
                nonlocal reached
                place = 1000 * done // max(total, 1)
                bar.update(place - reached)
                reached = place

            yield update


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


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def hierarchy_options(command: F) -> F:
    """Add the options that say how to read a hierarchy file."""
    for option in reversed(
        [
            click.option(
                "--relationship", "relationships", multiple=True, metavar="NAME",
                help="OBO relationship to use as edges, such as part_of; is_a alone if not given. "
                "May be repeated.",
            ),
            click.option(
                "--namespace", "namespaces", multiple=True, metavar="NAME",
                help="Keep only OBO terms of this namespace. May be repeated.",
            ),
            click.option(
                "--direction", type=click.Choice(["auto", "parent-child", "child-parent"]),
                default="auto", show_default=True,
                help="Which way the edges of an edge list are written; auto refuses a forest that "
                "stands on its head.",
            ),
            click.option("--path-sep", metavar="TEXT", help="Separator of a path list."),
            click.option(
                "--names", type=click.Path(), metavar="TABLE",
                help="Table with the columns code and name: names for people, shown beside the "
                "codes of labels. OBO files and edge lists with a column name have their own.",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def read_hierarchy_file(
    shell: Shell,
    path: TablePath,
    *,
    lenient: bool,
    relationships: tuple[str, ...],
    namespaces: tuple[str, ...],
    direction: Any,
    path_sep: str | None,
    names: str | None,
) -> HierarchyFile:
    """Read a hierarchy as the options say, with the names of a table, and say what was seen."""
    from dataclasses import replace

    from hierlpr.io import TablePath, load_hierarchy, read_names

    loaded = load_hierarchy(
        path,
        relationships=tuple(dict.fromkeys(("is_a", *relationships))) if relationships else None,
        namespaces=namespaces or None,
        direction=direction,
        sep=path_sep,
        lenient=lenient,
    )
    shell.read(loaded.report)
    if names is None:
        return loaded
    table = TablePath(names, sep=path.sep)
    found, report = read_names(table, loaded.hierarchy, aliases=loaded.aliases, lenient=lenient)
    shell.read(report)
    return replace(loaded, hierarchy=loaded.hierarchy.with_names(found))


sep_option = click.option(
    "--sep", metavar="CHAR",
    help="The character between columns of text files, such as ';' or tab; by default .csv means "
    "commas and .tsv means tabs. Files without it are read as by default.",
)  # fmt: skip


def table_options(command: F) -> F:
    """Add the options that say how tables are written."""
    for option in reversed(
        [
            sep_option,
            click.option(
                "--decimal", type=click.Choice([".", ","]), default=".", show_default=True,
                help="The decimal mark of numbers in text files.",
            ),
            click.option(
                "--sample-column", metavar="NAME",
                help="The column that names the samples, if it is not called sample; files "
                "without it are read as by default.",
            ),
            click.option(
                "--columns", type=click.Choice(["all", "labels"]), default="all",
                show_default=True,
                help="In a wide table take every other column as a label, so that an unknown one "
                "stops the run, or pass over columns that are no labels.",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def taken(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Take some of the options of a command away from the others."""
    return {name: options.pop(name) for name in names}


def written_tables(
    shell: Shell, options: dict[str, Any], hierarchy: str = ""
) -> Callable[[str], TablePath]:
    """Take the options of tables; give the function that joins a path with them.

    With a path list ``--sep`` is taken for it, as it once was, unless ``--path-sep`` is there.
    """
    from hierlpr.io import TablePath

    given = taken(options, [name for name in TABLES if name in options])
    is_paths = hierarchy.lower().removesuffix(".gz").endswith((".paths", ".txt"))
    if given["sep"] is not None and is_paths and options["path_sep"] is None:
        shell.warn("--sep is taken for the path list; say --path-sep, since --sep is for tables")
        options["path_sep"], given["sep"] = given["sep"], None
    return lambda path: TablePath(shell.stdin(path), **given)


def other_names(hierarchy: str | None) -> dict[str, str]:
    """Other names of labels that a hierarchy file gives."""
    if hierarchy is None:
        return {}
    from hierlpr.io import load_hierarchy

    return dict(load_hierarchy(hierarchy).aliases)


def put_json(out: str, data: Any) -> None:
    """Write JSON to a file, whole or not at all, or to stdout."""
    from hierlpr._base.files import json_text, write_json

    if out == "-":
        click.echo(json_text(data), nl=False)
    else:
        write_json(out, data)
