"""Where tasks run: one after the other in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol

from hierlpr._base.lazy import require
from hierlpr.exceptions import HierlprError

__all__ = ["Cluster", "Executor", "Here", "executor_of"]

# A task that took this many workers down with it is at fault itself; fewer losses are bad luck.
ALLOWED_FAILURES = 10
IN_FLIGHT = 4  # tasks a worker thread waits with: enough to be never idle, few enough to hold


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
