"""Explain why each label of one sample is called or not."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import quote_names
from hierlpr._utils.display import escape_control, html_table
from hierlpr.cutoff.decisions import call_limits, decide, fill, label_levels, reason_codes
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import own_lpr
from hierlpr.ranking.order import Ranking

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

N_SHOWN = 10  # labels that are not called, in the text

Float = NDArray[np.float64]


class RankedLabels(NamedTuple):
    """The labels of one sample in calling order; `block` is the number of the block."""

    label: NDArray[np.intp]
    lpr: Float
    score: Float
    block: NDArray[np.intp]


def ranked_labels(ranking: Ranking, n_samples: int) -> list[RankedLabels]:
    """Split a ranking by sample."""
    block = np.cumsum(ranking.first) - 1
    by_sample = np.argsort(ranking.sample, kind="stable")
    bounds = np.searchsorted(ranking.sample[by_sample], np.arange(n_samples + 1))
    found = []
    for i in range(n_samples):
        at = by_sample[bounds[i] : bounds[i + 1]]
        own_block = np.unique(block[at], return_inverse=True)[1].astype(np.intp)
        label = ranking.label[at].astype(np.intp)
        found.append(RankedLabels(label, ranking.lpr[at], ranking.score[at], own_block))
    return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """Why each label of one sample is called or not; arrays are in calling order.

    Attributes
    ----------
    sample : str
        Name of the sample; its number if it has none.
    hierarchy, cutoff : Hierarchy, Cutoff
    label : tuple of str
    score : ndarray
        The given score; NaN where there is none.
    own_lpr : ndarray
        P(label | its own score); NaN for a label that is only implied by a descendant.
    lpr : ndarray
        The LPR the label was ranked by, which may use all scores of the sample.
    block_score : ndarray
        Mean LPR of its block, which is compared with the cutoff.
    block : ndarray of int
        Number of its block; labels of one block are called together or not at all.
    level : ndarray
        The cutoff of each label.
    called : ndarray of bool
    reason : tuple of str
        One sentence per label.
    n_unlisted : int
        Labels of the hierarchy that have no score here and are never called.
    """

    sample: str
    hierarchy: Hierarchy
    cutoff: Cutoff
    label: tuple[str, ...]
    score: Float
    own_lpr: Float
    lpr: Float
    block_score: Float
    block: NDArray[np.intp]
    level: Float
    called: NDArray[np.bool_]
    reason: tuple[str, ...]
    n_unlisted: int

    def why(self, label: str) -> str:
        """Return the reason for one label."""
        if label in self.label:
            return self.reason[self.label.index(label)]
        self.hierarchy.index(label)  # raises for an unknown label
        return "Not called: neither it nor a descendant has a score in this sample."

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with one row per label, in calling order."""
        columns = {
            "label": np.array(self.label, dtype=object),
            "name": np.array([self.hierarchy.name(x) for x in self.label], dtype=object),
            "score": self.score,
            "own_lpr": self.own_lpr,
            "lpr": self.lpr,
            "block": self.block,
            "block_score": self.block_score,
            "cutoff": self.level,
            "called": self.called,
            "reason": np.array(self.reason, dtype=object),
        }
        return new_frame(columns, backend)

    def _headline(self) -> str:
        n_calls, n = int(self.called.sum()), self.hierarchy.n_labels
        return escape_control(f"Sample {self.sample}: {n_calls:,} of {n:,} labels called.")

    def _shown(self) -> tuple[list[int], str]:
        """Return the places of all calls and of the first other labels, and a note on the rest."""
        called = np.flatnonzero(self.called).tolist()
        others = np.flatnonzero(~self.called).tolist()
        left = len(others[N_SHOWN:])
        notes = [f"{left:,} more labels are not called."] if left else []
        if self.n_unlisted:
            notes.append(f"{self.n_unlisted:,} labels have no score here and are never called.")
        return [*called, *others[:N_SHOWN]], " ".join(notes)

    def __str__(self) -> str:
        """Return the calls and the first other labels as text."""
        shown, rest = self._shown()
        lines = [self._headline(), str(self.cutoff), ""]
        for k in shown:
            sign, caption = "+" if self.called[k] else "-", self.hierarchy.caption(self.label[k])
            lines.append(f"{sign} {escape_control(caption)}: {escape_control(self.reason[k])}")
        return "\n".join([*lines, *([rest] if rest else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        shown, rest = self._shown()
        names = (self.hierarchy.caption(x) for x in self.label)
        columns = self.lpr.tolist(), self.block_score.tolist(), self.called.tolist(), self.reason
        every = list(zip(names, *columns, strict=True))
        table = html_table(
            ["label", "LPR", "block score", "called", "why"], [every[k] for k in shown]
        )
        head = f"<p><b>{escape(self._headline())}</b><br>{escape(str(self.cutoff))}</p>"
        return head + table + (f"<p>{escape(rest)}</p>" if rest else "")


def explain_sample(model: HierLPR, table: Table, sample: int | str) -> Explanation:
    """Explain one row of a table of scores."""
    row = _row_of(table, sample)
    one = table.rows(np.array([row]))
    h, cutoff = model.hierarchy_, model.cutoff_
    block_score = model.block_scores(one)
    called = _row(decide(block_score, cutoff, h), h.n_labels) == 1.0
    ranked = ranked_labels(model.rank(one), 1)[0]
    at = ranked.label
    given = _row(one.values, h.n_labels)
    own = _row(own_lpr(model.lpr_, one.values, n_threads=model.n_threads), h.n_labels)
    level = label_levels(cutoff, h)[at]
    codes = reason_codes(ranked.score, ranked.block, called[at], level)
    return Explanation(
        sample=table.samples[row] if table.samples is not None else str(row),
        hierarchy=h,
        cutoff=cutoff,
        label=tuple(h.labels[k] for k in at.tolist()),
        score=given[at],
        own_lpr=own[at],
        lpr=ranked.lpr,
        block_score=ranked.score,
        block=ranked.block,
        level=level,
        called=called[at],
        reason=_reasons(ranked, codes, level, h, cutoff),
        n_unlisted=h.n_labels - at.size,
    )


def _reasons(
    ranked: RankedLabels, codes: NDArray[np.intp], level: Float, h: Hierarchy, cutoff: Cutoff
) -> tuple[str, ...]:
    limits = call_limits(cutoff, h.n_labels)
    caption = [h.caption(h.labels[k]) for k in ranked.label.tolist()]
    members: dict[int, list[int]] = {}
    for k, block in enumerate(ranked.block.tolist()):
        members.setdefault(block, []).append(k)
    return tuple(
        fill(
            int(codes[k]),
            lpr=float(ranked.lpr[k]),
            score=float(ranked.score[k]),
            level=float(level[k]),
            others=[(caption[j], float(ranked.lpr[j])) for j in members[block] if j != k],
            most=limits[int(ranked.label[k])],
        )
        for k, block in enumerate(ranked.block.tolist())
    )


def _row_of(table: Table, sample: int | str) -> int:
    if isinstance(sample, str):
        names = table.samples or ()
        rows = [row for row, name in enumerate(names) if name == sample]
        if len(rows) == 1:
            return rows[0]
        if rows:
            raise DataError(f"{len(rows):,} samples have the name {sample!r}; give a row number.")
        known = f"the samples are {quote_names(names)}" if names else "the scores name no samples"
        raise DataError(
            f"There is no sample {sample!r}: {known}.\nHint: a number is taken as the row."
        )
    if isinstance(sample, bool) or not isinstance(sample, int | np.integer):
        raise DataError(f"sample must be a row number or a name, got {sample!r}.")
    if not -table.n_samples <= sample < table.n_samples:
        raise DataError(f"sample {sample} is out of range: there are {table.n_samples:,} samples.")
    return int(sample) % table.n_samples


def _row(matrix: Any, n_labels: int) -> Float:
    """Return the only row of a matrix, NaN where a sparse one stores nothing."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix[0], dtype=np.float64)
    row = np.full(n_labels, np.nan)
    row[matrix.indices] = matrix.data
    return row
