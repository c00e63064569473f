"""How far to trust the joint posterior, learned on held-out samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_chunks, run_chunks
from hierlpr._kernels.joint import Cells, HeldOutEvidence, fit_weights, gather_cells
from hierlpr._kernels.traversal import max_up
from hierlpr.hierarchy import Hierarchy
from hierlpr.metrics.influence import au_prc_influence
from hierlpr.ranking.blocks import consistent_scores

Float = NDArray[np.float64]

# LPRs, the joint posterior, weights per label; LPRs, or what these weights give, raised to the
# largest value at or below each label.
USES = ("none", "exact", "label", "largest", "label and largest")

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

# Standard errors by which log-loss and AU(PRC) must beat those of the LPRs for the weights to be
# used at all, and to be used in full. Log-loss rewards calibration, which scores that are wrong for
# a whole sample at once improve while they spoil the ranking: so both count.
LOSS_MARGINS = 1.5, 3.0  # chosen in experiments/joint/small_n.py
RANKING_MARGINS = 1.0, 2.0  # chosen on samples with saturated scores (experiments/joint, faulty)


@dataclass(frozen=True, slots=True, eq=False)
class Tempering:
    """Weights of the evidence per label, and how they were chosen.

    The log-odds of a label are those of its prior, plus `own` times the evidence of its own score,
    plus `others` times the evidence of the other labels, plus `shift`: (1, 0, 0) is the LPR
    (`use` is "none"), (1, 1, 0) the joint posterior ("exact"), anything else is learned ("label").
    They are then raised toward the largest at or below the label if `use` says so. `loss` is
    the held-out log-loss per sample of each candidate, empty if there was no choice. `gain` is that
    of the LPRs minus that of the best candidate, `ranking_gain` the gain in AU(PRC), each with its
    standard error. `share` says how far the weights go from the LPR to the best candidate: 1 if
    both gains are clear.
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

    @property
    def rise(self) -> float:
        """How far log-odds are raised toward the largest at or below their label."""
        return self.share if self.use.endswith("largest") else 0.0

    @classmethod
    def fixed(cls, use: str, n_labels: int) -> Tempering:
        """Return weights for the use "none" or "exact", which need no data."""
        return cls.of(np.tile(PLAIN if use == "none" else EXACT, (n_labels, 1)), use)

    @classmethod
    def of(cls, weights: Float, use: str = "label", **choice: Any) -> Tempering:
        """Build from a matrix (n_labels, 3) of own, others, shift."""
        own, others, shift = np.ascontiguousarray(weights.T)
        return cls(own, others, shift, use, **choice)

    def select(self, labels: NDArray[np.integer], n_new: int = 0) -> Tempering:
        """Return the weights of some labels, followed by defaults for `n_new` new labels."""
        new = EXACT if self.use == "exact" else PLAIN
        own, others, shift = (
            np.concatenate([column[labels], np.full(n_new, default)])
            for column, default in zip((self.own, self.others, self.shift), new, strict=True)
        )
        return replace(self, own=own, others=others, shift=shift, loss=dict(self.loss))

    def describe(self) -> str:
        """Describe the choice in a sentence."""
        ranking = f"(AU(PRC) {self.ranking_gain:+.3g} +- {self.ranking_error:.2g})"
        if self.use == "none":
            why = "."
            if self.ranking_gain < 0.0:
                why = (
                    f": a lower log-loss on held-out samples, but they were ranked worse {ranking}."
                )
            elif self.loss:
                why = ": on held-out samples its log-loss was not clearly below that of the LPRs."
            return f"The joint posterior is not used{why}"
        if not self.loss:
            return "The joint posterior is used unchanged."
        plain = self.loss["none"]
        what = "The joint posterior is used: chances depend on all scores of a sample"
        if self.use == "largest":
            what = "Each label gets the largest LPR at or below it"
        elif self.rise > 0.0:
            what += ", and each label gets the largest probability at or below it"
        text = (
            f"{what}. The log-loss of held-out samples falls from {plain:.4g} to "
            f"{plain - self.gain:.4g} per sample (standard error {self.gain_error:.2g})."
        )
        if self.share == 1.0:
            return text
        return (
            f"{text} Because this gain or that of the ranking {ranking} is uncertain, the weights "
            f"are moved {self.share:.0%} of the way from the LPRs to the best candidate."
        )


def trusted_share(gain: float, error: float, margins: tuple[float, float], n: int) -> float:
    """Return how far to go for a gain with a standard error from `n` samples, between 0 and 1.

    At the first of the margins (in standard errors, as quantiles of Student's t distribution) not
    at all, at the second all the way. The log-loss is convex in the weights, so going part of the
    way keeps at least that part of the gain on the held-out samples.
    """
    least, full = scipy.special.stdtrit(n - 1, scipy.special.ndtr(margins)) * error
    return float(gain > least) if gain >= full else max(0.0, (gain - least) / (full - least))


def raise_to_largest(log_odds: Float, hierarchy: Hierarchy, rise: float) -> Float:
    """Return log-odds (n_samples, n_labels), moved toward the largest at or below each label."""
    if rise == 0.0:
        return log_odds
    raised = np.array(log_odds, order="C")
    max_up(raised, hierarchy.order, hierarchy.parent_ptr, hierarchy.parent_idx)
    return raised if rise == 1.0 else log_odds + rise * (raised - log_odds)


def ranking_gain(
    evidence: HeldOutEvidence,
    weights: Sequence[Float],
    hierarchy: Hierarchy,
    n_jobs: int = 1,
    rise: float = 0.0,
) -> tuple[float, float]:
    """Return the gain in AU(PRC) over the LPRs on held-out samples, and its standard error.

    The samples of fold f are ranked by their block scores with ``weights[f]``.
    """
    n_samples = int(evidence.fold_ptr[len(weights)])
    truth = evidence.truth[:, :n_samples].T
    weight: Any = evidence.weight[:, :n_samples].T if evidence.weight.size else 1.0
    areas = []
    plain = np.tile(PLAIN, (len(weights), hierarchy.n_labels, 1))
    for candidate, candidate_rise in ((plain, 0.0), (weights, rise)):
        score = np.empty(truth.shape)
        for fold, each in enumerate(candidate):
            at = slice(*evidence.fold_ptr[fold : fold + 2])
            log_odds = tempered_log_odds(evidence, each, at, fold, hierarchy, candidate_rise)
            score[at] = consistent_scores(scipy.special.expit(log_odds), hierarchy, n_jobs=n_jobs)
        areas.append(au_prc_influence(truth, score, weight))
    (before, influence_before), (after, influence_after) = areas
    return after - before, float(np.linalg.norm(influence_after - influence_before))


def tempered_log_odds(
    evidence: HeldOutEvidence,
    weights: Float,
    at: slice,
    fold: int,
    hierarchy: Hierarchy,
    rise: float,
) -> Float:
    """Return log-odds (n, n_labels) of consecutive samples of one fold."""
    log_odds = weights[:, :1] * evidence.own[:, at]
    log_odds += weights[:, 1:2] * evidence.others[:, at]
    log_odds += weights[:, 2:] + evidence.prior[fold][:, None]
    return raise_to_largest(log_odds.T, hierarchy, rise)


def losses_of(
    evidence: HeldOutEvidence,
    weights: Float,
    fold: int,
    hierarchy: Hierarchy,
    n_jobs: int = 1,
    rise: float = 0.0,
) -> Float:
    """Return the log-loss of every sample of one fold."""
    first, last = (int(x) for x in evidence.fold_ptr[fold : fold + 2])
    loss = np.empty(last - first)

    def add_up(start: int, stop: int) -> None:
        at = slice(first + start, first + stop)
        log_odds = tempered_log_odds(evidence, weights, at, fold, hierarchy, rise).T
        against = np.where(evidence.truth[:, at], -log_odds, log_odds)
        # Several times as fast as logaddexp.
        pair = np.maximum(against, 0.0) + np.log(1.0 + np.exp(-np.abs(against)))
        loss[start:stop] = (pair * evidence.weight[:, at] if evidence.weight.size else pair).sum(0)

    # Few samples at a time, so that all temporary arrays stay in the cache.
    n_chunks = max(1, math.ceil(loss.size * len(weights) / _CACHED_VALUES))
    run_chunks(add_up, even_chunks(loss.size, n_chunks), n_jobs)
    return loss


def learn_weights(evidence: HeldOutEvidence, hierarchy: Hierarchy, n_jobs: int) -> Float:
    r"""Return the weights (n_labels, 3) that fit the evidence best.

    For label :math:`k` with prior log-odds :math:`\lambda_k`, own evidence
    :math:`a_k = \mathrm{logit}\,\ell_k - \lambda_k` and the others' evidence
    :math:`e_k = \mathrm{logit}\,P_k - \mathrm{logit}\,\ell_k`, the tempered log-odds are
    :math:`\lambda_k + w_k a_k + t_k e_k + b_k` with :math:`w_k, t_k \in [0, 1]`. They maximize
    the likelihood of the truth with ridge penalties that shrink the weights of a label to those of
    its depth, these to those of all labels, and these to the LPR.
    """
    cells = gather(evidence, n_jobs)
    n_labels = hierarchy.n_labels
    depth = np.unique(hierarchy.levels, return_inverse=True)[1].astype(np.int64)
    shared = _fit_groups(cells, np.zeros(n_labels, np.int64), PLAIN[None], SHARED_PENALTY, n_jobs)
    by_depth = np.repeat(shared, depth.max() + 1, axis=0)
    by_depth = _fit_groups(cells, depth, by_depth, DEPTH_PENALTY, n_jobs)
    return _fit_groups(cells, np.arange(n_labels), by_depth[depth], LABEL_PENALTY, n_jobs)


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
    cells: Cells, group: NDArray[np.int64], target: Float, strength: float, n_jobs: int
) -> Float:
    """Return weights (n_groups, 3) of groups of labels, each shrunk to its row of `target`."""
    members = np.argsort(group, kind="stable")
    ptr = np.concatenate([np.zeros(1, np.int64), np.bincount(group).cumsum()])
    weights = target.copy()

    def fit(start: int, stop: int) -> None:
        fit_weights(cells, ptr, members, target, strength, start, stop, weights)

    n_groups = len(target)
    run_chunks(fit, even_chunks(n_groups, min(n_groups, 4 * n_jobs)), n_jobs)
    return weights
