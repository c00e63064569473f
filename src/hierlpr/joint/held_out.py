"""Evidence about samples from LPRs and priors that did not see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._threads import even_chunks, n_threads_or_default, row_chunks, run_chunks
from hierlpr._kernels.coarse_scores import coarsen_scores, count_codes, look_up_codes
from hierlpr._kernels.joint_temper import Evidence
from hierlpr.data.partial_truth import PartialTruth, curve_weights
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint.posterior import posteriors
from hierlpr.joint.prior import LabelPrior, fit_prior
from hierlpr.lpr import ScoreGroups, fit_data
from hierlpr.lpr.auto import Auto
from hierlpr.lpr.groups import TruthCounts
from hierlpr.lpr.p_spline import normal_table

Float = NDArray[np.float64]
Ints = NDArray[np.int64]

N_CODES = 64  # coarser than the curves' own bins, finer than what their splines can bend
_CHUNK_VALUES = 2**18  # scores sorted together


class HeldOut:
    """Samples in parts, and what is learned of them from other parts.

    Curves and priors are fitted without one part or two, often on nearly the same samples. What
    all fits share is done once: the scores of a label are sorted and coarsened to at most `N_CODES`
    values, between which curves are interpolated. Coarsening looks at scores alone, never at truth,
    so that a fit knows nothing of whether the labels of a part that it leaves out hold.

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
        self.truth = truth
        self.sample_weight = sample_weight
        self.hierarchy = hierarchy
        self.part = part
        self.method = _coarser(method)
        self.n_threads = n_threads_or_default(n_threads)
        self.code, self.place, self.score, self.n_scores = _coarsen(scores, self.n_threads)
        self._fits: dict[frozenset[int], tuple[Float, LabelPrior]] = {}

    def evidence(self, left_out: Mapping[int, frozenset[int]]) -> Evidence:
        """Return the evidence of parts, each from a fit without the parts named with it.

        Samples come part by part; which fit a sample's evidence is from is its fold.
        """
        rows = [np.flatnonzero(self.part == number) for number in left_out]
        parts = [
            self._evidence_of(at, f, without)
            for f, (at, without) in enumerate(zip(rows, left_out.values(), strict=True))
        ]
        return Evidence(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))

    def _evidence_of(self, rows: Ints, fold: int, without: frozenset[int]) -> Evidence:
        table, prior = self._fit(without)
        place = self.place[rows]
        lpr, own = np.empty_like(place), np.empty_like(place)
        before = prior.log_odds

        def look_up(start: int, stop: int) -> None:
            at = slice(start, stop)
            look_up_codes(place[at], table, before, lpr[at], own[at])

        run_chunks(look_up, row_chunks(place.shape, self.n_threads), self.n_threads)
        threads, h = self.n_threads, self.hierarchy
        _, others = posteriors(lpr, prior, h, with_others=True, n_threads=threads)
        held, weight = self.truth[rows], np.empty((0, place.shape[1]))
        if self.is_weighted:
            weight = np.ascontiguousarray(self._pair_weights(rows).T)
            held = held.held if isinstance(held, PartialTruth) else held
        return Evidence(
            own,
            others,
            np.ascontiguousarray(held),
            before[np.newaxis],
            np.full(rows.size, fold, np.int64),
            weight,
        )

    def _fit(self, without: frozenset[int]) -> tuple[Float, LabelPrior]:
        """Log-odds at the codes (N_CODES, n_labels) and the prior, from the other parts."""
        if without not in self._fits:
            use = ~np.isin(self.part, list(without))
            groups = self._count(use)
            data = _CodeCounts(*groups, self.score, self.n_scores, float(np.count_nonzero(use)))
            model = fit_data(data, method=self.method, n_threads=self.n_threads)
            lpr = model.predict(np.ascontiguousarray(self.score.T), n_threads=self.n_threads)
            log_odds = np.ascontiguousarray(np.log(lpr) - np.log1p(-lpr))
            weight = None if self.sample_weight is None else self.sample_weight[use]
            self._fits[without] = log_odds, fit_prior(self.truth[use], self.hierarchy, weight)
        return self._fits[without]

    def _count(self, use: NDArray[np.bool_]) -> tuple[Float, Float]:
        """Positives and samples of each (label, code) among those in use."""
        held, weight = self.truth, np.empty((0, 0))
        n_labels = self.hierarchy.n_labels
        if self.is_weighted:
            weight = np.zeros((n_labels, use.size))
            weight[:, use] = self._pair_weights(use)
            held = held.held if isinstance(held, PartialTruth) else held
        positive, total = np.zeros((2, n_labels, N_CODES))
        count_codes(self.code, np.ascontiguousarray(held), use, weight, positive, total)
        # In a part of the samples nothing may be known of a label: it is then not seen to hold.
        nothing = ~np.any(total > 0.0, axis=1)
        total[nothing, 0] = np.count_nonzero(use)
        return positive, total

    @property
    def is_weighted(self) -> bool:
        """Whether pairs count differently."""
        return self.sample_weight is not None or isinstance(self.truth, PartialTruth)

    def _pair_weights(self, rows: Any) -> Float:
        """Return what each pair of some samples counts, of shape (n_labels, n_samples)."""
        truth, h = self.truth[rows], self.hierarchy
        given = None if self.sample_weight is None else self.sample_weight[rows]
        return np.stack([curve_weights(truth, h, k, given) for k in range(h.n_labels)])


def _coarser(method: Any) -> Any:
    """Return the quick kin of the default estimator, and others as they are."""
    if isinstance(method, Sequence) and not isinstance(method, str):
        return [_coarser(one) for one in method]
    return Auto().coarser() if method == Auto.name else method


def _coarsen(scores: Float, n_threads: int) -> tuple[NDArray[np.int8], Float, Float, Ints]:
    """Codes of scores, their places on the scale of codes, and of each label's codes and scores.

    Of the codes (n_labels, N_CODES) a score that stands for them, which rises along a label and
    stays as it is beyond its last code; of the scores, how many different ones there are.
    """
    n_samples, n_labels = scores.shape
    code = np.empty(scores.shape, dtype=np.int8)
    place = np.empty(scores.shape)
    n_scores = np.empty(n_labels, dtype=np.int64)
    middle = np.zeros((n_labels, N_CODES))
    table = normal_table(n_samples)

    def coarsen(start: int, stop: int) -> None:
        rows = np.ascontiguousarray(scores[:, start:stop].T)
        order = np.argsort(rows, axis=1)
        coarsen_scores(rows, order, table, N_CODES, start, code, place, n_scores)
        for k in range(start, stop):
            sorted_code = code[order[k - start], k]
            end = np.searchsorted(sorted_code[sorted_code >= 0], np.arange(N_CODES), side="right")
            if end[-1] > 0:
                at = (np.concatenate([[0], end[:-1]]) + end - 1) // 2
                middle[k] = rows[k - start, order[k - start, np.minimum(at, end[-1] - 1)]]

    n_chunks = max(-(-scores.size // _CHUNK_VALUES), min(n_labels, n_threads))
    run_chunks(coarsen, even_chunks(n_labels, min(n_chunks, n_labels)), n_threads)
    return code, place, middle, n_scores


@dataclass(frozen=True, slots=True, eq=False)
class _CodeCounts:
    """Training data of labels as counts of their codes."""

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
            self.score[labels][there],
            positive[there],
            total[there],
            self.n_samples,
            self.n_scores[labels],
        )

    def count_truth(self, labels: Ints) -> TruthCounts:
        positives = np.rint(self.positive[labels].sum(axis=1)).astype(np.int64)
        return TruthCounts.of(
            positives, np.rint(self.total[labels].sum(axis=1)).astype(np.int64) - positives
        )
