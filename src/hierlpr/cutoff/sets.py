"""Sure and possible labels of each sample: guarantees per sample instead of pooled precision.

With probability at least ``1 - error`` *all* sure labels of a new sample are true; and, a separate
statement, *all* its true labels are possible. Calibration samples determine down to which values
(`hierlpr.cutoff.set_values`) labels are sure or possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import bdtr

from hierlpr._utils.checks import check_level
from hierlpr._utils.display import html_card, text_table
from hierlpr.cutoff.description import describe_units
from hierlpr.cutoff.instances import holds_at, one_per_cluster, sample_keys
from hierlpr.cutoff.set_values import LikelyPaths, SetValues, path_values
from hierlpr.data.tables import dense
from hierlpr.data.truth import Truth
from hierlpr.hierarchy import Hierarchy

SET_WORDS = ("no", "possible", "sure")  # by how many of the two sets a label is in
_SHOWN_COLUMNS = ("sample", "sure", "possible")
SHOWN = 8  # printed samples
MOST_NAMED = 5  # printed labels per set

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SetRule:
    """Levels for sure and possible labels, and what they guarantee.

    A label is sure if its value exceeds `sure_level`, and possible if its value is at least
    `possible_level`; None means that no label is sure, or that every label is possible. Sizes are
    those on the calibration samples; `caveats` says why the guarantee may not hold.
    """

    error: float
    confidence: float | None
    one_path: bool
    n_samples: int
    sure_level: float | None
    possible_level: float | None
    sure_size: float = 0.0
    possible_size: float = 0.0
    caveats: str = ""
    floor: float = 1.0  # of `hierlpr.cutoff.set_values.by_cost`
    n_clusters: int | None = None  # of the calibration samples, if they belong together

    def with_caveats(self, caveats: Sequence[str]) -> SetRule:
        """Put caveats about the calibration samples in front of those already there."""
        return replace(self, caveats=" ".join([*caveats, self.caveats]).strip())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Describe the guarantee and the sizes of the sets on the calibration samples."""
        share = f"{1.0 - self.error:.4g}"
        confidence = "" if self.confidence is None else f" (with confidence {self.confidence:g})"
        new = "a new sample" if self.n_clusters is None else "a sample of a new cluster"
        samples = describe_units(self.n_samples, self.n_clusters, "calibration ")
        text = (
            f"With probability at least {share}{confidence} all sure labels of {new} are true, and "
            f"with the same probability all its true labels are possible. On {samples} "
            f"{self.sure_size:.3g} labels per sample are sure and {self.possible_size:.3g} "
            "possible."
        )
        least = least_samples(self.error, self.confidence)
        if self.sure_level is None and (self.n_clusters or self.n_samples) < least:
            what = "samples" if self.n_clusters is None else "clusters"
            text += f" No label can be called sure: at least {least:,} {what} are needed."
        elif self.sure_level is None:
            text += " No label can be called sure: the best calls are too often incorrect."
        if self.possible_level is None:
            text += " Every label has to be called possible."
        return f"{text} Caveats: {self.caveats}" if self.caveats else text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallSets:
    """The sure and the possible labels of every sample: two bool matrices, both closed upward.

    Attributes
    ----------
    sure, possible : bool matrix of shape (n_samples, n_labels)
        Every sure label is possible. CSR if the scores were.
    labels : tuple of str
        Names of the columns.
    samples : tuple of str or None
        Names, if the scores had any.
    rule : SetRule
        The levels and what is promised; ``print(rule)`` says it as text.
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
            f"{self.possible.sum() / n:.3g} possible labels per sample. {self.rule}"
        )

    def __repr__(self) -> str:
        table = [text_table(_SHOWN_COLUMNS, self._rows())] if len(self) else []
        more = [f"... {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        return "\n".join([f"<CallSets: {self}>", *table, *more])

    def _repr_html_(self) -> str:
        return html_card("Sure and possible labels", str(self), _SHOWN_COLUMNS, self._rows())

    def _rows(self) -> list[tuple[Any, ...]]:
        """Return the first samples with their sure labels and their other possible ones."""

        def joined(names: tuple[str, ...]) -> str:
            return ", ".join(names[:MOST_NAMED]) + ", ..." * (len(names) > MOST_NAMED)

        first = replace(self, sure=self.sure[:SHOWN], possible=self.possible[:SHOWN])
        names = range(len(self)) if self.samples is None else self.samples
        return [(n, *map(joined, kinds)) for n, kinds in zip(names, first.lists(), strict=False)]

    def codes(self) -> NDArray[np.int8]:
        """Return 2 for sure, 1 for possible and 0 for all other (sample, label) pairs."""
        sure, possible = (np.asarray(dense(part), np.int8) for part in (self.sure, self.possible))
        return np.asarray(sure + possible, dtype=np.int8)

    def lists(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """List the sure labels, and the possible labels that are not sure, of each sample."""
        named = []
        for kind in (self.sure, self.possible != self.sure):
            rows = scipy.sparse.csr_array(kind).sorted_indices()
            names = [self.labels[j] for j in rows.indices.tolist()]
            named.append([tuple(names[i:k]) for i, k in pairwise(rows.indptr.tolist())])
        return list(zip(*named, strict=True))


def choose_sets(
    values: Callable[[], Iterable[SetValues]],
    truth: Any,
    *,
    error: float,
    confidence: float | None = None,
    one_path: bool = False,
    floor: float = 1.0,
) -> SetRule:
    r"""Choose the levels of sure and possible labels from the values and truth of samples.

    `values` returns an iterator over parts of the samples and is called twice; its values were
    computed with `floor`, which is stored in the rule. The values may only depend on the
    scores of their own sample and what was fixed before this truth was seen.

    Notes
    -----
    The sure labels of a sample are all true exactly if the level is at least
    :math:`c`, the largest value among its false labels. With :math:`n` exchangeable samples,
    the value :math:`c` of a new one exceeds the :math:`k`-th smallest of theirs with probability at
    most :math:`1 - k/(n + 1)`, ties or not; :math:`k = \lceil (1 - e)(n + 1) \rceil`. For possible
    labels the smallest value among the true labels is used instead of :math:`c`. With a confidence,
    :math:`k` is the smallest for which, by the binomial distribution, the error rate given the
    calibration samples is at most :math:`e` with that confidence.

    If the truth has clusters, a sample of a new cluster takes the place of a
    new sample: each of :math:`K` clusters has the weight 1, shared among its samples, and the level
    is the smallest :math:`c` that leaves no more than :math:`e(K + 1) - 1` of the weight above it.
    With a confidence, one random sample of each cluster is used.

    References
    ----------
    Keys ``vovk2005algorithmic``, ``angelopoulos2024conformal``, ``wilks1941determination`` and, for
    clusters, ``lee2023hierarchical`` and ``dunn2023subsampling`` in ``docs/references.bib``.
    """
    n_samples, positive = int(truth.shape[0]), Truth.of(truth).positive
    worst, least = np.full(n_samples, -1.0), np.full(n_samples, 2.0)
    at = 0
    for part in values():
        rows = slice(at, at := at + len(part.sure))
        true = np.asarray(dense(positive[rows]))
        worst[rows] = np.where(true, -1.0, part.sure).max(axis=1, initial=-1.0)
        least[rows] = np.where(true, part.possible, 2.0).min(axis=1, initial=2.0)
    # A level is exceeded by whole samples, so only the worst label of each counts.
    rule = _rule(worst, least, error, confidence, Truth.of(truth), one_path=one_path, floor=floor)
    sizes = np.array([[kind.sum() for kind in _sets_of(part, rule)] for part in values()])
    sure_size, possible_size = (sizes.reshape(-1, 2).sum(axis=0) / max(n_samples, 1)).tolist()
    return replace(rule, sure_size=sure_size, possible_size=possible_size)


def choose_path_rule(
    paths: LikelyPaths,
    truth: Any,
    *,
    error: float,
    confidence: float | None,
    floor: float,
) -> SetRule:
    """Choose how far to follow likely paths, so that few samples get a label that is not true.

    See `choose_sets` for the guarantee. If all labels of the trusted path are true, the true
    path ends at or below its last label: no separate level for possible labels is needed.
    """
    n_samples, n_labels = truth.shape
    value = path_values(paths, n_samples, floor)
    is_false = ~holds_at(Truth.of(truth).positive, paths.sample, paths.label)
    worst = np.full(n_samples, -1.0)
    np.maximum.at(worst, paths.sample[is_false], value[is_false])
    rule = _rule(worst, None, error, confidence, Truth.of(truth), one_path=True, floor=floor)
    n_kept = 0 if rule.sure_level is None else np.count_nonzero(value > rule.sure_level)
    return replace(rule, sure_size=n_kept / max(n_samples, 1), possible_size=float(n_labels))


def _rule(
    worst: Float,
    least: Float | None,
    error: float,
    confidence: float | None,
    truth: Truth,
    **options: Any,
) -> SetRule:
    """Return the rule for the largest value of a false and the smallest of a true label."""
    error = check_level(error, name="error")
    if confidence is not None:
        confidence = check_level(confidence, name="confidence")
    n_samples, n_clusters, cluster = worst.size, truth.n_clusters, truth.cluster_number
    if cluster is not None and confidence is not None:
        rows = one_per_cluster(sample_keys(worst[:, np.newaxis], truth), cluster)
        worst, least, cluster = worst[rows], None if least is None else least[rows], None
    sure = set_level(worst, error, confidence, cluster)
    possible = None if least is None else set_level(-least, error, confidence, cluster)
    return SetRule(
        error,
        confidence,
        n_samples=n_samples,
        n_clusters=n_clusters,
        sure_level=sure,
        possible_level=None if possible is None else -possible,
        **options,
    )


def set_level(
    worst: Float, error: float, confidence: float | None, cluster: NDArray[np.intp] | None = None
) -> float | None:
    """Return the level that few samples exceed; None if there are too few to tell."""
    if cluster is None:
        place = order_place(worst.size, error, confidence)
        return None if place is None else float(np.sort(worst)[place - 1])
    # The new sample, of weight 1, may be the worst of all. With clusters of one sample this is the
    # k-th smallest value of `order_place`. Sums of shares are rounded, hence the tolerance.
    allowed = error * (int(cluster.max()) + 2) - 1.0
    order = np.argsort(-worst)
    above = np.cumsum(np.append(0.0, (1.0 / np.bincount(cluster)[cluster])[order]))[:-1]
    fits = np.flatnonzero(above <= allowed + 1e-9)
    return float(worst[order[fits[-1]]]) if allowed >= 0.0 else None


def call_sets(
    values: Iterable[SetValues],
    hierarchy: Hierarchy,
    rule: SetRule,
    *,
    samples: tuple[str, ...] | None = None,
    as_sparse: bool = False,
) -> CallSets:
    """Divide the labels of every sample into sure, possible and neither."""
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


def trusted_entries(paths: LikelyPaths, n_samples: int, rule: SetRule) -> NDArray[np.intp]:
    """Return the entry of `paths` with the deepest trusted label of each sample, -1 for none."""
    level = math.inf if rule.sure_level is None else rule.sure_level
    return paths.last(path_values(paths, n_samples, rule.floor) > level, n_samples)


def path_sets(
    paths: LikelyPaths,
    n_samples: int,
    hierarchy: Hierarchy,
    rule: SetRule,
    *,
    samples: tuple[str, ...] | None = None,
) -> CallSets:
    """Return sets of listed scores with one path per sample, as CSR.

    The labels of the trusted path are sure. Possible are these and everything below the last
    of them, listed or not; all labels if no label is sure.
    """
    entry = trusted_entries(paths, n_samples, rule)
    on_path = np.flatnonzero(np.arange(paths.sample.size) <= entry[paths.sample])
    shape = (n_samples, hierarchy.n_labels)
    ones = np.ones(on_path.size, dtype=bool)
    sure = scipy.sparse.csr_array(
        (ones, (paths.sample[on_path], paths.label[on_path])), shape=shape
    )
    deepest = np.append(paths.label, -1)[entry]
    below = {-1: np.arange(hierarchy.n_labels)}
    for label in np.unique(deepest[deepest >= 0]).tolist():
        names = hierarchy.descendants(hierarchy.labels[label])
        below[label] = np.array([hierarchy.index(x) for x in names], dtype=np.intp)
    columns = [below[label] for label in deepest.tolist()]
    row = np.repeat(np.arange(n_samples), [part.size for part in columns])
    column = np.concatenate([*columns, np.empty(0, dtype=np.intp)]).astype(np.intp)
    more = scipy.sparse.csr_array((np.ones(row.size, dtype=bool), (row, column)), shape=shape)
    possible = scipy.sparse.csr_array((sure + more).astype(bool))
    return CallSets(sure, possible, hierarchy.labels, samples, rule)


def deepest_sure(sets: CallSets, hierarchy: Hierarchy) -> NDArray[np.intp]:
    """Return the index of the deepest sure label of each sample, -1 if none is sure.

    Among labels of the same depth, the first in ``hierarchy.labels``.
    """
    level = np.where(dense(sets.sure), np.asarray(hierarchy.levels), 0)
    best = level.argmax(axis=1)
    return np.where(level.max(axis=1, initial=0) > 0, best, -1).astype(np.intp)


def least_samples(error: float, confidence: float | None) -> int:
    """Return the number of calibration samples below which nothing is promised."""
    if confidence is None:
        return math.ceil(1 / Fraction(repr(error))) - 1
    return math.ceil(math.log(1.0 - confidence) / math.log(1.0 - error) - 1e-9)


def order_place(n_samples: int, error: float, confidence: float | None) -> int | None:
    """Return k of the k-th smallest calibration value to use as level; None if none suffices."""
    if confidence is None:
        # Exact arithmetic with the error as written, 1/10 and not the nearest double.
        allowed = math.floor(Fraction(repr(error)) * (n_samples + 1))
        place = n_samples + 1 - allowed
        return place if place <= n_samples else None
    # The k-th smallest value is at or above the (1 - e)-quantile if fewer than k of n values are
    # below that quantile.
    counts = np.arange(1, n_samples + 1)
    enough = bdtr(counts - 1.0, n_samples, 1.0 - error) >= confidence
    return int(counts[enough][0]) if enough.any() else None


def _sets_of(values: SetValues, rule: SetRule) -> tuple[Bool, Bool]:
    sure_level = math.inf if rule.sure_level is None else rule.sure_level
    possible_level = -math.inf if rule.possible_level is None else rule.possible_level
    sure = values.sure > sure_level
    return sure, sure | (values.possible >= possible_level)
