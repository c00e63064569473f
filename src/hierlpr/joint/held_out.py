"""Evidence about samples from LPRs and priors that did not see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._threads import even_chunks, n_threads_or_default, row_chunks, run_chunks
from hierlpr._kernels.coarse_scores import coarsen_scores, count_codes, look_up_codes
from hierlpr._kernels.forest_evidence import forest_evidence
from hierlpr._kernels.joint_temper import Evidence
from hierlpr.data.partial_truth import PartialTruth, curve_weights
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint.posterior import BOUNDS, is_exact, main_tree, posteriors
from hierlpr.joint.prior import LabelPrior, count_labels, fit_prior, prior_of_counts
from hierlpr.lpr import ScoreGroups, fit_data
from hierlpr.lpr.auto import Auto
from hierlpr.lpr.groups import TruthCounts
from hierlpr.lpr.p_spline import normal_table

Float = NDArray[np.float64]
Ints = NDArray[np.int64]

N_CODES = 64  # coarser than the curves' own bins, finer than what their splines can bend
_CHUNK_VALUES = 2**16  # scores sorted together, or LPRs in between: they stay in the cache


class HeldOut:
    """Samples in parts, and what is learned of them from other parts.

    Curves and priors are fitted without one part or two, often on nearly the same samples. What
    all fits share is done once: the scores of a label are sorted and coarsened to at most `N_CODES`
    values, between which curves are interpolated. Coarsening looks at scores alone, never at truth,
    so that a fit knows nothing of whether the labels of a part that it leaves out hold.

    Inside, samples are sorted by part, and rows of matrices are labels: so everything that is done
    label by label, which is all but the posterior, runs along the memory.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels)
        NaN if missing.
    truth : ndarray or PartialTruth of the same shape
    hierarchy : Hierarchy
    part : ndarray of shape (n_samples,)
        Number of each sample's part.
    method : str or estimator, or one a label
    n_threads : int, optional
    sample_weight : ndarray of shape (n_samples,), optional
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
        self.method = _coarser(method)
        self.n_threads = n_threads_or_default(n_threads)
        by_part = np.argsort(part, kind="stable")
        self.truth = truth[by_part]
        self.sample_weight = None if sample_weight is None else sample_weight[by_part]
        held = self.truth.held if isinstance(self.truth, PartialTruth) else self.truth
        self.held = np.ascontiguousarray(held.T)
        self.part_ptr = np.concatenate([np.zeros(1, np.int64), np.bincount(part).cumsum()])
        column = np.empty_like(by_part)
        column[by_part] = np.arange(by_part.size)
        self.code, self.place, self.score, self.n_scores = _coarsen(scores, column, self.n_threads)
        # What a pair counts depends on which samples there are: then parts do not add up.
        self._counts = None if self.is_weighted else self._count(np.empty((0, 0)))
        self._label_counts = None if self.is_weighted else self._count_labels()
        self._fits: dict[frozenset[int], tuple[Float, LabelPrior]] = {}

    def evidence(
        self, left_out: Mapping[int, frozenset[int]], room: Float | None = None
    ) -> Evidence:
        """Return the evidence of parts, each from a fit without the parts named with it.

        Samples come part by part, each a fold. The numbers are put in `room` if it is given, of two
        for each pair at least.
        """
        self.fit(left_out.values())
        parts = [slice(*self.part_ptr[number : number + 2]) for number in left_out]
        ptr = np.cumsum([0, *(part.stop - part.start for part in parts)])
        shape = 2, self.hierarchy.n_labels, int(ptr[-1])
        own, others = np.empty(shape) if room is None else room[: math.prod(shape)].reshape(shape)
        for part, without, first in zip(parts, left_out.values(), ptr[:-1], strict=True):
            self._write(part, without, own, others, first)
        weight = np.empty((0, 0))
        if self.is_weighted:
            weight = np.concatenate([self._pair_weights(part) for part in parts], axis=1)
        return Evidence(
            own,
            others,
            np.concatenate([self.held[:, part] for part in parts], axis=1),
            np.stack([self._fits[without][1].log_odds for without in left_out.values()]),
            ptr,
            weight,
        )

    def _write(
        self, part: slice, without: frozenset[int], own: Float, others: Float, first: int
    ) -> None:
        """Write the evidence of a part to the columns from `first` on."""
        table, prior = self._fits[without]
        threads, n_samples = self.n_threads, part.stop - part.start
        if not is_exact(self.hierarchy) or self.hierarchy.is_forest:
            tree = main_tree(prior, self.hierarchy)

            def weigh(a: int, b: int) -> None:
                forest_evidence(
                    self.place, part.start + a, part.start + b, table, prior.log_odds, tree,
                    BOUNDS, own, others, first + a,
                )  # fmt: skip

            run_chunks(weigh, row_chunks((n_samples, len(table)), threads), threads)
            return
        step = max(64, _CHUNK_VALUES * threads // len(table))
        for a in range(0, n_samples, step):
            b = min(a + step, n_samples)
            lpr = np.empty((b - a, len(table)))
            look_up_codes(
                self.place, part.start + a, part.start + b, table, prior.log_odds, lpr, own,
                first + a,
            )  # fmt: skip
            found = posteriors(
                lpr, prior, self.hierarchy, with_posterior=False, with_others=True,
                n_threads=threads,
            )  # fmt: skip
            others[:, first + a : first + b] = found[1].T

    def fit(self, asked: Iterable[frozenset[int]]) -> None:
        """Fit log-odds at the codes (n_labels, N_CODES) and priors, each without some parts.

        Fits to equally many samples are made together, as if their labels were different ones: so
        it is best asked at once for all that `evidence` is going to need.
        """
        together: dict[int, list[frozenset[int]]] = {}
        for without in dict.fromkeys(asked):
            if without not in self._fits:
                size = int(np.count_nonzero(self._use(without)))
                together.setdefault(size, []).append(without)
        for size, left_out in together.items():
            self._fit_together(size, left_out)

    def _fit_together(self, size: int, left_out: list[frozenset[int]]) -> None:
        n_fits, n_labels = len(left_out), self.hierarchy.n_labels
        positive, total = np.concatenate([self._counts_without(out) for out in left_out], axis=1)
        data = _CodeCounts(positive, total, self.score, self.n_scores, float(size))
        method = self.method
        if isinstance(method, Sequence) and not isinstance(method, str):
            method = list(method) * n_fits
        model = fit_data(
            data,
            method=method,
            n_threads=self.n_threads,
            pool=np.repeat(np.arange(n_fits), n_labels),
            with_seen=False,
        )
        lpr = model.predict(np.tile(self.score.T, n_fits), n_threads=self.n_threads)
        log_odds = np.ascontiguousarray((np.log(lpr) - np.log1p(-lpr)).T)
        for f, without in enumerate(left_out):
            table = log_odds[f * n_labels : (f + 1) * n_labels]
            self._fits[without] = table, self._prior(without, size)

    def _use(self, without: frozenset[int]) -> NDArray[np.bool_]:
        """Which samples are in none of some parts."""
        use = np.ones(self.part_ptr[-1], dtype=bool)
        for number in without:
            use[self.part_ptr[number] : self.part_ptr[number + 1]] = False
        return use

    def _counts_without(self, without: frozenset[int]) -> Float:
        """Positives and samples of each (label, code), of all but some parts."""
        counts = self._counts
        if counts is None:
            use = self._use(without)
            weight = np.zeros(self.code.shape)
            weight[:, use] = self._pair_weights(use)
            counts = self._count(weight)
        positive, total = _sum_without(counts, without)
        # In a part of the samples nothing may be known of a label: it is then not seen to hold.
        nothing = ~np.any(total > 0.0, axis=1)
        total[nothing, 0] = np.count_nonzero(self._use(without))
        return np.stack([positive, total])

    def _count(self, weight: Float) -> list[Float]:
        """Positives and samples of each (label, code), by part."""
        counts = [np.zeros((2, self.hierarchy.n_labels, N_CODES)) for _ in self.part_ptr[1:]]
        for (start, stop), (positive, total) in zip(pairwise(self.part_ptr), counts, strict=True):
            count_codes(self.code, self.held, weight, start, stop, positive, total)
        return counts

    def _prior(self, without: frozenset[int], size: int) -> LabelPrior:
        """Prior of all samples but those of some parts."""
        if self._label_counts is not None:
            positive, possible = _sum_without(self._label_counts, without)
            return prior_of_counts(positive, possible, size, self.hierarchy)
        use = self._use(without)
        weight = None if self.sample_weight is None else self.sample_weight[use]
        return fit_prior(self.truth[use], self.hierarchy, weight)

    def _count_labels(self) -> list[Float]:
        """Count the samples of each label, and those in which all its parents hold, by part."""
        bounds = pairwise(self.part_ptr)
        return [np.stack(count_labels(self.truth[a:b], self.hierarchy)) for a, b in bounds]

    @property
    def is_weighted(self) -> bool:
        """Whether pairs count differently."""
        return self.sample_weight is not None or isinstance(self.truth, PartialTruth)

    def _pair_weights(self, rows: Any) -> Float:
        """Return what each pair of some samples counts, of shape (n_labels, n_samples)."""
        truth, h = self.truth[rows], self.hierarchy
        given = None if self.sample_weight is None else self.sample_weight[rows]
        return np.stack([curve_weights(truth, h, k, given) for k in range(h.n_labels)])


def _sum_without(counts: Sequence[Float], without: frozenset[int]) -> Float:
    """Sum of what was counted in all but some parts."""
    kept = [one for number, one in enumerate(counts) if number not in without]
    return np.asarray(np.sum(kept, axis=0))


def _coarser(method: Any) -> Any:
    """Return the quick kin of the default estimator, and others as they are."""
    if isinstance(method, Sequence) and not isinstance(method, str):
        return [_coarser(one) for one in method]
    return Auto().coarser() if method == Auto.name else method


def _coarsen(
    scores: Float, column: Ints, n_threads: int
) -> tuple[NDArray[np.int8], Float, Float, Ints]:
    """Codes of scores, their places on the scale of codes, and of each label's codes and scores.

    Rows are labels, and sample ``m`` is in ``column[m]``. Of the codes (n_labels, N_CODES) a score
    that stands for them, which rises along a label and stays as it is beyond its last code; of the
    scores, how many different ones there are.
    """
    n_samples, n_labels = scores.shape
    code = np.empty((n_labels, n_samples), dtype=np.int8)
    place = np.empty((n_labels, n_samples))
    middle = np.zeros((n_labels, N_CODES))
    n_scores = np.empty(n_labels, dtype=np.int64)
    table = normal_table(n_samples)

    def coarsen(start: int, stop: int) -> None:
        rows = np.ascontiguousarray(scores[:, start:stop].T)
        order = np.argsort(rows, axis=1)
        coarsen_scores(rows, order, column, table, start, code, place, middle, n_scores)

    n_chunks = max(-(-scores.size // _CHUNK_VALUES), min(n_labels, n_threads))
    run_chunks(coarsen, even_chunks(n_labels, min(n_chunks, n_labels)), n_threads)
    return code, place, middle, n_scores


@dataclass(frozen=True, slots=True, eq=False)
class _CodeCounts:
    """Training data of labels as counts of their codes.

    There may be several fits of all labels, one after the other, on the same scores.
    """

    positive: Float
    total: Float
    score: Float
    n_scores: Ints
    n_samples: float

    @property
    def n_labels(self) -> int:
        return int(self.total.shape[0])

    @property
    def values_per_label(self) -> int:
        return int(self.total.shape[1])

    def groups(self, labels: Ints) -> ScoreGroups:
        total, positive = self.total[labels], self.positive[labels]
        there = total > 0.0
        ptr = np.concatenate([np.zeros(1, np.int64), np.count_nonzero(there, axis=1).cumsum()])
        return ScoreGroups(
            ptr,
            self.score[labels % self.n_scores.size][there],
            positive[there],
            total[there],
            self.n_samples,
            self.n_scores[labels % self.n_scores.size],
        )

    def count_truth(self, labels: Ints) -> TruthCounts:
        positives = np.rint(self.positive[labels].sum(axis=1)).astype(np.int64)
        return TruthCounts.of(
            positives, np.rint(self.total[labels].sum(axis=1)).astype(np.int64) - positives
        )
