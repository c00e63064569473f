"""Map a function over batches: in this process, or on the workers of a Dask scheduler."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

from hierlpr._utils import require
from hierlpr.exceptions import HierlprError

Batch = TypeVar("Batch")
Result = TypeVar("Result")
TIMEOUT = "20s"
# A batch that ends this many workers is at fault itself; fewer losses are bad luck.
ALLOWED_FAILURES = 10
IN_FLIGHT = 3  # batches per worker thread: enough to keep it busy, few enough to hold


def map_batches(
    function: Callable[[Batch], Result], batches: Iterable[Batch], scheduler: str | None
) -> Iterator[Result]:
    """Yield ``function(batch)`` for every batch, in order.

    Batches are read here and sent to the workers, so that these need no access to the files. Dask
    repeats the batches of a worker that dies.

    Parameters
    ----------
    scheduler : str or None
        Address of a Dask scheduler, ``"local"`` to start one worker per core, or None.
    """
    if scheduler is None:
        yield from map(function, batches)
        return
    require("dask", "distributed", extra="dask", what="A scheduler")
    import dask
    from distributed.scheduler import KilledWorker

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.comm.timeouts.connect": TIMEOUT,
    }
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        client = _connect(scheduler, stack)
        most = IN_FLIGHT * max(1, sum(client.nthreads().values()))
        running: deque[Any] = deque()
        try:
            for batch in batches:
                with warnings.catch_warnings():  # "Sending large graph": batches are the data
                    warnings.filterwarnings("ignore", message="Sending large graph")
                    running.append(client.submit(function, batch, pure=False))
                if len(running) >= most:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        except KilledWorker as error:
            raise HierlprError(
                f"Workers died repeatedly on the same batch ({error}).\n"
                "Hint: does every worker have enough memory for --memory?"
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
        raise HierlprError(
            f"The scheduler {scheduler} does not answer ({error}).\n"
            "Hint: start one with dask scheduler, and give its address as tcp://HOST:8786."
        ) from None
    return stack.enter_context(client)
