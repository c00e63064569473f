"""Partitions on a Dask cluster; the only module that imports Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hierlpr._base.lazy import require
from hierlpr.exceptions import HierlprError

__all__ = ["Cluster", "cluster"]

# A task that took this many workers down with it is at fault itself; fewer losses are bad luck.
ALLOWED_FAILURES = 10
IN_FLIGHT = 4  # tasks a worker thread waits with: enough to be never idle, few enough to hold


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

        waiting = iter(tasks)
        most = IN_FLIGHT * max(1, sum(self._client.nthreads().values()))

        def next_future() -> Any:
            task = next(waiting, None)
            return None if task is None else self._submit(function, task)

        running: Any = as_completed()  # type: ignore[no-untyped-call]
        for _ in range(most):
            future = next_future()
            if future is None:
                break
            running.add(future)
        try:
            for future in running:
                yield future.result()
                fresh = next_future()
                if fresh is not None:
                    running.add(fresh)
        except KilledWorker as error:
            raise HierlprError(
                f"Workers died again and again on the same partition ({error}).\n"
                "Hint: is there enough memory for --memory on every worker? More --partitions "
                "make each of them smaller."
            ) from None

    def _submit(self, function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
        return self._client.submit(function, *task, pure=False, workers=self._workers)


@contextmanager
def cluster(
    address: str, *, n_workers: int | None = None, timeout: str = "20s"
) -> Iterator[Cluster]:
    """Connect to a scheduler, or with the address ``local`` start one on this machine."""
    require("dask", "distributed", extra="dask", what="A cluster")
    import dask
    from dask.distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.comm.timeouts.connect": timeout,
    }
    with dask.config.set(settings):
        if address == "local":
            with (
                LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=n_workers, threads_per_worker=1, dashboard_address=None
                ) as here,
                Client(here) as client,  # type: ignore[no-untyped-call]
            ):
                yield Cluster(client)
            return
        try:
            client = Client(address, timeout=timeout)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TimeoutError) as error:
            raise HierlprError(
                f"The scheduler {address} does not answer ({error}).\n"
                "Hint: start one with dask scheduler, and give its address as "
                "tcp://HOST:8786."
            ) from None
        with client:
            yield Cluster(client)
