"""Estimators of local precision rates: groups of tied scores in, one LPR per group out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels.curves import make_monotone
from hierlpr._utils.checks import check_choice
from hierlpr.exceptions import DataError
from hierlpr.lpr.splines import average_psplines, bin_normal_scores
from hierlpr.lpr.training import ScoreGroups

# Module and class of each estimator. `research` is a later layer: loaded by name.
ESTIMATORS: Mapping[str, tuple[str, str]] = {
    "auto": ("hierlpr.lpr.estimators", "Auto"),
    "isotonic": ("hierlpr.lpr.estimators", "Isotonic"),
    "local-quadratic": ("hierlpr.research.estimators", "LocalQuadratic"),
    "probability": ("hierlpr.lpr.estimators", "Probability"),
}

PREVALENCE = "prevalence"  # how a label without a curve is fitted
N_PENALTIES = 12
N_SEGMENTS = 24
N_BINS = 160
SLOPE_SD = 6.0  # a weak prior of the slope: an excellent classifier has a slope of about 4
ROUNDING = 1e-6  # how far probabilities may lie outside [0, 1]
_LARGEST_TABLE = 2**19


@dataclass(slots=True, eq=False)
class GroupFit:
    """Result of an estimator: an LPR per group, and what was done per label.

    `lpr` need be neither monotone nor inside (0, 1); `fit_data` takes care of both. `fallback`
    explains why a label has no curve of its own (empty if it has).
    """

    lpr: NDArray[np.float64]
    estimator: list[str]
    fallback: list[str]

    @classmethod
    def empty(cls, groups: ScoreGroups, name: str) -> GroupFit:
        """Allocate the fields, to be filled in."""
        return cls(np.empty(groups.total.size), [name] * groups.n_labels, [""] * groups.n_labels)


class Estimator(Protocol):
    """An estimator of local precision rates: a frozen dataclass of its options.

    Except for "probability", a label's own curve depends only on the order of its scores: a
    strictly increasing transform does not change it. Curves shared by labels may use the values.
    """

    name: ClassVar[str]

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Estimate the LPR of every group; called from several threads at once."""
        ...


def make_estimator(method: str | Estimator, **options: Any) -> Estimator:
    """Return the named estimator with its options set; an estimator is passed through."""
    if not isinstance(method, str):
        if options:
            raise DataError("Options belong to an estimator given by name; set them on yours.")
        if not hasattr(method, "fit_groups"):
            raise DataError(
                f"method must be the name of an LPR estimator or one itself; got {method!r}."
            )
        return method
    module, name = ESTIMATORS[check_choice(method, sorted(ESTIMATORS), name="lpr (method)")]
    make: Callable[..., Estimator] = getattr(import_module(module), name)
    names = [option.name for option in fields(make)]  # type: ignore[arg-type]
    unknown = sorted(set(options) - set(names))
    if unknown:
        raise DataError(
            f"method {method!r} has no option {unknown[0]!r}.\n"
            f"Hint: its options are {', '.join(names) if names else 'none'}."
        )
    return make(**options)


def prevalence_of(groups: ScoreGroups) -> NDArray[np.float64]:
    """Return ``(positives + 1/2) / (samples + 1)`` per label."""
    positive, total = groups.sum_by_label(groups.positive), groups.sum_by_label(groups.total)
    return np.asarray((positive + 0.5) / (total + 1.0))


def fall_back_to_prevalence(groups: ScoreGroups, fit: GroupFit, *, least: float) -> None:
    """Use the smoothed prevalence for labels without a curve, in place.

    These are labels without `least` samples of each class, or without two distinct scores.
    """
    n_positive, n_all = groups.sum_by_label(groups.positive), groups.sum_by_label(groups.total)
    prevalence, fewer = prevalence_of(groups), np.minimum(n_positive, n_all - n_positive)
    for k in np.flatnonzero((fewer < least * (1.0 - 1e-9)) | (groups.n_groups == 1)):
        fit.lpr[groups.ptr[k] : groups.ptr[k + 1]] = prevalence[k]
        fit.estimator[k] = PREVALENCE
        if groups.n_groups[k] == 1:
            fit.fallback[k] = "all scores are equal: used the prevalence"
        else:
            kind = "positive" if 2.0 * n_positive[k] < n_all[k] else "negative"
            plural = "" if round(fewer[k], 6) == 1 else "s"
            fit.fallback[k] = f"{fewer[k]:.3g} {kind}{plural}: used the prevalence"


@lru_cache(maxsize=8)
def normal_table(n_samples: float) -> NDArray[np.float64]:
    """Return normal quantiles at ``i / (4 n)``, which include the mid-ranks of n samples."""
    size = min(4 * max(2, round(n_samples)), _LARGEST_TABLE)
    return np.asarray(scipy.special.ndtri(np.arange(size + 1) / size))


@dataclass(frozen=True, slots=True)
class Auto:
    r"""P-spline averaged over all penalties; rare labels rely on a curve shared with others.

    Parameters
    ----------
    kappa : float, optional
        Positives (or negatives, if they are fewer) with which a label's own curve and the shared
        one have equal weights. 0: only labels without positives or negatives use the shared curve;
        infinity: all labels use it alone. By default chosen by held-out log-loss.
    scale : {"score", "rank"}, optional
        Whether the shared curve is a function of the score, one per depth, or of the rank of the
        score among those of its label. By default chosen by held-out log-loss.
    n_penalties : int
        How many penalties to average over, from nearly none to nearly a straight line.

    Notes
    -----
    In a label's own curve, :math:`\operatorname{logit} P(Q = 1 \mid z)` is a cubic spline in the
    normal score :math:`z = \Phi^{-1}(\text{mid-rank} / n)` with a penalty :math:`\lambda` on the
    second differences of its coefficients, so that a large :math:`\lambda` leaves a logistic line,
    and a weak normal prior on the slope, which keeps the fit finite when the classes separate.
    Samples are put in 160 bins of equal width in :math:`z`, so the cost is O(n) after sorting.
    The curves of all penalties are averaged with weights proportional to the evidence
    :math:`p(Q \mid \lambda) = \int p(Q \mid \beta) p(\beta \mid \lambda) d\beta` (Laplace
    approximation), :math:`\log\lambda` being uniform a priori. For the shared curve see
    :mod:`hierlpr.lpr.shared`.

    References
    ----------
    Eilers and Marx (1996), key ``eilers1996``; Wood (2011), key ``wood2011``, for
    the evidence of smoothing parameters.
    """

    kappa: float | None = None
    scale: Literal["score", "rank"] | None = None
    n_penalties: int = N_PENALTIES

    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        if self.kappa is not None and not self.kappa >= 0.0:
            raise DataError(f"kappa must be a number >= 0, got {self.kappa!r}.")
        if self.scale not in (None, "score", "rank"):
            raise DataError(f"scale must be 'score' or 'rank', got {self.scale!r}.")
        if not (isinstance(self.n_penalties, int) and 2 <= self.n_penalties <= 100):
            raise DataError(
                f"n_penalties must be an integer from 2 to 100, got {self.n_penalties!r}."
            )

    def coarser(self) -> Auto:
        """Return an estimator with nearly the same curves for less work, for many refits."""
        return replace(self, n_penalties=max(2, self.n_penalties // 3))

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label's own curve; labels with one class are left to the shared curve."""
        fit = GroupFit.empty(groups, "p-spline")
        positive, n_all = groups.sum_by_label(groups.positive), groups.sum_by_label(groups.total)
        fit.lpr[:] = np.repeat(positive / n_all, groups.n_groups)
        # There is no curve through one score, and its fit converges slowly.
        has_curve = (groups.n_groups > 1) & (positive > 0.0) & (positive < n_all)
        if has_curve.any():
            used = np.repeat(has_curve, groups.n_groups)
            ptr = np.append(0, np.cumsum(groups.n_groups[has_curve]))
            weights, table = (
                (groups.positive[used], groups.total[used]),
                normal_table(groups.n_samples),
            )
            bins = bin_normal_scores(ptr, *weights, table, N_BINS, balance=True)
            # From nearly free to nearly a straight line.
            penalties = np.exp2(np.linspace(-4.0, 18.0, self.n_penalties))
            fit.lpr[used] = bins.spread(average_psplines(bins, penalties, N_SEGMENTS, SLOPE_SD))
        fall_back_to_prevalence(groups, fit, least=1e-9)
        return fit


@dataclass(frozen=True, slots=True)
class Isotonic:
    r"""Isotonic regression with shrinkage: the least-squares monotone curve.

    Parameters
    ----------
    shrinkage : float
        Number of pseudo-samples at the prevalence that each pool of scores gets.

    Notes
    -----
    Pooled adjacent violators give pools of neighbouring scores, with :math:`y_j` positives among
    :math:`n_j`. A pool's LPR is :math:`(y_j + c \pi) / (n_j + c)` with :math:`c` the shrinkage
    and :math:`\pi` the smoothed prevalence, so never exactly 0 or 1; pools that the shrinkage
    puts out of order are pooled again.

    References
    ----------
    Ayer et al. (1955), key ``ayer1955``; Zadrozny and Elkan (2002), key
    ``zadrozny2002`` in ``docs/references.bib``.
    """

    shrinkage: float = 1.0

    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        if not 0.0 <= self.shrinkage < np.inf:
            raise DataError(f"shrinkage must be a number >= 0, got {self.shrinkage!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label."""
        fit = GroupFit.empty(groups, self.name)
        label = np.repeat(np.arange(groups.n_labels), groups.n_groups)
        lpr = groups.positive / groups.total
        make_monotone(groups.ptr, lpr, groups.total)
        # Pools of equal shares whose means differ by rounding are one pool.
        rises = np.diff(lpr, prepend=-1.0) > 1e-14
        first = np.flatnonzero(rises | (np.diff(label, prepend=-1) > 0))
        positive, total = (np.add.reduceat(x, first) for x in (groups.positive, groups.total))
        # Small pools shrink more than large ones, which may put neighbours out of order again.
        shrunk = positive + self.shrinkage * prevalence_of(groups)[label[first]]
        total += self.shrinkage
        shrunk /= total
        make_monotone(np.searchsorted(first, groups.ptr), shrunk, total)
        fit.lpr = np.repeat(shrunk, np.diff(first, append=label.size))
        return fit


@dataclass(frozen=True, slots=True)
class Probability:
    r"""Weighted mean of the label's own curve and its score, which must be a probability.

    Nothing is shared between labels.

    Parameters
    ----------
    trust : float
        With :math:`s` positives (or negatives, if they are fewer) the curve has the weight
        :math:`s / (s + \mathrm{trust})` and the score the rest.

    Notes
    -----
    A first stage that sees all labels estimates probabilities of rare labels better than a curve of
    a few positives can (``docs/first-stage.md``). Scores outside [0, 1] by rounding are clipped.
    """

    trust: float = 30.0

    name: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        if not 0.0 <= self.trust < np.inf:
            raise DataError(f"trust must be a number >= 0, got {self.trust!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label."""
        listed = groups.score > -np.inf
        score = groups.score[listed]
        beyond = np.flatnonzero((score < -ROUNDING) | (score > 1.0 + ROUNDING))
        if beyond.size:
            raise DataError(
                f"lpr='probability' needs scores from 0 to 1, got {float(score[beyond[0]])!r}.\n"
                "Hint: 'auto' takes scores of any range."
            )
        fit = Auto().fit_groups(groups)
        positive = groups.sum_by_label(groups.positive)
        support = np.minimum(positive, groups.sum_by_label(groups.total) - positive)
        own = np.repeat(support / np.maximum(support + self.trust, 1e-9), groups.n_groups)[listed]
        fit.lpr[listed] = own * fit.lpr[listed] + (1.0 - own) * np.clip(score, 0.0, 1.0)
        fit.estimator = [f"{name} and score" for name in fit.estimator]
        return fit
