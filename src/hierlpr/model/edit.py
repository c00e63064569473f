"""Add, remove and replace labels of a fitted model; the curves of all others stay bit-identical."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hierlpr._base.checks import listed
from hierlpr.data.listing import Kind, as_kind, kind_of
from hierlpr.data.partial_truth import align_known
from hierlpr.data.tables import align, align_labels, match_rows
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import fit_known
from hierlpr.lpr import LPRModel, fit_listed

__all__ = ["added", "removed", "replaced"]


def added(
    hierarchy: Hierarchy,
    lpr: LPRModel,
    edges: Iterable[tuple[str, str]],
    scores: Any,
    truth: Any,
    *,
    labels: Iterable[str] | None,
    kind: Kind | None,
    method: Any,
    n_threads: int | None,
) -> tuple[Hierarchy, LPRModel]:
    """Join new labels to the hierarchy and their curves to the model."""
    pairs = list(edges)
    named = None if labels is None else list(labels)
    wanted = [name for pair in pairs for name in pair] if named is None else named
    new = [name for name in dict.fromkeys(wanted) if name not in hierarchy]
    if named is not None and len(new) != len(named):
        known = [name for name in named if name in hierarchy]
        raise DataError(
            f"add_labels: already in the model or named twice: {listed(known or named)}."
        )
    if not new:
        raise DataError(
            "add_labels: no new label.\n"
            "Hint: name them in edges (parent, child) or, standing alone, in labels=[...]."
        )
    grown = Hierarchy(
        [*hierarchy.edges, *pairs], labels=[*hierarchy.labels, *new], names=hierarchy.names
    )
    if grown.n_labels != hierarchy.n_labels + len(new):
        strays = [name for name in grown.labels[hierarchy.n_labels :] if name not in set(new)]
        raise DataError(f"add_labels: edges name labels that are not in labels=: {listed(strays)}.")
    fitted = _fit(grown, new, scores, truth, kind=kind, method=method, n_threads=n_threads)
    return grown, LPRModel.join([lpr, fitted])


def removed(
    hierarchy: Hierarchy, lpr: LPRModel, labels: Iterable[str]
) -> tuple[Hierarchy, LPRModel]:
    """Drop labels; edges pass through them."""
    gone = _known(hierarchy, labels, name="remove_labels")
    kept = [label for label in hierarchy.labels if label not in set(gone)]
    if not kept:
        raise DataError("remove_labels: no label would be left.")
    return hierarchy.subset(kept), lpr.select([hierarchy.index(label) for label in kept])


def replaced(
    hierarchy: Hierarchy,
    lpr: LPRModel,
    labels: Iterable[str],
    scores: Any,
    truth: Any,
    *,
    kind: Kind | None,
    method: Any,
    n_threads: int | None,
) -> LPRModel:
    """Fit the curves of `labels` anew on their own scores and truth."""
    named = _known(hierarchy, labels, name="replace")
    fitted = _fit(hierarchy, named, scores, truth, kind=kind, method=method, n_threads=n_threads)
    place = list(range(hierarchy.n_labels))
    for i, label in enumerate(named):
        place[hierarchy.index(label)] = hierarchy.n_labels + i
    return LPRModel.join([lpr, fitted]).select(place)


def _known(hierarchy: Hierarchy, labels: Iterable[str], *, name: str) -> list[str]:
    named = [labels] if isinstance(labels, str) else list(labels)
    unknown = [label for label in named if label not in hierarchy]
    if unknown:
        raise DataError(f"{name}: unknown label(s): {listed(unknown)}.")
    if len(set(named)) != len(named) or not named:
        raise DataError(f"{name}: name each label once, and at least one.")
    return named


def _fit(
    hierarchy: Hierarchy,
    labels: Sequence[str],
    scores: Any,
    truth: Any,
    *,
    kind: Kind | None,
    method: Any,
    n_threads: int | None,
) -> LPRModel:
    """Fit curves for `labels` alone; only edges among them can be checked in the truth."""
    part = hierarchy.subset(labels)
    table = align(scores, part, name="scores")
    if kind is not None:
        table = as_kind(table, kind)
    known = match_rows(align_labels(truth, part, name="truth"), table)
    held = align_known(table.values, known, part)
    if kind_of(table) == "listed":
        return fit_listed(table.values, held, part, method=method, n_threads=n_threads)[0]
    return fit_known(table.values, held, part, method=method, n_threads=n_threads)
