"""Partial results: each a file and a record that it is complete, made anywhere, and once.

Ranking, fitting and evaluating go the same way: a source is split into parts, a task makes a file
of each part in the work folder, and what the files hold is merged. File and record appear by
renaming, the record last, so that a part is either finished or was never there. A task may be
repeated at will, which is what a cluster does when a worker dies, and resuming a run is to do what
is not finished.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from hierlpr._base.files import work_file
from hierlpr.exceptions import FileError
from hierlpr.io import Problem, Watch

__all__ = [
    "Executor",
    "Here",
    "OnProgress",
    "add_seen",
    "all_finished",
    "finished",
    "keep",
    "part_file",
    "run_parts",
    "say_nothing",
    "seen",
]

OnProgress = Callable[[str, int, int], None]
Record = dict[str, Any]


class Executor(Protocol):
    """Where tasks run. Results come in any order."""

    is_cluster: bool

    def run(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Call the function on the arguments of every task."""


class Here:
    """One task after the other, in this process; kernels use its threads."""

    is_cluster = False

    def run(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Call the function on every task in turn."""
        for task in tasks:
            yield function(*task)


def say_nothing(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def part_file(folder: str | Path, kind: str, number: int) -> Path:
    """Return the file of a part; its record lies beside it."""
    return Path(folder) / f"{kind}-{number:06d}.data"


def finished(folder: str | Path, kind: str, number: int) -> Record | None:
    """Return the record of a finished part, None if it is not finished."""
    file = part_file(folder, kind, number)
    try:
        record: Record = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        return record if file.stat().st_size == record["bytes"] else None
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def keep(folder: str | Path, kind: str, number: int, write: Callable[[Path], Record]) -> Record:
    """Make a part: `write` fills the file and returns what else the record says."""
    file = part_file(folder, kind, number)
    with work_file(file) as part:
        record = {**write(part), "number": number, "bytes": part.stat().st_size}
    with work_file(file.with_suffix(".json")) as part:
        part.write_text(json.dumps(record), encoding="utf-8")
    return record


def run_parts(
    executor: Executor,
    function: Callable[[Any, int], Record],
    job: Any,
    sizes: Sequence[int],
    *,
    folder: str | Path,
    kind: str,
    stage: str,
    on_progress: OnProgress,
) -> list[Record]:
    """Make the parts that are not finished yet; return the records of all, in order.

    `function(job, number)` makes one by `keep`; `sizes` say how much work each is.
    """
    waiting = [i for i in range(len(sizes)) if finished(folder, kind, i) is None]
    total = sum(sizes)
    done = total - sum(sizes[i] for i in waiting)
    on_progress(stage, done, total)
    for record in executor.run(function, ((job, number) for number in waiting)):
        done += sizes[record["number"]]
        on_progress(stage, done, total)
    return all_finished(folder, kind, len(sizes))


def all_finished(folder: str | Path, kind: str, n_parts: int) -> list[Record]:
    """Return the records of all parts; refuse if one is not there."""
    records = []
    for number in range(n_parts):
        record = finished(folder, kind, number)
        if record is None:
            raise FileError(
                f"{folder}: part {number} is not there.\n"
                "Hint: on a cluster, --work must name a folder that all machines share."
            )
        records.append(record)
    return records


def seen(watch: Watch) -> Record:
    """Return what was seen in a part, for its record."""
    return {
        "counts": dict(watch.counts),
        "unknown": dict(watch.unknown),
        "problems": [[problem.text, problem.line] for problem in watch.problems],
        "n_problems": watch.n_problems,
    }


def add_seen(watch: Watch, record: Record) -> None:
    """Add what was seen in a part to the report of the whole."""
    watch.counts.update(Counter(record["counts"]))
    watch.unknown.update(Counter(record["unknown"]))
    watch.n_problems += record["n_problems"]
    room = 20 - len(watch.problems)
    watch.problems += [Problem(text, line) for text, line in record["problems"][:room]]
