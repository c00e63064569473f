"""One sample explained: why each of its labels is called or not, and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr._base.showing import html_table, plain
from hierlpr.cutoff.by_group import label_levels
from hierlpr.cutoff.decisions import call_limits, decide, fill, reason_codes
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import own_lpr
from hierlpr.ranking.order import Ranking

if TYPE_CHECKING:
    from hierlpr.model.fitted import FittedModel

SHOWN = 10  # labels that are not called, in the text

Float = NDArray[np.float64]


class RankedLabels(NamedTuple):
    """The ranked labels of one sample in calling order; `block` numbers its blocks."""

    label: NDArray[np.intp]
    lpr: Float
    score: Float
    block: NDArray[np.intp]


def ranked_labels(ranking: Ranking, n_samples: int) -> list[RankedLabels]:
    """Take a ranking apart into its samples."""
    block = np.cumsum(ranking.first) - 1
    by_sample = np.argsort(ranking.sample, kind="stable")
    bounds = np.searchsorted(ranking.sample[by_sample], np.arange(n_samples + 1))
    found = []
    for i in range(n_samples):
        places = by_sample[bounds[i] : bounds[i + 1]]
        own_blocks = np.unique(block[places], return_inverse=True)[1]
        found.append(
            RankedLabels(
                ranking.label[places].astype(np.intp),
                ranking.lpr[places],
                ranking.score[places],
                own_blocks.astype(np.intp),
            )
        )
    return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """Why each label of one sample is called or not; arrays follow the calling order.

    Attributes
    ----------
    sample : str
        Name of the sample, or its number.
    row : int
        Its row in the scores.
    hierarchy : Hierarchy
    cutoff : Cutoff
    label : tuple of str
    score : ndarray
        The score that was given; NaN where there is none.
    own_lpr : ndarray
        P(label | its own score); NaN for a label that only one below it implies.
    lpr : ndarray
        What the label was ranked by, which may use all scores of the sample.
    block_score : ndarray
        Mean LPR of its block, which the cutoff is held against.
    block : ndarray of int
        Number of its block: labels with the same number are called together or not at all.
    level : ndarray
        The cutoff of each label.
    called : ndarray of bool
    reason : tuple of str
        One sentence a label.
    n_unlisted : int
        Labels of the hierarchy that have no score here, so that they are never called.
    """

    sample: str
    row: int
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
        """Return the sentence about one label."""
        if label in self.label:
            return self.reason[self.label.index(label)]
        self.hierarchy.index(label)  # which knows the nearest label to an unknown one
        return "Not called: it has no score in this sample, and no label below it has one."

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with a row for each label, in calling order."""
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
        return f"Sample {self.sample}: {n_calls:,} of {n:,} labels called."

    def _shown(self) -> tuple[list[int], str]:
        """Return the places of all calls and of the first labels without, and the rest in words."""
        called = np.flatnonzero(self.called).tolist()
        others = np.flatnonzero(~self.called).tolist()
        left = len(others[SHOWN:])
        words = [f"{left:,} more labels are not called."] if left else []
        if self.n_unlisted:
            words.append(f"{self.n_unlisted:,} labels have no score here and are never called.")
        return [*called, *others[:SHOWN]], " ".join(words)

    def __str__(self) -> str:
        """Say it in words: the calls, then the first labels that are not called."""
        shown, rest = self._shown()
        lines = [plain(self._headline()), str(self.cutoff), ""]
        for k in shown:
            mark = "+" if self.called[k] else "-"
            caption = plain(self.hierarchy.caption(self.label[k]))
            lines.append(f"{mark} {caption}: {plain(self.reason[k])}")
        return "\n".join([*lines, *([rest] if rest else [])])

    def __repr__(self) -> str:
        return f"<Explanation: {plain(self._headline())}>\n{self}"

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        shown, rest = self._shown()
        rows = [
            (
                self.hierarchy.caption(self.label[k]),
                float(self.lpr[k]),
                float(self.block_score[k]),
                bool(self.called[k]),
                self.reason[k],
            )
            for k in shown
        ]
        table = html_table(["label", "LPR", "block score", "called", "why"], rows)
        head = f"<p><b>{escape(plain(self._headline()))}</b><br>{escape(str(self.cutoff))}</p>"
        return head + table + (f"<p>{escape(rest)}</p>" if rest else "")


def explain_sample(model: FittedModel, table: Table, sample: int | str) -> Explanation:
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
    codes = reason_codes(ranked.lpr, ranked.score, ranked.block, called[at], level)
    return Explanation(
        sample=table.samples[row] if table.samples is not None else str(row),
        row=row,
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
        reason=_sentences(ranked, codes, level, h, cutoff),
        n_unlisted=h.n_labels - at.size,
    )


def _sentences(
    ranked: RankedLabels, codes: NDArray[np.intp], level: Float, h: Hierarchy, cutoff: Cutoff
) -> tuple[str, ...]:
    members: dict[int, list[int]] = {}
    for k, block in enumerate(ranked.block.tolist()):
        members.setdefault(block, []).append(k)
    limits = call_limits(cutoff, h.n_labels)
    caption = [h.caption(h.labels[k]) for k in ranked.label.tolist()]
    sentences = []
    for k, block in enumerate(ranked.block.tolist()):
        others = [(caption[j], float(ranked.lpr[j])) for j in members[block] if j != k]
        sentences.append(
            fill(
                int(codes[k]), lpr=float(ranked.lpr[k]), score=float(ranked.score[k]),
                level=float(level[k]), others=others, most=limits[int(ranked.label[k])],
            )
        )  # fmt: skip
    return tuple(sentences)


def _row_of(table: Table, sample: int | str) -> int:
    if isinstance(sample, str):
        names = table.samples or ()
        rows = [row for row, name in enumerate(names) if name == sample]
        if len(rows) == 1:
            return rows[0]
        if rows:
            raise DataError(f"{len(rows):,} samples have the name {sample!r}; give a row number.")
        known = f"the samples are {listed(names)}" if names else "the scores name no samples"
        raise DataError(
            f"There is no sample {sample!r}: {known}.\nHint: a number is taken as the row."
        )
    if isinstance(sample, bool) or not isinstance(sample, int | np.integer):
        raise DataError(f"sample must be a row number or a name, got {sample!r}.")
    if not -table.n_samples <= sample < table.n_samples:
        raise DataError(f"sample {sample} is out of range: there are {table.n_samples:,} samples.")
    return int(sample) % table.n_samples


def _row(matrix: Any, n_labels: int) -> Float:
    """Return the only row of a matrix; NaN where a sparse one stores nothing."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix[0], dtype=np.float64)
    row = np.full(n_labels, np.nan)
    row[matrix.indices] = matrix.data
    return row
