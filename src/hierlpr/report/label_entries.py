"""One entry per label: place in the drawing, support, quality, curve, calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.hierarchy import Hierarchy
from hierlpr.plots.evidence import Evidence

CURVE_POINTS = 25
MOST_CURVES = 6_000  # beyond so many labels only the best supported ones get a thumbnail


@dataclass(frozen=True, slots=True, eq=False)
class LabelFacts:
    """One entry per label in every field but `title`, in the order of ``hierarchy.labels``.

    Attributes
    ----------
    title : dict
        Names for people, by place, where labels have one.
    parent : int
        The first parent, under which the label is drawn; -1 for a root.
    other_parents : tuple of int
        The other parents of a label with several.
    support : int
        Positives among the samples of the fit.
    auc : float
        Of the label's classifier on the samples of the fit, NaN without both classes.
    share : float
        Share of the parent's positives that have the label (of all samples, for a root), in the
        fit; NaN if there are none.
    positives, calls, hits : int
        On the samples of the report; `hits` are calls that are right.
    curve : tuple of int, or None
        LPR in percent at evenly spaced scores from the lowest to the highest of the fit.
    score_range : (float, float)
        Those two scores.
    note : str
        How the curve was made if not from the label's own samples alone; else empty.
    """

    name: tuple[str, ...]
    title: dict[int, str]
    parent: NDArray[np.intp]
    other_parents: tuple[tuple[int, ...], ...]
    support: NDArray[np.int64]
    auc: NDArray[np.float64]
    share: NDArray[np.float64]
    positives: NDArray[np.int64]
    calls: NDArray[np.int64]
    hits: NDArray[np.int64]
    curve: tuple[tuple[int, ...] | None, ...]
    score_range: tuple[tuple[float, float], ...]
    note: tuple[str, ...]
    n_fit: int


def label_facts(evidence: Evidence) -> LabelFacts:
    """Gather what is known of every label."""
    e, h = evidence, evidence.hierarchy
    report = e.curves.report
    parent, other_parents = parents_of(h)
    n_fit = int((report.positives + report.negatives).max(initial=0))
    whole = np.where(parent >= 0, report.positives[parent], n_fit)
    share = np.full(h.n_labels, np.nan)
    np.divide(report.positives, whole, out=share, where=whole > 0)
    curves, ranges = _curves(e)
    return LabelFacts(
        name=h.labels,
        title={k: h.name(x) for k, x in enumerate(h.labels) if h.name(x) != x},
        parent=parent,
        other_parents=other_parents,
        support=report.positives,
        auc=report.auc,
        share=share,
        positives=_column_sums(e.truth),
        calls=_column_sums(e.judged),
        hits=_column_sums(_both(e.called, e.truth)),
        curve=curves,
        score_range=ranges,
        note=tuple(str(text) for text in report.fallback),
        n_fit=n_fit,
    )


def parents_of(h: Hierarchy) -> tuple[NDArray[np.intp], tuple[tuple[int, ...], ...]]:
    """First parent of every label (-1 for a root), and the other ones, by column."""
    parents = [
        h.order[h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]].tolist() for k in h.position
    ]
    first = np.array([above[0] if above else -1 for above in parents], dtype=np.intp)
    return first, tuple(tuple(above[1:]) for above in parents)


def _curves(
    e: Evidence,
) -> tuple[tuple[tuple[int, ...] | None, ...], tuple[tuple[float, float], ...]]:
    curves = e.curves.curves
    by_support = np.argsort(-e.curves.report.positives, kind="stable")
    drawn = np.zeros(curves.n_labels, dtype=bool)
    drawn[by_support[:MOST_CURVES]] = True
    found: list[tuple[int, ...] | None] = []
    ranges = []
    for label in range(curves.n_labels):
        score, lpr = curves.curve(label)
        ranges.append((float(score[0]), float(score[-1])))
        if not drawn[label]:
            found.append(None)
            continue
        grid = np.linspace(score[0], score[-1], CURVE_POINTS)
        found.append(tuple(np.rint(100.0 * np.interp(grid, score, lpr)).astype(int).tolist()))
    return tuple(found), tuple(ranges)


def _both(a: Any, b: Any) -> Any:
    return a & b if isinstance(a, np.ndarray) else a.multiply(b)


def _column_sums(matrix: Any) -> NDArray[np.int64]:
    return np.asarray(matrix.sum(axis=0)).ravel().astype(np.int64)
