"""One way to work in parts: a folder of the run's own, partial results in it, and a merge.

Ranking, fitting and evaluating go the same way: a source is split into parts, a task makes a file
of each part in the work folder, and what the files hold is merged. File and record appear by
renaming, the record last, so that a part is either finished or was never there. A task may be
repeated at will, which is what a cluster does when a worker dies, and resuming a run is to do what
is not finished. An executor says where tasks run: here, one after the other, or on a Dask cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hierlpr import __version__
from hierlpr._base import AnyPath, require
from hierlpr._base.files import digest_of, work_file
from hierlpr._base.own_folders import own_folder
from hierlpr.exceptions import FileError, HierlprError
from hierlpr.io import Problem, TablePath, Watch
from hierlpr.io.opening import is_remote, open_bytes, parquet_files
from hierlpr.scale.budget import DEFAULT_MEMORY, Budget

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.hierarchy import Hierarchy

WORK_VERSION = 6
SPOT = 1 << 16  # bytes at either end of a file that enter its fingerprint
OnProgress = Callable[[str, int, int], None]
Record = dict[str, Any]
# A task that took this many workers down with it is at fault itself; fewer losses are bad luck.
ALLOWED_FAILURES = 10
IN_FLIGHT = 4  # tasks a worker thread waits with: enough to be never idle, few enough to hold


# -- where tasks run --------------------------------------------------------------------------


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


class Cluster:
    """Run tasks on the workers of a Dask scheduler.

    A task writes its result to the shared work folder by renaming and returns a short record, so
    that a task that is repeated, because its worker died, changes nothing.
    """

    is_cluster = True

    def __init__(self, client: Any, *, workers: Sequence[str] | None = None) -> None:
        self._client = client
        self._workers = workers

    def run(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Call the function on every task; results come as they are ready."""
        from dask.distributed import as_completed
        from distributed.scheduler import KilledWorker

        futures = (
            self._client.submit(function, *task, pure=False, workers=self._workers)
            for task in tasks
        )
        most = IN_FLIGHT * max(1, sum(self._client.nthreads().values()))
        running: Any = as_completed(list(islice(futures, most)))  # type: ignore[no-untyped-call]
        try:
            for future in running:
                yield future.result()
                running.update(islice(futures, 1))
        except KilledWorker as error:
            raise HierlprError(
                f"Workers died again and again on the same partition ({error}).\n"
                "Hint: is there enough memory for --memory on every worker? More --partitions "
                "make each of them smaller."
            ) from None


@contextmanager
def executor_of(scheduler: str | Executor | None, *, timeout: str = "20s") -> Iterator[Executor]:
    """Connect to the scheduler at an address; ``local`` starts one here, None does without."""
    if scheduler is None:
        yield Here()
        return
    if not isinstance(scheduler, str):
        yield scheduler
        return
    require("dask", "distributed", extra="dask", what="A cluster")
    import dask
    from dask.distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.comm.timeouts.connect": timeout,
    }
    with dask.config.set(settings):
        if scheduler == "local":
            with (
                LocalCluster(  # type: ignore[no-untyped-call]
                    threads_per_worker=1, dashboard_address=None
                ) as here,
                Client(here) as client,  # type: ignore[no-untyped-call]
            ):
                yield Cluster(client)
            return
        try:
            client = Client(scheduler, timeout=timeout)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TimeoutError) as error:
            raise HierlprError(
                f"The scheduler {scheduler} does not answer ({error}).\n"
                "Hint: start one with dask scheduler, and give its address as tcp://HOST:8786."
            ) from None
        with client:
            yield Cluster(client)


# -- a run ------------------------------------------------------------------------------------


def _say_nothing(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a run works: what every function of `hierlpr.workflows` takes beside its own options.

    Attributes
    ----------
    memory : str or int
        Working memory, beside the interpreter and its libraries, such as ``"1GB"``. What needs
        more is worked on in parts.
    partitions : int, optional
        Number of parts of a file, by default as many as the memory needs; asks for parts.
    work : path, optional
        Where a folder for work files is made: beside the output by default, for an evaluation
        among the system's temporary files. A cluster must share it. Asks for parts.
    resume : bool
        Continue an interrupted run, and keep what is finished if this one fails; asks for parts.
    scheduler : str or Executor, optional
        Address of a Dask scheduler whose workers do the parts; ``"local"`` starts one here.
        Anything with the method `run` of an `Executor` may take its place.
    on_progress : callable, optional
        Called with stage, done and total.
    """

    memory: str | int = DEFAULT_MEMORY
    partitions: int | None = None
    work: AnyPath | None = None
    resume: bool = False
    scheduler: str | Executor | None = None
    on_progress: OnProgress | None = None

    @property
    def budget(self) -> Budget:
        """What the memory means."""
        return Budget.of(self.memory)

    @property
    def say(self) -> OnProgress:
        """Where progress is told."""
        return self.on_progress or _say_nothing

    def asks_for_parts(self, *files: str) -> bool:
        """Whether an option, or an address among the files, asks for parts."""
        asked = (self.work, self.scheduler, self.partitions)
        return self.resume or any(x is not None for x in asked) or any(map(is_remote, files))


@dataclass(frozen=True, slots=True)
class Parts:
    """A run in parts: its folder, what it may use, and who does the work."""

    folder: Path
    budget: Budget
    executor: Executor = field(default_factory=Here)
    partitions: int | None = None
    resume: bool = False
    say: OnProgress = _say_nothing

    def make(
        self,
        function: Callable[..., Record],
        tasks: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
        *,
        folder: Path,
        stage: str,
    ) -> list[Record]:
        """Make the parts that are not finished yet; return the records of all, in order.

        ``function(*tasks[i], i)`` makes part i by `keep`; `sizes` say how much work each is.
        """
        waiting = [i for i in range(len(sizes)) if _finished(folder, i) is None]
        total = sum(sizes)
        done = total - sum(sizes[i] for i in waiting)
        self.say(stage, done, total)
        for record in self.executor.run(function, ((*tasks[i], i) for i in waiting)):
            done += sizes[record["number"]]
            self.say(stage, done, total)
        records = [_finished(folder, i) for i in range(len(sizes))]
        if None in records:
            raise FileError(
                f"{folder}: part {records.index(None)} is not there.\n"
                "Hint: on a cluster, --work must name a folder that all machines share."
            )
        return [record for record in records if record is not None]


@contextmanager
def in_parts(how: How, command: str, *paths: str, beside: AnyPath | None = None) -> Iterator[Parts]:
    """Begin a run in parts, in a folder of its own that is removed at the end.

    After an error the folder stays if `how` asks to go on later, and a later run of the same
    command on the same paths finds it again.
    """
    key = " ".join([command, *(x if is_remote(x) else os.path.realpath(x) for x in paths)])
    parent = Path(tempfile.gettempdir())
    if how.work is not None:
        parent = Path(how.work)
    elif beside is not None and not is_remote(os.fspath(beside)):
        parent = Path(os.path.realpath(beside)).parent  # so that renaming needs no copying
    with (
        executor_of(how.scheduler) as executor,
        own_folder(parent, name=parent, key=key, resume=how.resume, make_parent=True) as own,
    ):
        folder = own / "work"  # apart from the mark
        folder.mkdir(exist_ok=True)
        yield Parts(folder, how.budget, executor, how.partitions, how.resume, how.say)


# -- partial results --------------------------------------------------------------------------


def part_file(folder: str | Path, number: int) -> Path:
    """Return the file of a part; its record lies beside it."""
    return Path(folder) / f"part-{number:06d}.data"


def keep(folder: str | Path, number: int, write: Callable[[Path], Record]) -> Record:
    """Make a part: `write` fills the file and returns what else the record says."""
    file = part_file(folder, number)
    with work_file(file) as part:
        record = {**write(part), "number": number, "bytes": part.stat().st_size}
    with work_file(file.with_suffix(".json")) as part:
        part.write_text(json.dumps(record), encoding="utf-8")
    return record


def _finished(folder: Path, number: int) -> Record | None:
    """Return the record of a finished part, None if it is not finished."""
    file = part_file(folder, number)
    try:
        record: Record = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        return record if file.stat().st_size == record["bytes"] else None
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def arrow_batches(folder: Path, n_parts: int) -> Iterator[pa.RecordBatch]:
    """Read the batches of all parts, whose files are Arrow's."""
    import pyarrow as pa

    for number in range(n_parts):
        with pa.OSFile(str(part_file(folder, number)), "rb") as file:
            reader = pa.ipc.open_file(file)
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))


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


# -- what to resume ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run depends on, and what an interrupted one had found out.

    `inputs` are digests of the files, the options and the versions; `found` is what `write` stored,
    None if there is nothing to resume.
    """

    file: Path
    inputs: dict[str, Any]
    found: dict[str, Any] | None

    @classmethod
    def open(
        cls,
        folder: Path,
        files: Mapping[str, str],
        hierarchy: Hierarchy,
        options: Mapping[str, Any],
        *,
        resume: bool,
    ) -> Plan:
        """Describe a run; to resume another's, with other files or options, is refused."""
        file = folder / "plan.json"
        inputs = {
            "the format of the work files": WORK_VERSION,
            "the version of hierlpr": __version__,
            **{f"the {what}": _fingerprints(path) for what, path in files.items()},
            "the hierarchy": [list(hierarchy.labels), [list(edge) for edge in hierarchy.edges]],
            "the options": json.loads(json.dumps(options)),
        }
        try:
            stored = json.loads(file.read_text(encoding="utf-8")) if resume else None
        except (FileNotFoundError, json.JSONDecodeError):
            shutil.rmtree(folder)  # killed before there was a plan
            folder.mkdir()
            stored = None
        if stored is None:
            return cls(file, inputs, None)
        changed = [what for what, value in inputs.items() if stored["inputs"].get(what) != value]
        if changed:
            raise FileError(
                f"{folder}: {' and '.join(changed)} changed since the run that was interrupted, so "
                "it cannot be resumed.\nHint: run again without --resume to start over."
            )
        return cls(file, inputs, stored["found"])

    def write(self, found: Mapping[str, Any]) -> None:
        """Store what is known now, whole or not at all."""
        with work_file(self.file) as part:
            text = json.dumps({"inputs": self.inputs, "found": found})
            part.write_text(text, encoding="utf-8")


def _fingerprints(path: str) -> dict[str, str]:
    """Digests of the files of a table; written otherwise it would be another table."""
    found = {name: fingerprint(name) for name in parquet_files(path)}
    options = path.options if isinstance(path, TablePath) else {}
    return found | {name: str(value) for name, value in options.items()}


def fingerprint(path: str) -> str:
    """Digest of a file's size, date and both ends: a changed file is recognised without a pass.

    The end of a Parquet file holds the places, sizes and statistics of all its columns.
    """
    with open_bytes(path) as stream:
        date = b"" if is_remote(path) else str(os.fstat(stream.fileno()).st_mtime_ns).encode()
        return digest_of(stream, SPOT, also=date)
