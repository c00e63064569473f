"""How far to trust the joint posterior, learned on held-out samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_chunks, run_chunks
from hierlpr._kernels.joint import Cells, HeldOutEvidence, fit_weights, gather_cells
from hierlpr.hierarchy import Hierarchy
from hierlpr.metrics.influence import au_prc_influence
from hierlpr.ranking.blocks import consistent_scores

Float = NDArray[np.float64]

USES = ("none", "exact", "shared", "depth", "label")  # the simplest first

PLAIN = np.array([1.0, 0.0, 0.0])  # own, others, shift: the unchanged LPR
EXACT = np.array([1.0, 1.0, 0.0])  # the unchanged joint posterior

# Ridge penalties toward the next coarser fit: in units of information, so a label needs evidence of
# that order before its weights leave those of its depth.
SHARED_PENALTY = 1.0
DEPTH_PENALTY = 5.0
LABEL_PENALTY = 50.0

# Intervals of evidence that is merged: how many per unit of log-odds near 0, and the range.
PER_UNIT = 4
N_UNITS = 40
_LABELS = 32  # merged into cells at a time, and at most about this many pairs
_GATHERED_VALUES = 2**17
_CACHED_VALUES = 2**13  # pairs whose log-losses are computed at a time

# Standard errors by which a candidate must beat the LPRs to be used at all, and to be used in full;
# chosen in experiments/joint/small_n.py.
LEAST_MARGIN = 1.5
FULL_MARGIN = 3.0
# Standard errors of AU(PRC) that it may lose. Log-loss rewards calibration, which scores that are
# wrong for a whole sample at once improve while they spoil the ranking.
RANKING_MARGIN = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Tempering:
    """Weights of the evidence per label, and how they were chosen.

    Attributes
    ----------
    own, others, shift : ndarray of shape (n_labels,)
        The log-odds of a label are those of its prior, plus `own` times the evidence of its own
        score, plus `others` times the evidence of the other labels, plus `shift`. (1, 0, 0) is the
        LPR, (1, 1, 0) the joint posterior.
    use : str
        ``"none"``: the LPRs; ``"exact"``: the joint posterior; ``"shared"``, ``"depth"``,
        ``"label"``: one set of weights for all labels, per depth, or per label.
    loss : dict of str to float
        Held-out log-loss per sample of each candidate; empty if there was no choice.
    gain, gain_error : float
        Held-out log-loss of the LPRs minus that of the chosen candidate, and its standard error.
    share : float
        How far the weights go from the LPR to the chosen candidate: 1 if the gain is clear.
    ranking_gain, ranking_error : float
        Gain of the candidate in held-out AU(PRC), and its standard error. A candidate that loses
        more than one standard error is not used.
    """

    own: Float
    others: Float
    shift: Float
    use: str
    loss: dict[str, float] = field(default_factory=dict)
    gain: float = 0.0
    gain_error: float = 0.0
    share: float = 1.0
    ranking_gain: float = 0.0
    ranking_error: float = 0.0

    @classmethod
    def fixed(cls, use: str, n_labels: int) -> Tempering:
        """Return weights for the use "none" or "exact", which need no data."""
        return cls.of(np.tile(PLAIN if use == "none" else EXACT, (n_labels, 1)), use)

    @classmethod
    def of(cls, weights: Float, use: str) -> Tempering:
        """Build from a matrix (n_labels, 3) of own, others, shift."""
        own, others, shift = np.ascontiguousarray(weights.T)
        return cls(own, others, shift, use)

    def select(self, labels: NDArray[np.integer], n_new: int = 0) -> Tempering:
        """Return the weights of some labels, followed by defaults for `n_new` new labels."""
        new = EXACT if self.use == "exact" else PLAIN
        own, others, shift = (
            np.concatenate([column[labels], np.full(n_new, fill)])
            for column, fill in zip((self.own, self.others, self.shift), new, strict=True)
        )
        return replace(self, own=own, others=others, shift=shift, loss=dict(self.loss))

    def describe(self) -> str:
        """Describe the choice in a sentence."""
        if self.use == "none":
            why = "."
            if self.ranking_gain < 0.0:
                why = (
                    ": it had a lower log-loss on held-out samples, but ranked them worse "
                    f"(AU(PRC) {self.ranking_gain:+.3g} +- {self.ranking_error:.2g})."
                )
            elif self.loss:
                why = ": on held-out samples its log-loss was not clearly below that of the LPRs."
            return f"The joint posterior is not used{why}"
        if not self.loss:
            return "The joint posterior is used unchanged."
        scope = {
            "exact": "unchanged",
            "shared": "with one weight for all labels",
            "depth": "with one weight per depth",
            "label": "with one weight per label",
        }[self.use]
        plain = self.loss["none"]
        text = (
            f"The joint posterior is used {scope} (mean weight of other labels' evidence "
            f"{self.others.mean():.2f}): held-out log-loss {plain - self.gain:.4g} per sample "
            f"instead of {plain:.4g} (gain {self.gain:.3g} +- {self.gain_error:.2g})."
        )
        if self.share == 1.0:
            return text
        return (
            f"{text} Because this gain is uncertain, the weights are moved {self.share:.0%} of the "
            "way from the LPRs to the best candidate."
        )


def best_candidate(losses: Mapping[str, Float]) -> tuple[str, float, float, float]:
    """Return the candidate of least log-loss, how far to go towards it, and its gain with error.

    If its gain is below `LEAST_MARGIN` standard errors (as a quantile of Student's t
    distribution), the LPRs stay; from `FULL_MARGIN` on the candidate is used in full; in between
    its weights go part of the way. The log-loss is convex in the weights, so going part of the way
    keeps at least that part of the gain on the held-out samples.
    """
    use = min(losses, key=lambda name: float(losses[name].mean()))
    gain = losses["none"] - losses[use]
    mean, error = float(gain.mean()), float(gain.std(ddof=1) / math.sqrt(gain.size))
    chance = scipy.special.ndtr([LEAST_MARGIN, FULL_MARGIN])
    least, full = scipy.special.stdtrit(gain.size - 1, chance) * error
    if mean <= least:
        return "none", 1.0, 0.0, error
    return use, 1.0 if mean >= full else float((mean - least) / (full - least)), mean, error


def part_of_the_way(tempering: Tempering, share: float) -> Tempering:
    """Interpolate between the weights of the LPR and the given ones."""
    if share == 1.0:
        return tempering
    full = np.stack([tempering.own, tempering.others, tempering.shift], axis=1)
    use = "shared" if tempering.use == "exact" else tempering.use  # no longer unchanged
    return replace(Tempering.of(PLAIN + share * (full - PLAIN), use), share=share)


def ranking_gain(
    evidence: HeldOutEvidence, weights: Sequence[Float], hierarchy: Hierarchy, n_jobs: int = 1
) -> tuple[float, float]:
    """Return the gain in AU(PRC) over the LPRs on held-out samples, and its standard error.

    The samples of fold f are ranked by their block scores with ``weights[f]``.
    """
    n_samples = int(evidence.fold_ptr[len(weights)])
    truth = evidence.truth[:, :n_samples].T
    weight: Any = evidence.weight[:, :n_samples].T if evidence.weight.size else 1.0
    areas = []
    for candidate in (np.tile(PLAIN, (len(weights), hierarchy.n_labels, 1)), weights):
        score = np.empty(truth.shape)
        for fold, each in enumerate(candidate):
            at = slice(*evidence.fold_ptr[fold : fold + 2])
            p = scipy.special.expit(tempered_log_odds(evidence, each, at, fold).T)
            score[at] = consistent_scores(p, hierarchy, n_jobs=n_jobs)
        areas.append(au_prc_influence(truth, score, weight))
    (before, influence_before), (after, influence_after) = areas
    return after - before, float(np.linalg.norm(influence_after - influence_before))


def tempered_log_odds(evidence: HeldOutEvidence, weights: Float, at: slice, fold: Any) -> Float:
    """Return log-odds (n_labels, n) of consecutive samples, given the fold of each or of all."""
    log_odds = weights[:, :1] * evidence.own[:, at]
    log_odds += weights[:, 1:2] * evidence.others[:, at]
    log_odds += weights[:, 2:] + np.atleast_2d(evidence.prior[fold]).T
    return log_odds


def losses_of(
    evidence: HeldOutEvidence, weights: Float, n_jobs: int = 1, *, fold: int | None = None
) -> Float:
    """Return the log-loss of every sample, or of the samples of one fold."""
    n_samples = evidence.own.shape[1]
    first, last = (0, n_samples) if fold is None else evidence.fold_ptr[fold : fold + 2]
    loss = np.empty(n_samples)

    def add_up(start: int, stop: int) -> None:
        at = slice(first + start, first + stop)
        fold_of = np.searchsorted(evidence.fold_ptr, np.arange(at.start, at.stop), side="right") - 1
        log_odds = tempered_log_odds(evidence, weights, at, fold_of)
        against = np.where(evidence.truth[:, at], -log_odds, log_odds)
        # Several times as fast as logaddexp.
        pair = np.maximum(against, 0.0) + np.log(1.0 + np.exp(-np.abs(against)))
        loss[at] = (pair * evidence.weight[:, at] if evidence.weight.size else pair).sum(axis=0)

    # Few samples at a time, so that all temporary arrays stay in the cache.
    step = max(1, _CACHED_VALUES // evidence.own.shape[0])
    n_chunks = max(1, -(-int(last - first) // step))
    run_chunks(add_up, even_chunks(int(last - first), n_chunks), n_jobs)
    return loss[first:last]


def fit_candidates(
    evidence: HeldOutEvidence,
    hierarchy: Hierarchy,
    n_jobs: int,
    start: Mapping[str, Float] | None = None,
) -> dict[str, Float]:
    r"""Fit the weights (n_labels, 3) of every candidate, the simplest first.

    For label :math:`k` with prior log-odds :math:`\lambda_k`, own evidence
    :math:`a_k = \mathrm{logit}\,\ell_k - \lambda_k` and the others' evidence
    :math:`e_k = \mathrm{logit}\,P_k - \mathrm{logit}\,\ell_k`, the tempered log-odds are
    :math:`\lambda_k + w_k a_k + t_k e_k + b_k` with :math:`w_k, t_k \in [0, 1]`. They maximize
    the likelihood of the truth with ridge penalties that shrink the weights of a label to those of
    its depth, these to those of all labels, and these to the LPR. `start` are weights fitted to
    similar evidence, to start from; they do not change the result.
    """
    n_labels = evidence.own.shape[0]
    cells = gather(evidence, n_jobs)
    depth = np.unique(hierarchy.levels, return_inverse=True)[1].astype(np.int64)
    all_labels = np.zeros(n_labels, dtype=np.int64)
    each = np.arange(n_labels)

    def fit(use: str, group: NDArray[np.int64], target: Float, strength: float) -> Float:
        weights = target.copy()
        if start is not None:
            weights[group] = start[use]
        _fit_groups(cells, group, target, strength, n_jobs, weights)
        return weights

    shared = fit("shared", all_labels, PLAIN[np.newaxis], SHARED_PENALTY)
    by_depth = fit("depth", depth, np.repeat(shared, depth.max() + 1, axis=0), DEPTH_PENALTY)
    by_label = fit("label", each, by_depth[depth], LABEL_PENALTY)
    return {
        "none": np.tile(PLAIN, (n_labels, 1)),
        "exact": np.tile(EXACT, (n_labels, 1)),
        "shared": shared[all_labels],
        "depth": by_depth[depth],
        "label": by_label,
    }


def gather(evidence: HeldOutEvidence, n_jobs: int = 1) -> Cells:
    """Merge pairs of nearly equal evidence into cells, to fit the weights faster.

    An interval of log-odds is 1/4 wide up to 1, then twice as wide up to 3, 7, 15 and so on. A cell
    has the mean evidence of its pairs; the error of the fitted weights is of second order.
    """
    scaled = 1.0 + np.arange(N_UNITS * PER_UNIT) / PER_UNIT
    octave = np.floor(np.log2(scaled))
    interval = (PER_UNIT * (octave + scaled / 2.0**octave - 1.0)).astype(np.int32)
    n_labels, n_samples = evidence.own.shape
    largest = min(_LABELS, max(1, _GATHERED_VALUES // n_samples))
    parts = run_chunks(
        lambda start, stop: gather_cells(evidence, interval, float(PER_UNIT), start, stop),
        even_chunks(n_labels, min(n_labels, max(4 * n_jobs, -(-n_labels // largest)))),
        n_jobs,
    )
    sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.ptr) for part in parts)])
    return Cells(sizes.cumsum(), *(np.concatenate(x) for x in list(zip(*parts, strict=True))[1:]))


def _fit_groups(
    cells: Cells,
    group: NDArray[np.int64],
    target: Float,
    strength: float,
    n_jobs: int,
    weights: Float,
) -> None:
    """Optimize weights (n_groups, 3) in place, each shrunk to its row of `target`."""
    members = np.argsort(group, kind="stable")
    ptr = np.concatenate([np.zeros(1, np.int64), np.bincount(group).cumsum()])

    def fit(start: int, stop: int) -> None:
        fit_weights(cells, ptr, members, target, strength, start, stop, weights)

    n_chunks = min(ptr.size - 1, 4 * n_jobs)
    run_chunks(fit, even_chunks(ptr.size - 1, n_chunks), n_jobs)
