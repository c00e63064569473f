"""Evidence about samples from LPR curves and priors that were fitted without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_chunks, n_jobs_or_default, run_chunks
from hierlpr._kernels.joint import HeldOutEvidence
from hierlpr.data.pair_weights import curve_weights
from hierlpr.data.truth import Truth
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint.posterior import posteriors
from hierlpr.joint.prior import LabelPrior, fit_prior
from hierlpr.lpr import LPRCurves, ScoreGroups, refit
from hierlpr.lpr.bins import LabelBins
from hierlpr.lpr.training import group_sorted

Float = NDArray[np.float64]
Ints = NDArray[np.int64]

_CACHED_VALUES = 2**13  # larger temporary arrays are new memory each time, which costs more


class CrossFitting:
    """Samples in parts, and curves and priors fitted without one or two of the parts.

    Many fits on nearly the same samples share one sort: the scores of a label are put in bins once,
    and each fit sees only counts per bin. The bins depend on the scores alone, never on the truth,
    so a fit knows nothing about the truth of the parts that it leaves out.
    `part` is the number of each sample's part; missing scores are NaN.
    """

    def __init__(
        self,
        scores: Float,
        truth: Truth,
        hierarchy: Hierarchy,
        part: Ints,
        *,
        method: Any,
        n_jobs: int | None = None,
        sample_weight: Float | None = None,
    ) -> None:
        self.hierarchy, self.method, self.part = hierarchy, method, part
        self.truth, self.sample_weight = truth, sample_weight
        self.n_jobs = n_jobs_or_default(n_jobs)
        self.bins, self.place = bin_scores(scores, self.n_jobs)
        numbers = range(int(part.max()) + 1)
        self._counts = None if self.is_weighted else [self._count(part == p) for p in numbers]
        self._fits: dict[frozenset[int], tuple[Float, LabelPrior]] = {}

    @property
    def is_weighted(self) -> bool:
        """Whether (sample, label) pairs have different weights."""
        return self.sample_weight is not None or not self.truth.is_complete

    def evidence(self, left_out: Mapping[int, frozenset[int]]) -> HeldOutEvidence:
        """Return the evidence about some parts, each from a fit without the parts given with it."""
        rows = [np.flatnonzero(self.part == number) for number in left_out]
        without = list(left_out.values())
        each = list(range(len(without) + 1))
        fits = run_chunks(lambda i, _: self.fit(without[i]), each, self.n_jobs)
        ptr = np.cumsum([0, *(at.size for at in rows)])
        own, others = np.empty((2, self.hierarchy.n_labels, ptr[-1]))
        for at, first, fit in zip(rows, ptr, fits, strict=False):
            stop = first + at.size
            self._write(fit, self.place[:, at], own[:, first:stop], others[:, first:stop])
        samples = np.concatenate(rows)
        weight = np.empty((0, 0))
        if self.is_weighted:
            weight = np.concatenate([self._pair_weights(at) for at in rows]).T
        return HeldOutEvidence(
            own,
            others,
            np.ascontiguousarray(self.truth.positive[samples].T),
            np.stack([prior.log_odds for _, prior in fits]),
            ptr,
            np.ascontiguousarray(weight),
        )

    def _write(
        self, fit: tuple[Float, LabelPrior], place: Float, own: Float, others: Float
    ) -> None:
        """Write the evidence of the samples at some places between the bins."""
        table, prior = fit
        rise = np.diff(table, append=0.0)
        prior_log_odds, first = prior.log_odds[:, None], self.bins.ptr[:-1, None]

        def write(start: int, stop: int) -> None:
            bin_place = place[:, start:stop]
            missing = np.isnan(bin_place)
            bin_place = np.where(missing, 0.0, bin_place)
            at = bin_place.astype(np.int64)
            part = bin_place - at
            at += first
            log_odds = table.take(at) + part * rise.take(at)
            own[:, start:stop] = np.where(missing, 0.0, log_odds - prior_log_odds)
            lpr = np.where(missing, np.nan, 1.0 / (1.0 + np.exp(-log_odds)))
            evidence = posteriors(lpr.T, prior, self.hierarchy, of_others=True, n_jobs=1)
            others[:, start:stop] = evidence.T

        run_chunks(write, cached_chunks(place.shape[1], len(place)), self.n_jobs)

    def fit(self, without: frozenset[int]) -> tuple[Float, LabelPrior]:
        """Fit log-odds of all bins and the prior on all parts except some; results are cached."""
        if without not in self._fits:
            used = ~np.isin(self.part, list(without))
            if self._counts is None:  # the weight of a pair depends on which samples there are
                positive, total = self._count(used, self._pair_weights(used))
            else:
                positive, total = sum(self._counts[p] for p in np.unique(self.part[used]))
            n_samples = float(np.count_nonzero(used))
            groups = ScoreGroups(self.bins.ptr, self.bins.score, positive, total, n_samples)
            log_odds = refit(groups, self.hierarchy.levels, self.method)
            weight = None if self.sample_weight is None else self.sample_weight[used]
            prior = fit_prior(self.truth[used], self.hierarchy, weight)
            self._fits[without] = log_odds, prior
        return self._fits[without]

    def _count(self, rows: NDArray[np.bool_], weight: Float | None = None) -> Float:
        """Positives and samples per bin, each counted in the nearest one, of some samples."""
        place, n_bins = self.place[:, rows], self.bins.score.size
        is_scored, positive = ~np.isnan(place), self.truth.positive[rows].T
        cell = (np.where(is_scored, place + 0.5, 0.0).astype(np.int64) + self.bins.ptr[:-1, None])[
            is_scored
        ]
        weights = np.ones(cell.size) if weight is None else weight.T[is_scored]
        counts = [np.bincount(cell, x, n_bins) for x in (weights * positive[is_scored], weights)]
        return np.asarray(counts, np.float64)

    def _pair_weights(self, rows: Any) -> Float:
        """Weights of the (sample, label) pairs of some samples."""
        truth, h = self.truth[rows], self.hierarchy
        sample_weight = None if self.sample_weight is None else self.sample_weight[rows]
        return np.stack(
            [curve_weights(truth, h, k, sample_weight) for k in range(h.n_labels)], axis=1
        )


def cached_chunks(n_samples: int, n_labels: int) -> list[int]:
    """Bounds of runs of samples whose temporary arrays stay in the cache."""
    step = max(8, _CACHED_VALUES // n_labels)
    return even_chunks(n_samples, max(1, -(-n_samples // step)))


def bin_scores(scores: Float, n_jobs: int = 1) -> tuple[LabelBins, Float]:
    """Put the scores of each label in bins of equal width in the normal score of the rank.

    Also returns, in rows of labels, the place of every score between the bins of its label: 2.5 if
    it lies halfway between the scores of bins 2 and 3, NaN if it is missing.
    """
    n_labels = scores.shape[1]

    def put_in_bins(start: int, stop: int) -> LabelBins:
        columns = scores[:, start:stop].T.copy()
        is_scored = ~np.isnan(columns)
        unscored = ~is_scored.any(axis=1)
        columns[unscored], is_scored[unscored, 0] = 0.0, True
        truth = np.zeros(columns.shape, np.bool_)
        groups = group_sorted(columns, truth, is_scored.astype(np.float64), float(len(scores)))
        return LabelBins.of(groups, np.zeros(groups.total.size))

    parts = run_chunks(put_in_bins, even_chunks(n_labels, min(n_labels, n_jobs)), n_jobs)
    bins = LabelBins.join(parts)
    number = np.arange(bins.score.size) - np.repeat(bins.ptr[:-1], np.diff(bins.ptr))
    places = LPRCurves(bins.ptr, bins.score, number.astype(np.float64), _is_checked=True)
    return bins, np.ascontiguousarray(np.asarray(places.evaluate(scores, n_jobs=n_jobs)).T)
