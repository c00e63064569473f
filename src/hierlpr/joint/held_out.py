"""Evidence about samples from LPR curves and priors that were fitted without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_chunks, n_threads_or_default, run_chunks
from hierlpr._kernels.joint import HeldOutEvidence
from hierlpr.data.partial_truth import PartialTruth, curve_weights
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint.posterior import posteriors
from hierlpr.joint.prior import LabelPrior, fit_prior
from hierlpr.lpr import ScoreGroups, fit_data
from hierlpr.lpr.estimators import Auto
from hierlpr.lpr.training import TruthCounts

Float = NDArray[np.float64]
Ints = NDArray[np.int64]

N_BINS = 64  # score bins per label: finer than what a spline with 24 segments can bend
CACHED_VALUES = 2**13  # larger temporary arrays are new memory each time, which costs more


class CrossFitting:
    """Samples in parts, and curves and priors fitted without one or two of the parts.

    Many fits on nearly the same samples share one sort: the scores of a label are put in at most
    `N_BINS` bins once, and each fit sees only counts per bin. The bins depend on the scores alone,
    never on the truth, so a fit knows nothing about the truth of the parts that it leaves out.
    `part` is the number of each sample's part; missing scores are NaN.
    """

    def __init__(
        self,
        scores: Float,
        truth: NDArray[np.bool_] | PartialTruth,
        hierarchy: Hierarchy,
        part: Ints,
        *,
        method: Any,
        n_threads: int | None = None,
        sample_weight: Float | None = None,
    ) -> None:
        self.hierarchy = hierarchy
        self.method = _faster(method)
        self.n_threads = n_threads_or_default(n_threads)
        self.truth, self.sample_weight = truth, sample_weight
        self.part = part
        self.held = truth.held if isinstance(truth, PartialTruth) else truth
        self.bin_of, self.place, self.bin_score = bin_scores(scores, self.n_threads)
        numbers = range(int(part.max()) + 1)
        self._counts = None if self.is_weighted else [self._count(part == p) for p in numbers]
        self._fits: dict[frozenset[int], tuple[Float, LabelPrior]] = {}

    @property
    def is_weighted(self) -> bool:
        """Whether (sample, label) pairs have different weights."""
        return self.sample_weight is not None or isinstance(self.truth, PartialTruth)

    def evidence(self, left_out: Mapping[int, frozenset[int]]) -> HeldOutEvidence:
        """Return the evidence about some parts, each from a fit without the parts given with it."""
        rows = [np.flatnonzero(self.part == number) for number in left_out]
        fits = [self.fit(without) for without in left_out.values()]
        ptr = np.cumsum([0, *(at.size for at in rows)])
        own, others = np.empty((2, self.hierarchy.n_labels, ptr[-1]))
        for at, first, fit in zip(rows, ptr, fits, strict=False):
            stop = first + at.size
            self._write(fit, self.place[:, at], own[:, first:stop], others[:, first:stop])
        everyone = np.concatenate(rows)
        weight = np.empty((0, 0))
        if self.is_weighted:
            weight = np.concatenate([self._pair_weights(at) for at in rows]).T
        return HeldOutEvidence(
            own,
            others,
            np.ascontiguousarray(self.held[everyone].T),
            np.stack([prior.log_odds for _, prior in fits]),
            ptr,
            np.ascontiguousarray(weight),
        )

    def _write(
        self, fit: tuple[Float, LabelPrior], place: Float, own: Float, others: Float
    ) -> None:
        """Write the evidence of the samples at some places between the bins."""
        table, prior = fit
        rise = np.diff(table, axis=1, append=0.0)
        prior_log_odds, first = prior.log_odds[:, None], N_BINS * np.arange(len(table))[:, None]
        wanted: Any = {"with_posterior": False, "with_others": True, "n_threads": 1}

        def write(start: int, stop: int) -> None:
            known = place[:, start:stop]
            missing = np.isnan(known)
            known = np.where(missing, 0.0, known)
            at = known.astype(np.int64)
            part = known - at
            at += first
            log_odds = table.take(at) + part * rise.take(at)
            own[:, start:stop] = np.where(missing, 0.0, log_odds - prior_log_odds)
            lpr = np.where(missing, np.nan, 1.0 / (1.0 + np.exp(-log_odds)))
            others[:, start:stop] = posteriors(lpr.T, prior, self.hierarchy, **wanted)[1].T

        n_chunks = -(-place.shape[1] // max(8, CACHED_VALUES // len(table)))
        run_chunks(write, even_chunks(place.shape[1], n_chunks), self.n_threads)

    def fit(self, without: frozenset[int]) -> tuple[Float, LabelPrior]:
        """Fit log-odds of all bins and the prior on all parts except some; results are cached."""
        if without not in self._fits:
            used = ~np.isin(self.part, list(without))
            positive, total = self._counts_without(without, used)
            # If nothing is known about a label in these parts, it counts as never positive.
            total[~np.any(total > 0.0, axis=1), 0] = np.count_nonzero(used)
            data = BinnedLabels(positive, total, self.bin_score, float(np.count_nonzero(used)))
            depth = self.hierarchy.levels
            model = fit_data(data, method=self.method, depth=depth, n_threads=self.n_threads)
            weight = None if self.sample_weight is None else self.sample_weight[used]
            prior = fit_prior(self.truth[used], self.hierarchy, weight)
            log_odds = model.curves.evaluate_log_odds(self.bin_score.T, n_threads=self.n_threads)
            self._fits[without] = np.ascontiguousarray(log_odds.T), prior
        return self._fits[without]

    def _counts_without(self, without: frozenset[int], used: NDArray[np.bool_]) -> Float:
        """Positives and samples per (label, bin) of all parts except some."""
        if self._counts is None:
            # The weight of a pair depends on which samples there are.
            return self._count(used, self._pair_weights(used))
        kept = [count for number, count in enumerate(self._counts) if number not in without]
        return np.asarray(np.sum(kept, axis=0))

    def _count(self, rows: NDArray[np.bool_], weight: Float | None = None) -> Float:
        """Positives and samples per (label, bin); missing scores are in one more bin, dropped."""
        n_labels, width = self.hierarchy.n_labels, N_BINS + 1
        cell = (self.bin_of[:, rows] + width * np.arange(n_labels)[:, None]).ravel()
        held = self.held[rows].T.ravel()
        weights = np.ones(cell.size) if weight is None else weight.T.ravel()
        counts = [
            np.bincount(cell, weights=values, minlength=n_labels * width)
            for values in (weights * held, weights)
        ]
        return np.asarray(np.stack(counts).reshape(2, n_labels, width)[:, :, :N_BINS], np.float64)

    def _pair_weights(self, rows: Any) -> Float:
        """Weights of the (sample, label) pairs of some samples."""
        truth, h = self.truth[rows], self.hierarchy
        given = None if self.sample_weight is None else self.sample_weight[rows]
        return np.stack([curve_weights(truth, h, k, given) for k in range(h.n_labels)], axis=1)


def _faster(method: Any) -> Any:
    """Replace the default estimator by one with nearly the same curves for half the work."""
    if method == Auto.name:
        return Auto().coarser()
    return method.coarser() if isinstance(method, Auto) else method


def bin_scores(scores: Float, n_threads: int = 1) -> tuple[Ints, Float, Float]:
    """Put the scores of each label in at most `N_BINS` bins of equal width in the normal score.

    Returns, in rows of labels, the bin of every score (`N_BINS` if missing); its place between the
    bins, 2.5 if it lies halfway between the scores of bins 2 and 3 (NaN if missing); and the score
    of every bin, the middle one of its distinct scores. Up to `N_BINS` distinct scores have a bin
    each. Bins are numbered without gaps; beyond the last one its score is repeated.
    """
    n_samples, n_labels = scores.shape
    columns = np.ascontiguousarray(scores.T)
    bin_of = np.full(columns.shape, N_BINS)
    place = np.full(columns.shape, np.nan)
    bin_score = np.zeros((n_labels, N_BINS))
    rank = (np.arange(n_samples) + 0.5) / max(n_samples, 1)
    normal_score = scipy.special.ndtri(rank)

    def put_in_bins(k: int) -> None:
        order = np.argsort(columns[k])  # missing scores are last
        score = columns[k, order]
        order = order[: score.size - np.count_nonzero(np.isnan(score))]
        score = score[: order.size]
        if score.size == 0:
            return
        is_new = np.append(True, score[1:] > score[:-1])
        begin = np.flatnonzero(is_new)
        code = np.arange(begin.size)
        if code.size > N_BINS:
            upper = np.append(begin[1:], score.size)
            z = np.interp(0.5 * (begin + upper) / score.size, rank, normal_score)
            interval = np.minimum((z - z[0]) * (N_BINS / (z[-1] - z[0])), N_BINS - 1).astype(int)
            code = np.cumsum(np.append(0, np.diff(interval) > 0))
        first = np.searchsorted(code, np.arange(code[-1] + 2))
        middle = score[begin[(first[:-1] + first[1:] - 1) // 2]]
        bin_of[k, order] = np.repeat(code, np.diff(begin, append=score.size))
        place[k, order] = np.interp(score, middle, np.arange(middle.size))
        bin_score[k, : middle.size], bin_score[k, middle.size :] = middle, middle[-1]

    run_chunks(lambda k, _: put_in_bins(k), list(range(n_labels + 1)), n_threads)
    return bin_of, place, bin_score


@dataclass(frozen=True, slots=True, eq=False)
class BinnedLabels:
    """Training data as counts per (label, bin); see `hierlpr.lpr.training.LabelData`."""

    positive: Float
    total: Float
    score: Float
    n_samples: float

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.total.shape[0])

    @property
    def values_per_label(self) -> int:
        """Number of bins."""
        return int(self.total.shape[1])

    def groups(self, labels: Ints) -> ScoreGroups:
        """Return the non-empty bins of some labels as groups."""
        total, positive = self.total[labels], self.positive[labels]
        is_used = total > 0.0
        ptr = np.concatenate([np.zeros(1, np.int64), np.count_nonzero(is_used, axis=1).cumsum()])
        score = self.score[labels][is_used]
        return ScoreGroups(ptr, score, positive[is_used], total[is_used], self.n_samples)

    def count_truth(self, labels: Ints) -> TruthCounts:
        """Count the samples of some labels."""
        positives = np.rint(self.positive[labels].sum(axis=1)).astype(np.int64)
        sizes = np.rint(self.total[labels].sum(axis=1)).astype(np.int64)
        return TruthCounts.of(positives, sizes - positives)
