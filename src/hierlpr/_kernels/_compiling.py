"""Tell users who wait that kernels are being compiled, and that it happens once."""

import logging
import threading
from time import perf_counter
from typing import Any

from numba.core import event

PATIENCE = 2.0  # seconds of compiling, all kernels together, before anything is said


class Announcer(event.Listener):
    """Adds up the time Numba compiles, and logs one line when that is long."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.depth = 0  # kernels compile the functions they call
        self.began = 0.0
        self.timer = threading.Timer(0.0, self.say)
        self.said = False

    def on_start(self, event: Any) -> None:
        """Set the clock."""
        self.depth += 1
        if self.depth == 1 and not self.said:
            self.began = perf_counter()
            self.timer = threading.Timer(max(0.0, PATIENCE - self.spent), self.say)
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        self.depth -= 1
        if self.depth == 0 and not self.said:
            self.timer.cancel()
            self.spent += perf_counter() - self.began

    def say(self) -> None:
        """Log the line."""
        self.said = True
        logging.getLogger("hierlpr").info("compiling, once: the next runs start right away")


def announce_compiling() -> None:
    """Have one line logged (logger ``hierlpr``, level INFO) when compiling takes long."""
    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
