"""Entries of a page: one for each label, and one for each of the samples that are shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.cutoff.decisions import reason_codes
from hierlpr.data.tables import Table, dense
from hierlpr.hierarchy import Hierarchy
from hierlpr.model.core import ScoreModel
from hierlpr.model.explaining import ranked_labels
from hierlpr.plots.evidence import PART, Evidence, Study
from hierlpr.plots.tallies import Tally
from hierlpr.ranking.order import rank

CURVE_POINTS = 25
MOST_CURVES = 6_000  # beyond so many labels only the best supported ones get a thumbnail


def label_entries(tally: Tally) -> dict[str, Any]:
    """Gather what is known of every label, as the page's script takes it.

    ``labels`` has a column for each of: positives in the fit (``support``) and ``auc`` of its
    classifier there; the ``share`` of the parent's positives, or for a root of all samples, that
    have it; ``positives``, ``calls`` and ``hits`` on the samples of the report; its ``curve``, LPRs
    in percent at evenly spaced scores over the ``range`` of the fit; and the place of a ``note``
    among the ``notes`` on how curves were made. Shares are whole thousandths, None where there
    are none. ``nFit`` samples were fitted on.
    """
    model, h = tally.study.model, tally.study.hierarchy
    report = model.lpr_.report
    parent, _ = parents_of(h)
    n_fit = int((report.positives + report.negatives).max(initial=0))
    whole = np.where(parent >= 0, report.positives[parent], n_fit)
    share = np.full(h.n_labels, np.nan)
    np.divide(report.positives, whole, out=share, where=whole > 0)
    curves, ranges = _curves(model)
    notes = list(dict.fromkeys(str(text) for text in report.fallback))
    place = {note: i for i, note in enumerate(notes)}
    columns = {
        **labels_of(h),
        "support": report.positives.tolist(),
        "auc": _thousandths(report.auc),
        "share": _thousandths(share),
        **{name: tally.by_label[name].tolist() for name in ("positives", "calls", "hits")},
        "curve": curves,
        "range": ranges,
        "note": [place[str(text)] for text in report.fallback],
    }
    return {"nFit": n_fit, "labels": columns, "notes": notes}


def labels_of(h: Hierarchy) -> dict[str, Any]:
    """Columns of labels as every page has them; names for people, other parents where there are."""
    parent, others = parents_of(h)
    return {
        "name": h.labels,
        "title": {str(k): h.name(x) for k, x in enumerate(h.labels) if h.name(x) != x},
        "parent": parent.tolist(),
        "others": {str(k): also for k, also in enumerate(others) if also},
    }


def parents_of(h: Hierarchy) -> tuple[NDArray[np.intp], tuple[tuple[int, ...], ...]]:
    """First parent of every label (-1 for a root), and the other ones, by column."""
    above = h.order[h.parent_idx].tolist()  # lists are cut faster than arrays
    bounds = zip(*(h.parent_ptr[h.position + i].tolist() for i in range(2)), strict=True)
    parents = [above[start:stop] for start, stop in bounds]
    first = np.array([above[0] if above else -1 for above in parents], dtype=np.intp)
    return first, tuple(tuple(above[1:]) for above in parents)


def _curves(model: ScoreModel) -> tuple[list[list[int] | None], list[list[float]]]:
    curves = model.lpr_.curves
    by_support = np.argsort(-model.lpr_.report.positives, kind="stable")
    found: list[list[int] | None] = [None] * curves.n_labels
    for label in by_support[:MOST_CURVES].tolist():
        score, lpr = curves.curve(label)
        grid = np.linspace(score[0], score[-1], CURVE_POINTS)
        found[label] = np.rint(100.0 * np.interp(grid, score, lpr)).astype(int).tolist()
    ptr, score = curves.knot_ptr, curves.knot_score
    ends = zip(score[ptr[:-1]].tolist(), score[ptr[1:] - 1].tolist(), strict=True)
    return found, [[float(f"{end:.4g}") for end in both] for both in ends]


def _thousandths(values: NDArray[np.float64]) -> list[int | None]:
    return [None if math.isnan(v) else round(1000.0 * v) for v in values.tolist()]


MOST_ENTRIES = 40_000  # labels shown over all samples: keeps the file small
FEWEST_LABELS = 60  # of one sample


@dataclass(frozen=True, slots=True, eq=False)
class SampleChoice:
    """The rows that are shown, in their own order, and how they were chosen, in words."""

    rows: NDArray[np.intp]
    words: str


@dataclass(frozen=True, slots=True, eq=False)
class SampleView:
    """One sample: its labels in calling order, with what was decided and what is true.

    `block` numbers the sample's blocks in calling order. `n_hidden` labels come later in the
    order and are not shown; `n_hidden_true` of them are true, `n_hidden_called` are called.
    `place` is that of the label's word in `hierlpr.cutoff.sets.SET_WORDS`, 0 if nothing is known.
    `reaches` tells whether the label's own LPR is at or above its level, `reason` the place of the
    sentence about it in `hierlpr.cutoff.decisions.REASONS`.
    """

    name: str
    n_true: int
    n_calls: int
    n_hits: int
    label: NDArray[np.intp]
    lpr: NDArray[np.float64]
    score: NDArray[np.float64]
    block: NDArray[np.intp]
    called: NDArray[np.bool_]
    truth: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    reaches: NDArray[np.bool_]
    reason: NDArray[np.intp]
    place: NDArray[np.int8]
    n_hidden: int
    n_hidden_true: int
    n_hidden_called: int


def choose_samples(tally: Tally, most: int, rng: Any = 0) -> SampleChoice:
    """Take all samples, or those with most wrong calls, most misses, and some at random.

    Examples that went wrong teach most, but alone they would give a false picture; so a third of
    the places goes to each kind, and the words say so.
    """
    n = tally.study.n_samples
    if n <= most:
        words = "The only sample is shown." if n == 1 else f"All {n:,} samples are shown."
        return SampleChoice(np.arange(n), words)
    if most == 0:
        return SampleChoice(np.arange(0), f"None of the {n:,} samples is shown one by one.")
    third = most // 3 if tally.study.has_truth else 0
    wrong = _worst(tally.judged - tally.hits, third)
    lacking = tally.true - tally.hits
    missed = _worst(np.where(np.isin(np.arange(n), wrong), 0, lacking), third)
    taken = np.union1d(wrong, missed)
    rest = np.setdiff1d(np.arange(n), taken)
    n_random = min(most - taken.size, rest.size)
    drawn = np.random.default_rng(rng).choice(rest, n_random, replace=False)
    parts = [
        (wrong.size, "with the most wrong calls"),
        (missed.size, "with the most missed labels"),
        (n_random, "drawn at random" + (" from the others" if taken.size else "")),
    ]
    listed = [f"{count:,} {words}" for count, words in parts if count]
    joined = ", ".join(listed[:-1]) + (" and " if len(listed) > 1 else "") + listed[-1]
    return SampleChoice(
        np.sort(np.concatenate([taken, drawn])), f"{most:,} of {n:,} samples are shown: {joined}."
    )


class KeptViews:
    """Views of samples that may be shown, kept as they go by: to look again takes as long.

    Which samples are shown is known at the end. Those that `choose_samples` would choose so far,
    but for what it draws at random, are kept: whatever it chooses for its counts in the end was
    among the first by these counts when it came.

    Parameters
    ----------
    study : Study
    most : int
        How many samples will be shown, if there are as many.
    """

    def __init__(self, study: Study, most: int) -> None:
        self._study, self._most = study, most
        self._room = max(FEWEST_LABELS, MOST_ENTRIES // max(1, min(most, study.n_samples)))
        self._kept: dict[int, SampleView] = {}

    def add(self, part: Evidence, tally: Tally) -> None:
        """Look at the samples of a run that may be shown, given the counts so far."""
        may = self._may_be_shown(tally)
        at = np.flatnonzero(np.isin(part.rows, may))
        self._kept = {row: self._kept[row] for row in may.tolist() if row in self._kept}
        for some in self._steps(at):
            self._look(part.some(some))

    def of(self, rows: NDArray[np.intp]) -> tuple[SampleView, ...]:
        """Return views of samples; those that were not kept are looked at."""
        new = np.array([row for row in rows.tolist() if row not in self._kept], dtype=np.intp)
        for some in self._steps(new):
            self._look(self._study.take(some))
        return tuple(self._kept[row] for row in rows.tolist())

    def _look(self, part: Evidence) -> None:
        views = _views(self._study, part, self._room)
        self._kept |= zip(part.rows.tolist(), views, strict=True)

    def _steps(self, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Part rows into some whose labels are few enough to be held for all."""
        step = max(1, PART // self._study.hierarchy.n_labels)
        return (rows[start : start + step] for start in range(0, rows.size, step))

    def _may_be_shown(self, tally: Tally) -> NDArray[np.intp]:
        if self._study.n_samples <= self._most:
            return np.arange(self._study.n_samples)
        third = self._most // 3 if self._study.has_truth else 0
        wrong = _worst(tally.judged - tally.hits, third)
        # As many as have the most wrong calls are passed over when misses are counted.
        return np.union1d(wrong, _worst(tally.true - tally.hits, 2 * third))


def _views(study: Study, part: Evidence, room: int) -> Iterator[SampleView]:
    """Look at some samples, whose labels are few enough to be held for all."""
    lpr, truth, called, judged, score = map(
        dense, (part.lpr, part.truth, part.called, part.judged, part.block_score)
    )
    unknown = np.zeros_like(called) if part.unknown is None else dense(part.unknown)
    place = np.zeros(called.shape, dtype=np.int8)
    if part.sets is not None:
        for some in (part.sets.sure, part.sets.possible):
            place += dense(some)
    listed = _upper_part(part, called | truth, score, room)
    ranking = rank(Table(listed, study.hierarchy.labels), study.hierarchy)
    for i, ranked in enumerate(ranked_labels(ranking, part.rows.size)):
        label = ranked.label
        # What was called or is true first; both sets are closed upward, and so is any beginning.
        wanted = called[i, label] | truth[i, label]
        kept = np.zeros(label.size, dtype=bool)
        kept[np.argsort(~wanted, kind="stable")[:room]] = True
        at = np.flatnonzero(kept)
        shown, block = label[at], ranked.block[at]
        level = study.level[shown]
        known = (lpr[i, shown], ranked.score[at], block, called[i, shown], level)
        yield SampleView(
            name=study.samples[part.rows[i]],
            n_true=int(truth[i].sum()),
            n_calls=int(judged[i].sum()),
            n_hits=int((truth[i] & called[i]).sum()),
            label=shown,
            lpr=lpr[i, shown],
            score=ranked.score[at],
            block=block,
            called=called[i, shown],
            truth=truth[i, shown],
            unknown=unknown[i, shown],
            reaches=lpr[i, shown] >= level,
            reason=reason_codes(*known),
            place=place[i, shown],
            n_hidden=study.hierarchy.n_labels - shown.size,
            n_hidden_true=int(truth[i].sum() - truth[i, shown].sum()),
            n_hidden_called=int(called[i].sum() - called[i, shown].sum()),
        )


def _upper_part(part: Evidence, wanted: Any, score: Any, room: int) -> Any:
    """LPRs of the labels of each sample that may be shown: those of its highest block scores.

    Whatever has at least some block score is closed upward, and its blocks and their order are
    the same without the rest.
    """
    if not isinstance(part.lpr, np.ndarray):
        return part.lpr
    kept = np.ones(score.shape, dtype=bool)
    for i, (own, want) in enumerate(zip(score, wanted, strict=True)):
        n_wanted = int(np.count_nonzero(want))
        if own.size <= room:
            continue
        # So many wanted ones, or all of them and others up to the room.
        least = np.inf
        if n_wanted:
            least = -np.partition(-own[want], min(room, n_wanted) - 1)[min(room, n_wanted) - 1]
        if n_wanted < room:
            least = min(least, -np.partition(-own, room - 1)[room - 1])
        kept[i] = own >= least
    row, column = np.nonzero(kept)
    ptr = np.append(0, np.cumsum(np.count_nonzero(kept, axis=1)))
    return sparse.csr_array((part.lpr[row, column], column, ptr), shape=score.shape)


def _worst(count: NDArray[Any], most: int) -> NDArray[np.intp]:
    """Rows with the largest counts, at most so many and none with 0; earlier rows first."""
    order = np.argsort(-count, kind="stable")[:most]
    return order[count[order] > 0]
