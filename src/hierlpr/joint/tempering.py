"""How far to trust the joint posterior, learned on samples the LPRs were not fitted on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._threads import even_chunks, row_chunks, run_chunks
from hierlpr._kernels.joint_temper import (
    Cells,
    Evidence,
    fit_weights,
    gather_cells,
    sample_losses,
)
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]

USES = ("none", "exact", "shared", "depth", "label")  # the simplest first

PLAIN = np.array([1.0, 0.0, 0.0])  # own, others, shift: the LPR as it is
EXACT = np.array([1.0, 1.0, 0.0])  # the joint posterior as it is

# Pulls toward the next coarser fit, as a number of samples that agree with it.
SHARED_PULL = 1.0
DEPTH_PULL = 5.0
LABEL_PULL = 50.0

# Intervals of evidence that is taken together: so many to log-odds of 1, and up to which log-odds.
PER_UNIT = 4
N_UNITS = 40
_LABELS = 32  # gathered at a time

# Standard errors by which a candidate must beat the LPR to count at all, and to count in full:
# see experiments/joint/small_n.py.
LEAST_MARGIN = 1.5
FULL_MARGIN = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Tempering:
    r"""Weights of the evidence, per label, and how they were chosen.

    Attributes
    ----------
    own, others, shift : ndarray of shape (n_labels,)
        The log-odds of a label are its prior's, plus `own` times what its score says, plus
        `others` times what the other labels say, plus `shift`. (1, 0, 0) is the LPR, (1, 1, 0) the
        joint posterior.
    use : str
        ``"none"``: LPRs as they are; ``"exact"``: the joint posterior as it is; ``"shared"``,
        ``"depth"``, ``"label"``: weights for all labels together, for each depth, for each label.
    loss : dict of str to float
        Held-out log-loss a sample of each candidate; empty if there was no choice.
    gain, gain_error : float
        Held-out log-loss of the LPRs minus that of the choice in full, and its standard error.
    share : float
        How far the weights go from the LPR to those of the choice in full: 1 if the gain is clear.
    """

    own: Float
    others: Float
    shift: Float
    use: str
    loss: dict[str, float]
    gain: float = 0.0
    gain_error: float = 0.0
    share: float = 1.0

    @classmethod
    def fixed(cls, use: str, n_labels: int) -> Tempering:
        """Weights that need no data, of the use "none" or "exact"."""
        return cls.of(np.tile(PLAIN if use == "none" else EXACT, (n_labels, 1)), use)

    @classmethod
    def of(
        cls,
        weights: Float,
        use: str,
        loss: dict[str, float] | None = None,
        gain: float = 0.0,
        gain_error: float = 0.0,
        share: float = 1.0,
    ) -> Tempering:
        """From a matrix (n_labels, 3) of own, others, shift."""
        own, others, shift = np.ascontiguousarray(weights.T)
        return cls(own, others, shift, use, loss or {}, gain, gain_error, share)

    def select(self, labels: NDArray[np.integer], n_new: int = 0) -> Tempering:
        """Weights of some labels, then of `n_new` of which nothing was learned."""
        new = EXACT if self.use == "exact" else PLAIN
        own, others, shift = (
            np.concatenate([column[labels], np.full(n_new, fill)])
            for column, fill in zip((self.own, self.others, self.shift), new, strict=True)
        )
        return replace(self, own=own, others=others, shift=shift, loss=dict(self.loss))

    def describe(self) -> str:
        """One sentence for the user."""
        if not self.loss:
            what = {"none": "not used", "exact": "used as it is"}[self.use]
            return f"The joint posterior is {what}."
        if self.use == "none":
            return (
                "The joint posterior is not used: on held-out samples nothing had a log-loss "
                "clearly below that of the LPRs."
            )
        scope = {"exact": "as it is", "shared": "with one weight for all labels",
                 "depth": "with a weight for each depth",
                 "label": "with a weight for each label"}[self.use]  # fmt: skip
        plain = self.loss["none"]
        said = (
            f"The joint posterior is used {scope} (mean weight of other labels' evidence "
            f"{self.others.mean():.2f}): held-out log-loss {plain - self.gain:.4g} a sample "
            f"instead of {plain:.4g} (gain {self.gain:.3g} +- {self.gain_error:.2g})."
        )
        if self.share == 1.0:
            return said
        return (
            f"{said} As that gain is not quite clear, the weights go {self.share:.0%} of the way "
            "from the LPRs to those that were judged."
        )


class Choice(NamedTuple):
    """Which candidate to use, how far, and what it gains on the plain LPR a sample."""

    use: str
    share: float
    gain: float
    gain_error: float


def best_candidate(losses: Mapping[str, Float]) -> Choice:
    """Return the candidate of least log-loss, with a share that its gain's clearness decides.

    Up to `LEAST_MARGIN` standard errors of the difference, taken as a quantile of Student's
    distribution, the plain LPR stays; from `FULL_MARGIN` on the candidate counts in full, and in
    between its weights go a part of the way from those of the LPR. As the log-loss is convex in
    them, a part of the way has at least that part of the gain on the samples that judge.
    """
    use = min(losses, key=lambda name: float(losses[name].mean()))
    gain = losses["none"] - losses[use]
    mean, error = float(gain.mean()), float(gain.std(ddof=1) / math.sqrt(gain.size))
    chance = scipy.special.ndtr([LEAST_MARGIN, FULL_MARGIN])
    least, full = scipy.special.stdtrit(gain.size - 1, chance) * error
    if mean <= least:
        return Choice("none", 1.0, 0.0, error)
    return Choice(use, 1.0 if mean >= full else float((mean - least) / (full - least)), mean, error)


def part_of_the_way(tempering: Tempering, share: float) -> Tempering:
    """Weights that lie between those of the LPR and these."""
    if share == 1.0:
        return tempering
    full = np.stack([tempering.own, tempering.others, tempering.shift], axis=1)
    use = "shared" if tempering.use == "exact" else tempering.use  # no longer as it is
    return Tempering.of(PLAIN + share * (full - PLAIN), use, share=share)


def losses_of(
    evidence: Evidence, weights: Float, n_threads: int = 1, *, fold: int | None = None
) -> Float:
    """Log-loss of every sample, or of those of one fold."""
    n_labels, n_samples = evidence.own.shape
    first, last = (0, n_samples) if fold is None else evidence.fold_ptr[fold : fold + 2]
    loss = np.empty(n_samples)

    def add_up(start: int, stop: int) -> None:
        sample_losses(evidence, weights, first + start, first + stop, loss)

    run_chunks(add_up, row_chunks((last - first, n_labels), n_threads), n_threads)
    return loss[first:last]


def fit_candidates(
    evidence: Evidence,
    hierarchy: Hierarchy,
    n_threads: int,
    near: Mapping[str, Float] | None = None,
) -> dict[str, Float]:
    r"""Weights (n_labels, 3) of every candidate, the simplest first.

    For label :math:`k` with prior log-odds :math:`\lambda_k`, own evidence
    :math:`a_k = \mathrm{logit}\,\ell_k - \lambda_k` and the others' evidence
    :math:`e_k = \mathrm{logit}\,P_k - \mathrm{logit}\,\ell_k`, the tempered log-odds are
    :math:`\lambda_k + w_k a_k + t_k e_k + b_k` with :math:`w_k, t_k \in [0, 1]`. They maximize
    the likelihood of the truth (a proper score) with a pull of every label's weights to those of
    its depth, of these to those of all labels, and of these to the plain LPR. They are found sooner
    from those of similar evidence, `near`, and are the same.
    """
    n_labels = evidence.own.shape[0]
    cells = gather(evidence, n_threads)
    depth = np.unique(hierarchy.levels, return_inverse=True)[1].astype(np.int64)
    everyone = np.zeros(n_labels, dtype=np.int64)
    each = np.arange(n_labels)

    def fit(use: str, group: NDArray[np.int64], target: Float, strength: float) -> Float:
        weights = target.copy()
        if near is not None:
            weights[group] = near[use]
        _fit_groups(cells, group, target, strength, n_threads, weights)
        return weights

    shared = fit("shared", everyone, PLAIN[np.newaxis], SHARED_PULL)
    by_depth = fit("depth", depth, np.repeat(shared, depth.max() + 1, axis=0), DEPTH_PULL)
    by_label = fit("label", each, by_depth[depth], LABEL_PULL)
    return {
        "none": np.tile(PLAIN, (n_labels, 1)),
        "exact": np.tile(EXACT, (n_labels, 1)),
        "shared": shared[everyone],
        "depth": by_depth[depth],
        "label": by_label,
    }


def gather(evidence: Evidence, n_threads: int = 1) -> Cells:
    """Gather pairs of nearly equal evidence, which tell the same about the weights.

    An interval of log-odds is 1/4 wide up to 1, then twice as wide up to 3, 7, 15 and so on. A cell
    stands for its pairs with their mean evidence; what that changes is of second order.
    """
    scaled = 1.0 + np.arange(N_UNITS * PER_UNIT) / PER_UNIT
    octave = np.floor(np.log2(scaled))
    interval = (PER_UNIT * (octave + scaled / 2.0**octave - 1.0)).astype(np.int32)
    n_labels = evidence.own.shape[0]
    found = run_chunks(
        lambda start, stop: gather_cells(evidence, interval, float(PER_UNIT), start, stop),
        even_chunks(n_labels, min(n_labels, max(4 * n_threads, -(-n_labels // _LABELS)))),
        n_threads,
    )
    sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part[0]) for part in found)])
    return Cells(sizes.cumsum(), *(np.concatenate(x) for x in list(zip(*found, strict=True))[1:]))


def _fit_groups(
    cells: Cells,
    group: NDArray[np.int64],
    target: Float,
    strength: float,
    n_threads: int,
    weights: Float,
) -> None:
    """Improve weights (n_groups, 3), each pulled to its row of `target`, until they are best."""
    members = np.argsort(group, kind="stable")
    ptr = np.concatenate([np.zeros(1, np.int64), np.bincount(group).cumsum()])

    def fit(start: int, stop: int) -> None:
        fit_weights(cells, ptr, members, target, strength, start, stop, weights)

    n_chunks = min(ptr.size - 1, 4 * n_threads)
    run_chunks(fit, even_chunks(ptr.size - 1, n_chunks), n_threads)
