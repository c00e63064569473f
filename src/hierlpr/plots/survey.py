"""Go over all samples, a run at a time, and add up all that is shown about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr._kernels._threads import n_threads_or_default
from hierlpr.lpr import own_lpr
from hierlpr.metrics.cafa import propagate_max_sparse
from hierlpr.plots.calibration import CalibrationCurve, CalibrationSums
from hierlpr.plots.comparisons import (
    MethodCurve,
    Promise,
    Tradeoff,
    corner_at,
    tradeoffs_of,
    unclear_corners,
)
from hierlpr.plots.evidence import Evidence, Pool, Study, pool
from hierlpr.plots.orders import Along, Order, Waiting, count_waiting, in_order
from hierlpr.plots.tallies import Tally, violations_of
from hierlpr.research.baselines import propagate_max

Float = NDArray[np.float64]

_NONE = np.empty(0)
NAMES = {
    "hierlpr": "HierLPR", "lpr": "LPR alone", "max": "Max-propagation", "raw": "Raw scores",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What was counted over all samples of a study; without truth nothing is compared with it.

    `methods` are ours, LPRs without the hierarchy, maxima passed up, and raw scores.
    """

    study: Study
    tally: Tally
    promise: Promise
    tradeoffs: tuple[Tradeoff, ...]
    methods: tuple[MethodCurve, ...]
    calibration: CalibrationCurve | None
    block_calibration: CalibrationCurve | None


def survey(
    study: Study,
    *,
    n_bins: int = 10,
    on_part: Callable[[Evidence, Tally], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Survey:
    """Let the model do its work on all samples, and count.

    `on_part` gets each run of samples, with the counts so far.
    """
    truth, tally = study.has_truth, Tally(study)
    sums = [CalibrationSums(study.n_samples, n_bins) for _ in range(2)] if truth else []
    with ExitStack() as stack:
        orders = {"hierlpr": _Counted.ours(study, stack)}
        if truth:
            orders |= _others(study, stack)
        threads = stack.enter_context(
            ThreadPoolExecutor(n_threads_or_default(study.model.n_threads))
        )
        tasks: list[Future[None]] = []
        for rows in study.runs():
            part, first = study.take(rows), int(rows[0])  # while the run before is still counted
            _finish(tasks)
            tasks = [threads.submit(order.add, part, study) for order in orders.values()]
            for kept, matrix in zip(sums, (part.lpr, part.block_score), strict=False):
                tasks.append(threads.submit(_calibrate, kept, part, matrix, first))
            tally.add(part)
            if on_part is not None:
                on_part(part, tally)
            if on_progress is not None:
                on_progress(int(rows[-1]) + 1, study.n_samples)
        _finish(tasks)
        n_calls = int(tally.judged.sum())
        del part, tasks
        methods: list[MethodCurve] = []
        for key in reversed(list(orders)):  # one by one: each has a corner for all that is true
            order = orders.pop(key)
            along = order.along(n_calls, study)
            n_broken = order.n_broken if tally.is_dense else None
            if key == "hierlpr":
                promise = Promise.of(along, has_truth=truth)
                tradeoffs = tradeoffs_of(along, has_truth=truth)
            if truth:
                curve = MethodCurve.of(key, NAMES[key], along, n_calls=n_calls, violations=n_broken)
                methods.insert(0, curve)
            del order, along
    curves = [x.curve(study.weight) for x in sums]
    return Survey(
        study=study,
        tally=tally,
        promise=promise,
        tradeoffs=tradeoffs,
        methods=tuple(methods),
        calibration=curves[0] if truth else None,
        block_calibration=curves[1] if truth else None,
    )


def _finish(tasks: list[Future[None]]) -> None:
    for task in tasks:
        task.result()


def _calibrate(sums: CalibrationSums, part: Evidence, matrix: Matrix, first: int) -> None:
    sums.add(part.pool(matrix), first)


class _Counted:
    """One order that is counted, and how often it calls a label before a parent.

    Ours, whose marks are known only at the end, waits until then, and so does what must be known
    exactly at some place of the order: where samples have weights, after as many calls as ours.
    """

    def __init__(self, key: str, order: Order, waiting: Waiting | None) -> None:
        self.key, self.order, self.n_broken = key, order, 0
        self._waiting = waiting

    @classmethod
    def ours(cls, study: Study, stack: ExitStack) -> _Counted:
        """Make the order of the block scores."""
        levels = np.unique(study.level[np.isfinite(study.level)])
        weighs = study.weight is not None
        order = Order(study.n_listed, weighs=weighs, adds=True, extra=levels)
        return cls("hierlpr", order, stack.enter_context(Waiting(study.folder)))

    def add(self, part: Evidence, study: Study) -> None:
        """Add a run of samples."""
        own = part.block_score if self.key == "hierlpr" else part.own_lpr
        matrix = _matrix(self.key, part.scores, study, own)
        listed = part.pool(matrix)
        if self.key == "hierlpr":
            self.order.look(listed)
        (self.order.count if self._waiting is None else self._waiting.append)(*in_order(listed))
        if study.has_truth and isinstance(matrix, np.ndarray):
            self.n_broken += violations_of(study, matrix)

    def along(self, n_calls: int, study: Study) -> Along:
        """Return the curves along the order."""
        if self._waiting is None:
            return self.order.along()
        if self.key == "hierlpr":
            return count_waiting(
                self.order, self._waiting,
                lambda found: unclear_corners(found, n_calls, has_truth=study.has_truth),
            )  # fmt: skip
        return count_waiting(self.order, self._waiting, lambda found: {corner_at(found, n_calls)})


def _others(study: Study, stack: ExitStack) -> dict[str, _Counted]:
    """Look at the orders that ours is compared with, which takes little of the model's work."""
    weighs = study.weight is not None
    orders = {key: Order(study.n_listed, weighs=weighs) for key in NAMES if key != "hierlpr"}
    n_threads = n_threads_or_default(study.model.n_threads)
    coming: deque[Future[dict[str, Any]]] = deque()
    with ThreadPoolExecutor(n_threads) as threads:
        for rows in study.runs():
            coming.append(threads.submit(_looked_at, study, rows, orders["lpr"].step))
            if len(coming) > n_threads:
                _look(orders, coming.popleft().result())
        while coming:
            _look(orders, coming.popleft().result())
    return {
        key: _Counted(key, order, stack.enter_context(Waiting(study.folder)) if weighs else None)
        for key, order in orders.items()
    }


def _looked_at(study: Study, rows: NDArray[np.intp], step: int) -> dict[str, Any]:
    """Return what each of the other orders is to look at, of some samples."""
    scores = study.table(rows).values
    truth, unknown = study.held(rows, scores)
    weight = None if study.weight is None else study.weight[rows]
    found: dict[str, Any] = {}
    for key in ("max", "raw", "lpr"):
        if key == "lpr" and isinstance(scores, np.ndarray):
            found[key] = _some_lprs(study, scores, truth, weight, step)
            continue
        lpr = own_lpr(study.model.lpr_, scores, n_threads=1) if key == "lpr" else None
        found[key] = pool(_matrix(key, scores, study, lpr), truth, unknown, weight)
    return found


def _look(orders: dict[str, Order], found: dict[str, Any]) -> None:
    for key, order in orders.items():
        if isinstance(found[key], Pool):
            order.look(found[key])
        else:
            order.look_at(*found[key])
            order.add_sizes(found["raw"])


def _some_lprs(
    study: Study, scores: Float, truth: Any, weight: Float | None, step: int
) -> tuple[Float, Float, Float]:
    """LPRs of some instances, and of what is true with its weights: marks are made of no more."""
    lpr, n_labels = study.model.lpr_, scores.shape[1]
    wanted = truth.copy()
    wanted.reshape(-1)[::step] = True
    at = np.flatnonzero(wanted)
    label, given = (at % n_labels).astype(np.int32), scores.reshape(-1)[at]
    gaps = np.isnan(given)
    own = lpr.curves.evaluate_each(label, np.where(gaps, 0.0, given), n_threads=1)
    own[gaps] = lpr.report.base_rate[label[gaps]]
    true = truth.reshape(-1)[at]
    return own, own[true], _NONE if weight is None else weight[at[true] // n_labels]


def _matrix(key: str, scores: Matrix, study: Study, lpr: Any) -> Matrix:
    """Return what a method calls by."""
    if key != "max":
        return scores if key == "raw" else lpr
    is_dense = isinstance(scores, np.ndarray)
    raised: Matrix = (propagate_max if is_dense else propagate_max_sparse)(scores, study.hierarchy)
    return raised
