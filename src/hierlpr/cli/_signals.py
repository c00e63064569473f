"""End a command on SIGINT or SIGTERM as on an error, so that its temporary files are removed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

received: list[int] = []  # the signal that ends the running command, if any


@contextmanager
def clean_exit() -> Iterator[None]:
    """Raise KeyboardInterrupt on the first SIGINT or SIGTERM, and then exit with 128 + its number.

    Batch systems, ``timeout`` and ``docker stop`` send SIGTERM, by default the end of a process
    without any cleaning. Signals that the process ignores stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received.clear()
    handlers: dict[int, Any] = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    used = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    for number in used:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in used:
            signal.signal(number, handlers[number])
        if received:
            sys.exit(128 + received[0])


def _stop(number: int, frame: Any) -> None:
    """Interrupt the main thread once; another signal must not interrupt the cleaning."""
    if not received:
        received.append(number)
        raise KeyboardInterrupt


def raise_if_stopped() -> None:
    """Raise again if the first exception was lost, as it is in a finalizer."""
    if received:
        raise KeyboardInterrupt
