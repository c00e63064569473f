"""Explain why each label of one sample is called or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import quote_names
from hierlpr._utils.display import escape_control, html_card
from hierlpr.cutoff.decisions import (
    decide,
    fill,
    label_levels,
    likely_labels,
    parts_of,
    reason_codes,
)
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import own_lpr
from hierlpr.ranking.order import rank

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

N_SHOWN = 10  # labels that are not called, in the text


class ExplainedLabel(NamedTuple):
    """A label of one sample, and why it is called or not.

    `score` is the given one, NaN where there is none. `own_lpr` is P(label | its own score), NaN if
    the label is only implied by a descendant; `lpr` is what it was ranked by, which may use all
    scores of the sample. The labels of a `block` are called together or not at all: their mean LPR,
    `block_score`, is compared with `cutoff`.
    """

    label: str
    name: str
    score: float
    own_lpr: float
    lpr: float
    block: int
    block_score: float
    cutoff: float
    called: bool
    reason: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """Why each label of one sample is called or not.

    Attributes
    ----------
    sample : str
        Name of the sample; its number if it has none.
    hierarchy, cutoff : Hierarchy, Cutoff
    labels : tuple of ExplainedLabel
        In calling order. Labels of the hierarchy that are not among them are never called.
    """

    sample: str
    hierarchy: Hierarchy
    cutoff: Cutoff
    labels: tuple[ExplainedLabel, ...]

    def why(self, label: str) -> str:
        """Return the reason for one label."""
        self.hierarchy.index(label)  # raises for an unknown label
        reasons = {row.label: row.reason for row in self.labels}
        absent = "Not called: neither it nor a descendant has a score in this sample."
        return reasons.get(label, absent)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with one row per label, in calling order."""
        names = ExplainedLabel._fields
        return new_frame({k: [row[i] for row in self.labels] for i, k in enumerate(names)}, backend)

    def _summary(self) -> tuple[str, list[tuple[str, ExplainedLabel]], list[str]]:
        """Return a headline, all calls and the first other labels, and notes on the rest."""
        called, others = ([x for x in self.labels if x.called == is_called] for is_called in (1, 0))
        n, n_left = self.hierarchy.n_labels, len(others[N_SHOWN:])
        headline = escape_control(f"Sample {self.sample}: {len(called):,} of {n:,} labels called.")
        notes = [f"{n_left:,} more labels are not called."] if n_left else []
        if n_unlisted := n - len(self.labels):
            notes.append(f"{n_unlisted:,} labels have no score here and are never called.")
        shown = [(self.hierarchy.caption(x.label), x) for x in (*called, *others[:N_SHOWN])]
        return headline, shown, [" ".join(notes)] if notes else []

    def __str__(self) -> str:
        """Return the calls and the first other labels as text."""
        headline, shown, notes = self._summary()
        rows = [
            f"{'+' if x.called else '-'} {escape_control(f'{n}: {x.reason}')}" for n, x in shown
        ]
        return "\n".join([headline, str(self.cutoff), "", *rows, *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the text of `__str__` as HTML for a notebook."""
        headline, shown, notes = self._summary()
        cells = [(name, x.lpr, x.block_score, x.called, x.reason) for name, x in shown]
        head = ("label", "LPR", "block score", "called", "why")
        return html_card(headline, "\n".join([str(self.cutoff), *notes]), head, cells)


def explain_sample(model: HierLPR, table: Table, sample: int | str) -> Explanation:
    """Explain one row of a table of scores."""
    row = _row_of(table, sample)
    one, h, cutoff = table.rows(np.array([row])), model.hierarchy_, model.cutoff_
    lprs, is_likely = model.lprs(one), None
    ranking = rank(lprs, h, n_jobs=model.n_jobs)
    at, lpr, block_score = ranking.label.astype(np.intp), ranking.lpr, ranking.score
    block, level = np.cumsum(ranking.first) - 1, label_levels(cutoff, h)[at]
    single = own_lpr(model.lpr_, one.values, n_jobs=model.n_jobs)
    calls = decide(model.block_scores(one, lprs), cutoff, h, lprs.values)
    score, single, calls = (_dense_row(x, h.n_labels)[at] for x in (one.values, single, calls))
    called = calls == 1.0
    if cutoff.min_chance is not None:
        is_likely = likely_labels(lprs.values, h, cutoff.min_chance).toarray()[0, at]
    codes = reason_codes(block_score, block, called, level, is_likely)
    parts, group = parts_of(cutoff, h.n_labels)
    labels = [h.labels[k] for k in at]
    captioned = list(zip(map(h.caption, labels), lpr.tolist(), strict=True))
    reasons = [
        fill(
            int(codes[k]),
            lpr=lpr[k],
            score=block_score[k],
            level=level[k],
            others=[captioned[i] for i in np.flatnonzero(block == block[k]) if i != k],
            most=parts[group[at[k]]].max_calls,
        )
        for k in range(at.size)
    ]
    numbers = (x.tolist() for x in (score, single, lpr, block, block_score, level, called))
    columns = labels, map(h.name, labels), *numbers, reasons
    name = str(row) if table.samples is None else table.samples[row]
    entries = map(ExplainedLabel._make, zip(*columns, strict=True))
    return Explanation(name, h, cutoff, tuple(entries))


def _row_of(table: Table, sample: int | str) -> int:
    if isinstance(sample, str):
        names = table.samples or ()
        if (count := names.count(sample)) == 1:
            return names.index(sample)
        if count:
            raise DataError(f"{count:,} samples have the name {sample!r}; give a row number.")
        text = f"the samples are {quote_names(names)}" if names else "the scores name no samples"
        raise DataError(
            f"There is no sample {sample!r}: {text}.\nHint: a number is taken as the row."
        )
    if isinstance(sample, bool) or not isinstance(sample, int | np.integer):
        raise DataError(f"sample must be a row number or a name, got {sample!r}.")
    if not -table.n_samples <= sample < table.n_samples:
        raise DataError(f"sample {sample} is out of range: there are {table.n_samples:,} samples.")
    return int(sample) % table.n_samples


def _dense_row(matrix: Any, n_labels: int) -> NDArray[np.float64]:
    """Return the only row of a matrix, NaN where a sparse one stores nothing."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix[0], dtype=np.float64)
    row = np.full(n_labels, np.nan)
    row[matrix.indices] = matrix.data
    return row
