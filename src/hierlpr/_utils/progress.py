"""A progress bar on stderr or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tqdm.auto import tqdm

QUICK = 2.0  # seconds; what takes less shows no bar
LOG_INTERVAL = 10.0  # seconds between two states in a log


class _Bar(tqdm):  # type: ignore[misc]
    monitor_interval = 0  # no thread beside those of the fit


def progress_bar(what: str, *, verbose: bool | None) -> Callable[[int, int], None] | None:
    """Return an ``on_progress(done, total)`` that draws a bar, or None if `verbose` is False.

    With ``verbose=None`` a bar appears only after `QUICK` seconds.
    """
    if verbose is False:
        return None
    is_live = sys.stderr.isatty() or "ipykernel" in sys.modules
    options: dict[str, Any] = {"desc": what, "delay": 0.0 if verbose else QUICK}
    options["mininterval"] = 0.2 if is_live else LOG_INTERVAL
    bar = _Bar(bar_format="{l_bar}{bar}| {elapsed}", miniters=0, **options)

    def draw(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return draw
