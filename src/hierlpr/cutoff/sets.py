"""Promises for each sample: labels that are sure, labels that are possible.

A pooled precision says how many calls of all samples are right. Here the unit is the sample: with
probability at least ``1 - error`` *every* sure label of a new sample is true; and, a statement of
its own, *every* true label of it is possible.

Both kinds of sets are prefixes of the order in which a sample's labels are called, so they are
closed upward. How long a prefix is taken is decided by a value of every label that falls along the
order (`hierlpr.cutoff.set_values`); calibration samples say at which value to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import check_level
from hierlpr._base.showing import html_table, text_table
from hierlpr.cutoff.outcome import check_fields
from hierlpr.cutoff.set_values import HAIR, SetValues
from hierlpr.data.tables import dense
from hierlpr.hierarchy import Hierarchy

SET_WORDS = ("no", "possible", "sure")  # by how many of the two sets a label is in
SHOWN = 8  # samples of sets that are printed
MOST_NAMED = 5  # labels of one of them
_COLUMNS = ("sample", "sure", "possible")

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SetRule:
    """Where to stop, for sure and for possible labels, and what is promised.

    A label is sure if its value exceeds `sure_level`, and possible if its value is at least
    `possible_level`; None stands for a level that no label passes, or that every label does. The
    rates and sizes are those on the calibration samples; `shaky` says why no promise holds.
    """

    error: float
    confidence: float | None
    one_path: bool
    n_samples: int
    sure_level: float | None
    possible_level: float | None
    sure_error: float
    possible_error: float
    sure_size: float
    possible_size: float
    shaky: str = ""
    parted: bool = True  # samples that tie were parted by a hair
    floor: float = 1.0  # of `hierlpr.cutoff.set_values.by_cost`

    def doubted(self, doubts: Sequence[str]) -> SetRule:
        """Put in what is wrong with the calibration samples themselves."""
        return replace(self, shaky=" ".join([*doubts, self.shaky]).strip()) if doubts else self

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SetRule:
        """Rebuild from :meth:`to_dict`."""
        data = {"shaky": "", "floor": 1.0, **data}  # older files: not kept, chances as they are
        if "parted" not in data:  # and from before ties were parted: a hair lower is safe
            level = data.get("possible_level")
            safe = level * (1.0 - 2.0 * HAIR) if isinstance(level, float) else level
            data = {**data, "possible_level": safe, "parted": True}
        check_fields(cls, data, "the rule of call sets")
        return cls(**{field.name: data[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        """Say what is promised, and how the calibration samples fared."""
        share = f"{1.0 - self.error:.4g}"
        given = "" if self.confidence is None else f" (with confidence {self.confidence:g})"
        promised = (
            f"Of a new sample, all sure labels hold with probability at least {share}{given}, and "
            f"with the same probability all labels that hold are among the possible ones."
        )
        nothing = "" if self.sure_level is not None else (
            f" No label can be called sure: {self.n_samples:,} calibration samples are too few, "
            "or too often wrong in their best call."
        )  # fmt: skip
        everything = "" if self.possible_level is not None else (
            " Every label has to be called possible."
        )  # fmt: skip
        shaky = f" Shaky: {self.shaky}" if self.shaky else ""
        return (
            f"{promised} On {self.n_samples:,} calibration samples {self.sure_size:.3g} labels a "
            f"sample are sure and {self.possible_size:.3g} possible.{nothing}{everything}{shaky}"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallSets:
    """The sure and the possible labels of every sample: two bool matrices, both closed upward.

    Every sure label is possible. CSR matrices come from CSR scores.
    """

    sure: Any
    possible: Any
    labels: tuple[str, ...]
    samples: tuple[str, ...] | None
    rule: SetRule

    def __len__(self) -> int:
        return int(self.sure.shape[0])

    def __str__(self) -> str:
        n = max(len(self), 1)
        return (
            f"{len(self):,} samples: {self.sure.sum() / n:.3g} sure and "
            f"{self.possible.sum() / n:.3g} possible labels a sample. {self.rule}"
        )

    def _first_rows(self) -> list[tuple[Any, ...]]:
        """Return name, sure and other possible labels of the first samples."""
        rows = []
        first = replace(self, sure=self.sure[:SHOWN], possible=self.possible[:SHOWN])
        for i, (sure, others) in enumerate(first.lists()):
            name: Any = i if self.samples is None else self.samples[i]
            texts = (", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)
                     for names in (sure, others))  # fmt: skip
            rows.append((name, *texts))
        return rows

    def __repr__(self) -> str:
        head = f"<CallSets: {self}>"
        table = text_table(_COLUMNS, self._first_rows())
        more = f"\n... {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return f"{head}\n{table}{more}" if len(self) else head

    def _repr_html_(self) -> str:
        """Show the labels of the first samples in a notebook."""
        more = f"<p>and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        return f"<p>{escape(str(self))}</p>{html_table(_COLUMNS, self._first_rows())}{more}"

    def words(self) -> NDArray[np.object_]:
        """Return ``"sure"``, ``"possible"`` or ``"no"`` for every (sample, label)."""
        words: NDArray[np.object_] = np.array(SET_WORDS, dtype=object)[self.places()]
        return words

    def places(self) -> NDArray[np.int8]:
        """Return the place in `SET_WORDS` for every (sample, label)."""
        sure, possible = (np.asarray(dense(part), np.int8) for part in (self.sure, self.possible))
        return np.asarray(sure + possible, dtype=np.int8)

    def lists(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """List the sure labels, and those that are possible but not sure, of each sample."""
        sure, possible = scipy.sparse.csr_array(self.sure), scipy.sparse.csr_array(self.possible)
        out = []
        for i in range(len(self)):
            certain = sure.indices[sure.indptr[i] : sure.indptr[i + 1]].tolist()
            open_ = possible.indices[possible.indptr[i] : possible.indptr[i + 1]].tolist()
            rest = sorted(set(open_) - set(certain))
            names = self.labels
            out.append((tuple(names[j] for j in sorted(certain)), tuple(names[j] for j in rest)))
        return out


def choose_sets(
    values: Callable[[], Iterable[SetValues]],
    truth: Any,
    *,
    error: float,
    confidence: float | None = None,
    one_path: bool = False,
    floor: float = 1.0,
) -> SetRule:
    r"""Learn from the values and the truth of samples where sure and possible labels end.

    `values` is called twice, so that those of many samples need not be held at once; they were
    made with `floor`, which is kept with the rule. What values are made of, other than scores of
    their own sample, must have been fixed before this truth was looked at.

    Notes
    -----
    A sample's sure labels are all true exactly if the stop lies at or above
    :math:`c`, the largest value among its false labels. With :math:`n` exchangeable samples,
    the value :math:`c` of a new one exceeds the :math:`k`-th smallest of theirs with probability at
    most :math:`1 - k/(n + 1)`, ties or not; :math:`k = \lceil (1 - e)(n + 1) \rceil`. For possible
    labels the least value among the true labels takes the place of :math:`c`. With a confidence,
    :math:`k` is the smallest for which the binomial tail bounds the chance that the error rate
    given the calibration samples exceeds :math:`e`.

    References
    ----------
    Keys ``vovk2005algorithmic``, ``angelopoulos2024conformal`` and ``wilks1941determination`` in
    ``docs/references.bib``.
    """
    error = check_level(error, name="error")
    if confidence is not None:
        confidence = check_level(confidence, name="confidence")
    n_samples = int(truth.shape[0])
    worst, least = np.full(n_samples, -1.0), np.full(n_samples, 2.0)
    at = 0
    for part in values():
        rows = slice(at, at := at + len(part.sure))
        held = np.asarray(dense(truth[rows]), dtype=bool)
        worst[rows] = np.where(held, -1.0, part.sure).max(axis=1, initial=-1.0)
        least[rows] = np.where(held, part.possible, 2.0).min(axis=1, initial=2.0)
    place = _order_place(n_samples, error, confidence)
    sure_level = None if place is None else float(np.sort(worst)[place - 1])
    possible_level = None if place is None else float(np.sort(least)[n_samples - place])
    rule = SetRule(
        error=error, confidence=confidence, one_path=one_path, n_samples=n_samples,
        sure_level=sure_level, possible_level=possible_level,
        sure_error=0.0, possible_error=0.0, sure_size=0.0, possible_size=0.0, floor=floor,
    )  # fmt: skip
    sizes = np.array([[kind.sum() for kind in _sets_of(part, rule)] for part in values()])
    sure_size, possible_size = sizes.reshape(-1, 2).sum(axis=0) / max(n_samples, 1)
    return replace(
        rule,
        sure_error=0.0 if sure_level is None else float((worst > sure_level).mean()),
        possible_error=0.0 if possible_level is None else float((least < possible_level).mean()),
        sure_size=float(sure_size),
        possible_size=float(possible_size),
    )


def call_sets(
    values: Iterable[SetValues],
    hierarchy: Hierarchy,
    rule: SetRule,
    *,
    samples: tuple[str, ...] | None = None,
    as_sparse: bool = False,
) -> CallSets:
    """Part the labels of every sample into sure, possible and neither."""
    empty = np.empty((0, hierarchy.n_labels), dtype=bool)
    parts = [(empty, empty), *(_sets_of(part, rule) for part in values)]
    if as_sparse:
        sure, possible = (
            scipy.sparse.vstack([scipy.sparse.csr_array(part) for part in kind]).tocsr()
            for kind in zip(*parts, strict=True)
        )
    else:
        sure, possible = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    return CallSets(sure, possible, hierarchy.labels, samples, rule)


def deepest_sure(sets: CallSets, hierarchy: Hierarchy) -> NDArray[np.intp]:
    """Return the number of the deepest sure label of each sample, -1 where no label is sure.

    Among labels of the same depth the one that comes first in the hierarchy.
    """
    level = np.where(dense(sets.sure), np.asarray(hierarchy.levels), 0)
    best = level.argmax(axis=1)
    return np.where(level.max(axis=1, initial=0) > 0, best, -1).astype(np.intp)


# -- details ------------------------------------------------------------------------------------


def _order_place(n_samples: int, error: float, confidence: float | None) -> int | None:
    """Which of the sorted calibration values to stop at, counted from 1; None if none is enough."""
    if confidence is None:
        # The error as it was written, 1/10 and not the nearest double: no rounding may add a place.
        allowed = math.floor(Fraction(repr(error)) * (n_samples + 1))
        place = n_samples + 1 - allowed
        return place if place <= n_samples else None
    from scipy.special import bdtr

    # Fewer than k of n values lie below a value with a share 1 - e below it: that chance must be
    # at least `confidence` for the k-th smallest to lie at or above it.
    counts = np.arange(1, n_samples + 1)
    enough = bdtr(counts - 1.0, n_samples, 1.0 - error) >= confidence
    return int(counts[enough][0]) if enough.any() else None


def _sets_of(values: SetValues, rule: SetRule) -> tuple[Bool, Bool]:
    sure = np.zeros(values.sure.shape, dtype=bool)
    if rule.sure_level is not None:
        sure = values.sure > rule.sure_level
    possible = np.ones(values.sure.shape, dtype=bool)
    if rule.possible_level is not None:
        possible = values.possible >= rule.possible_level
    return sure, possible | sure
