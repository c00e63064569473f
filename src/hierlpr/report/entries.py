"""Data of a page: its labels, the samples that are shown, and one trusted name per sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.cutoff.decisions import likely_labels, reason_codes
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.data.tables import Table, dense
from hierlpr.hierarchy import Hierarchy
from hierlpr.model import HierLPR
from hierlpr.plots.names import NamesDisplay
from hierlpr.plots.summary import Counts, ModelOutput
from hierlpr.ranking.order import rank
from hierlpr.report.names import (
    NamedSamples,
    RankRow,
    compare_ranks,
    name_by_threshold,
    promise_of,
    usual_threshold,
)

CROSS_NAMED = " Below, each sample is named after calibrating on nine tenths of the others."
CURVE_POINTS = 25
MOST_CURVES = 6_000  # with more labels, only the best supported ones get a drawing
MOST_ENTRIES = 40_000  # labels over all samples shown: keeps the file small
FEWEST_LABELS = 60  # shown of one sample
CELLS = 1 << 21  # of dense matrices in memory


def label_entries(counts: Counts) -> dict[str, Any]:
    """Return the data of the label table, as the page's script reads it.

    ``labels`` has one column each for: its code, name (``title``) and parents; positives in the fit
    (``support``) and ``auc`` of the label's classifier there; the ``share`` of its parent's
    positives, or for a root of all samples, that have it; ``positives``, ``calls`` and ``hits`` on
    the samples of the report; its ``curve``, LPRs in percent at evenly spaced scores over the
    ``range`` of the fit, and the ``shared`` part of it; and the number of a ``note`` on how it was
    fitted, among the ``notes``. Shares are in thousandths, None where they are not defined.
    ``nFit`` is the number of samples of the fit.
    """
    model, h = counts.output.model, counts.output.hierarchy
    report = model.lpr_.report
    parent, others = _parents_of(h)
    n_fit = int((report.positives + report.negatives).max(initial=0))
    whole = np.where(parent >= 0, report.positives[parent], n_fit)
    share = np.full(h.n_labels, np.nan)
    np.divide(report.positives, whole, out=share, where=whole > 0)
    curves, ranges = _curves(model)
    # How much is shared has a column of its own; other notes are listed once.
    is_shared = (report.shared_weight > 0.5) & (report.estimator != "none")
    fallback = np.where(is_shared, "", report.fallback).tolist()
    number = {note: i for i, note in enumerate(dict.fromkeys(fallback))}
    columns = {
        "name": h.labels,
        "title": {str(k): h.name(x) for k, x in enumerate(h.labels) if h.name(x) != x},
        "parent": parent.tolist(),
        "others": {str(k): also for k, also in enumerate(others) if also},
        "support": report.positives.tolist(),
        "auc": _thousandths(report.auc),
        "share": _thousandths(share),
        **{name: counts.by_label[name].tolist() for name in ("positives", "calls", "hits")},
        "curve": curves,
        "range": ranges,
        "shared": _thousandths(report.shared_weight),
        "note": [number[text] for text in fallback],
    }
    return {"nFit": n_fit, "labels": columns, "notes": list(number)}


def _parents_of(h: Hierarchy) -> tuple[NDArray[np.intp], tuple[tuple[int, ...], ...]]:
    """Return the first parent of every label (-1 for a root), and the other ones, by column."""
    above = h.order[h.parent_idx].tolist()  # slicing lists is faster than slicing arrays
    bounds = zip(*(h.parent_ptr[h.position + i].tolist() for i in range(2)), strict=True)
    parents = [above[start:stop] for start, stop in bounds]
    first = np.array([above[0] if above else -1 for above in parents], dtype=np.intp)
    return first, tuple(tuple(above[1:]) for above in parents)


def _curves(model: HierLPR) -> tuple[list[list[int] | None], list[list[float]]]:
    curves = model.lpr_.curves
    by_support = np.argsort(-model.lpr_.report.positives, kind="stable")
    drawn: list[list[int] | None] = [None] * curves.n_labels
    for label in by_support[:MOST_CURVES].tolist():
        score, lpr = curves.curve(label)
        grid = np.linspace(score[0], score[-1], CURVE_POINTS)
        drawn[label] = np.rint(100.0 * np.interp(grid, score, lpr)).astype(int).tolist()
    ptr, score = curves.knot_ptr, curves.knot_score
    ends = zip(score[ptr[:-1]].tolist(), score[ptr[1:] - 1].tolist(), strict=True)
    return drawn, [[float(f"{end:.4g}") for end in both] for both in ends]


def _thousandths(values: NDArray[np.float64]) -> list[int | None]:
    return [None if math.isnan(v) else round(1000.0 * v) for v in values.tolist()]


def choose_samples(counts: Counts, most: int) -> tuple[NDArray[np.intp], str]:
    """Choose all samples, or those with most incorrect calls, most misses, and some at random.

    Samples with errors are the most instructive, but alone they would give a false picture; so each
    kind gets a third of the places, and the text that is returned with the rows says so.
    """
    n = counts.output.n_samples
    if n <= most:
        text = "The only sample is shown." if n == 1 else f"All {n:,} samples are shown."
        return np.arange(n), text
    if most == 0:
        return np.arange(0), f"None of the {n:,} samples is shown on its own."
    third = most // 3 if counts.output.has_truth else 0
    wrong = _worst(counts.evaluated - counts.hits, third)
    n_missed = counts.positives - counts.hits
    n_missed[wrong] = 0
    missed = _worst(n_missed, third)
    taken = np.union1d(wrong, missed)
    rest = np.setdiff1d(np.arange(n), taken)
    n_random = min(most - taken.size, rest.size)
    drawn = np.random.default_rng(0).choice(rest, n_random, replace=False)
    parts = [
        (wrong.size, "with the most incorrect calls"),
        (missed.size, "with the most missed labels"),
        (n_random, "drawn at random" + (" from the others" if taken.size else "")),
    ]
    kinds = [f"{count:,} {kind}" for count, kind in parts if count]
    joined = ", ".join(kinds[:-1]) + (" and " if len(kinds) > 1 else "") + kinds[-1]
    rows = np.sort(np.concatenate([taken, drawn]))
    return rows, f"{most:,} of {n:,} samples are shown: {joined}."


def _worst(count: NDArray[Any], most: int) -> NDArray[np.intp]:
    """Return the rows with the largest counts, without 0; earlier rows first."""
    order = np.argsort(-count, kind="stable")[:most]
    return order[count[order] > 0]


def sample_entries(output: ModelOutput, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Return the data of some samples, as the page's script reads it.

    ``entries`` has five numbers for each label, in calling order: label, LPR and block score in
    ten-thousandths, number of its block, and flags (called, true, its own LPR reaches the cutoff,
    unknown; then the indices into `SET_WORDS` and `REASONS`). ``hidden`` counts the labels that are
    left out so that the page stays small, and the true and the called ones among them.
    """
    most = max(FEWEST_LABELS, MOST_ENTRIES // max(1, rows.size))
    step = max(1, CELLS // output.hierarchy.n_labels)
    parts = (rows[start : start + step] for start in range(0, rows.size, step))
    return [entry for part in parts for entry in _entries(output, part, most)]


def _entries(output: ModelOutput, rows: NDArray[np.intp], most: int) -> Iterator[dict[str, Any]]:
    matrices = output.lpr, output.truth, output.called, output.unknown, output.implied
    lpr, truth, called, not_annotated, implied = (dense(x[rows]) for x in matrices)
    evaluated = called & ~not_annotated
    truth, unknown = truth | implied, not_annotated & ~implied
    flags = called + 2 * truth + 4 * (lpr >= output.level) + 8 * unknown
    if output.sets is not None:
        for members in (output.sets.sure, output.sets.possible):
            flags += 16 * dense(members[rows])
    h, least, is_likely = output.hierarchy, output.model.cutoff_.min_chance, None
    if least is not None:
        is_likely = likely_labels(lpr, h, least).toarray()
    ranking = rank(Table(output.lpr[rows], h.labels), h)
    by_sample = np.argsort(ranking.sample, kind="stable")
    bounds = np.searchsorted(ranking.sample[by_sample], np.arange(1, rows.size))
    for i, ranked in enumerate(np.split(by_sample, bounds)):
        label, block = ranking.label[ranked], np.cumsum(ranking.first[ranked]) - 1
        # Called and true labels first: both sets are closed upward, and so is every prefix.
        wanted = called[i, label] | truth[i, label]
        at = np.sort(np.argsort(~wanted, kind="stable")[:most])
        shown, score, block = label[at], ranking.score[ranked[at]], block[at]
        likely = None if is_likely is None else is_likely[i, shown]
        reason = reason_codes(score, block, called[i, shown], output.level[shown], likely)
        chances = np.rint(1e4 * lpr[i, shown]), np.rint(1e4 * score)
        entries = np.stack([shown, *chances, block, flags[i, shown] + 64 * reason], axis=1)
        n_hidden = (int(x[i].sum() - x[i, shown].sum()) for x in (truth, called))
        yield {
            "name": output.samples[rows[i]],
            "true": int(truth[i].sum()),
            "calls": int(evaluated[i].sum()),
            "hits": int((truth[i] & called[i]).sum()),
            "hidden": [h.n_labels - shown.size, *n_hidden],
            "entries": entries.astype(int).ravel().tolist(),
        }


# -- one name per sample -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names of the samples of a report, and what is promised of them.

    `wrong` and `usual_wrong` are the shares of samples with a wrong name, None without truth.
    `called` has the names and their ancestors as a matrix like `ModelOutput.called`.
    `stopped` are samples that stop high: the name, and the most likely name below with its chance.
    """

    n_named: int
    promise: str
    error: float | None
    wrong: float | None
    usual: float
    usual_wrong: float | None
    rows: tuple[RankRow, ...]
    stopped: tuple[dict[str, Any], ...]
    display: NamesDisplay
    called: Any

    @property
    def is_certifying(self) -> bool:
        """Whether every rank has a target precision."""
        return any(row.is_certified is not None for row in self.rows)


def names_of(
    output: ModelOutput, most_stopped: int, named: tuple[Any, Any] | None = None
) -> Names | None:
    """Name the samples of a report, unless they are; None if the model is not for names."""
    model, h = output.model, output.hierarchy
    rule = model.sets_
    if model.path_style_ is None and (rule is None or not rule.one_path):
        return None
    table = Table(output.scores, h.labels)
    label, chance = named or model.name_samples(table, output.block_score)
    truth = output.truth if output.has_truth else None
    usual = usual_threshold(model)
    by_threshold = name_by_threshold(output.scores, h, usual)
    trusted, at_threshold = (NamedSamples(x, h, truth) for x in (label, by_threshold))
    row, column, _ = trusted.calls()
    shape = (label.size, h.n_labels)
    called = sparse.csr_array((np.ones(row.size, dtype=bool), (row, column)), shape=shape)
    return Names(
        n_named=int(np.count_nonzero(label >= 0)),
        promise=promise_of(model)[0] + (CROSS_NAMED if named else ""),
        error=None if rule is None else rule.error,
        wrong=trusted.wrong() if output.has_truth else None,
        usual=usual,
        usual_wrong=at_threshold.wrong() if output.has_truth else None,
        rows=compare_ranks(model, trusted, at_threshold),
        stopped=_stopped_highest(output, trusted, chance, most_stopped),
        display=NamesDisplay(h, model.rank_names(), label),
        called=called.toarray() if output.is_dense else called,
    )


def _stopped_highest(
    output: ModelOutput, trusted: NamedSamples, chance: NDArray[np.float64], most: int
) -> tuple[dict[str, Any], ...]:
    """Return the samples with the highest names; of equals first what almost has a deeper one."""
    h, ranks = output.hierarchy, output.model.rank_names()
    paths = likely_paths(output.block_score, h)
    depth = np.where(trusted.label >= 0, h.levels[trusted.label], 0)
    stops = []
    # The next label of each path: the first that lies deeper than the name.
    entry = np.flatnonzero(h.levels[paths.label] > depth[paths.sample])[::-1]
    following = np.full(depth.size, -1, dtype=np.intp)
    following[paths.sample[entry]] = entry
    next_chance = np.where(following >= 0, np.append(paths.chance, 0.0)[following], 0.0)
    for row in np.lexsort((-next_chance, depth))[:most].tolist():
        at, below = int(trusted.label[row]), int(following[row])
        stops.append({
            "sample": output.samples[row],
            "name": h.name(h.labels[at]) if at >= 0 else "",
            "rank": ranks[at] if at >= 0 else "",
            "chance": float(chance[row]) if at >= 0 else 0.0,
            "below": h.name(h.labels[paths.label[below]]) if below >= 0 else "",
            "below_chance": float(next_chance[row]) if below >= 0 else None,
        })  # fmt: skip
    return tuple(stops)
