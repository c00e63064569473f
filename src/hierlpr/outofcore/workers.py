"""Batches in threads of this process, or on the workers of a Dask scheduler."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from hierlpr._utils import require
from hierlpr.exceptions import ResourceError

BatchType = TypeVar("BatchType")
Result = TypeVar("Result")
TIMEOUT = 20  # seconds for a scheduler to answer, and then for its first worker
# A batch that ends this many workers is at fault itself; fewer losses are bad luck.
ALLOWED_FAILURES = 10
THREADS = 2  # for batches in this process: one is finished while the next one is ranked
IN_FLIGHT = 3  # batches per worker thread: enough to keep it busy, few enough to hold


def map_batches(
    function: Callable[[BatchType], Result], batches: Iterable[BatchType], scheduler: str | None
) -> Iterator[Result]:
    """Yield ``function(batch)`` for every batch, in order; the next batches are read meanwhile.

    Batches are read here and sent to the workers, so that these need no access to the files. Dask
    repeats the batches of a worker that dies.

    Parameters
    ----------
    scheduler : str or None
        Address of a Dask scheduler, ``"local"`` to start one worker per core, or None for two
        threads.
    """
    running: deque[Any] = deque()
    with _workers(scheduler) as (submit, most):
        for batch in batches:
            running.append(submit(function, batch))
            del batch
            if len(running) >= most:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


@contextmanager
def _workers(scheduler: str | None) -> Iterator[tuple[Callable[..., Any], int]]:
    """Yield a function that starts a task, and how many tasks to start before waiting for one."""
    if scheduler is None:
        with ThreadPoolExecutor(THREADS) as pool:
            yield pool.submit, THREADS
        return
    require("dask", "distributed", extra="dask", what="A scheduler")
    import dask
    from distributed import TimeoutError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.comm.timeouts.connect": f"{TIMEOUT}s",
    }
    lost = asyncio.CancelledError, concurrent.futures.CancelledError, CommClosedError, TimeoutError

    def submit(function: Callable[[Any], Any], batch: Any) -> Any:
        with warnings.catch_warnings():  # "Sending large graph": batches are the data
            warnings.filterwarnings("ignore", message="Sending large graph")
            return client.submit(function, batch, pure=False)

    with ExitStack() as stack:
        for name in ("distributed", "distributed.client"):  # errors are raised, not logged
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        stack.enter_context(dask.config.set(settings))
        client = _connect(scheduler, stack)
        try:
            _check_workers(client, scheduler)
            yield submit, IN_FLIGHT * max(1, sum(client.nthreads().values()))
        except KilledWorker as error:
            raise ResourceError(
                f"Workers died repeatedly on the same batch ({error}).\n"
                "Hint: does every worker have as much memory as memory= allows?",
                options=("memory",),
            ) from None
        except lost as error:
            raise ResourceError(
                f"The connection to the scheduler {scheduler} was lost ({type(error).__name__}).\n"
                "Hint: is it still running? Start the command again; nothing was written."
            ) from None


def _connect(scheduler: str, stack: ExitStack) -> Any:
    """Return a client of a running scheduler, or of a new one on this machine."""
    from distributed import Client, LocalCluster

    if scheduler == "local":
        here = LocalCluster(  # type: ignore[no-untyped-call]
            threads_per_worker=1, dashboard_address=None
        )
        return stack.enter_context(Client(stack.enter_context(here)))  # type: ignore[no-untyped-call]
    try:
        client = Client(scheduler, timeout=TIMEOUT)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise ResourceError(
            f"The scheduler {scheduler} does not answer ({error}).\n"
            "Hint: start one with dask scheduler, and give its address as tcp://HOST:8786."
        ) from None
    return stack.enter_context(client)


def _check_workers(client: Any, scheduler: str) -> None:
    """Raise if the scheduler has no worker, or one that cannot import hierlpr."""
    from distributed import TimeoutError

    try:
        client.wait_for_workers(1, timeout=TIMEOUT)
    except TimeoutError:
        raise ResourceError(
            f"The scheduler {scheduler} has no workers ({TIMEOUT} seconds waited).\n"
            f"Hint: start some with dask worker {scheduler}."
        ) from None
    answers = client.run(exec, "import hierlpr.outofcore.predict", on_error="return")
    for worker, error in answers.items():
        if error is not None:
            raise ResourceError(
                f"The worker {worker} cannot import hierlpr ({type(error).__name__}: {error}).\n"
                'Hint: install hierlpr where workers run, with pip install "hierlpr[dask]".'
            )
