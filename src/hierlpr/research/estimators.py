"""The paper's estimator of LPRs, for comparison; `hierlpr.lpr.fit_lpr` loads it by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.precision_curve import local_quadratic
from hierlpr._kernels.pspline import deal_folds
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.lpr.estimators import GroupFit, fall_back_to_prevalence
from hierlpr.lpr.training import ScoreGroups

LEAST_DISTINCT = 8  # with fewer points the precision curve has no usable derivative
BANDWIDTHS: NDArray[np.float64] = np.geomspace(0.01, 1.0, 14)
N_FOLDS = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LocalQuadratic:
    r"""Local quadratic fit of the precision curve on score percentiles.

    Parameters
    ----------
    corrected : bool
        False gives the published form: every point of the precision curve has the same weight, and
        the bandwidth is cross-validated on the curve itself.

    Notes
    -----
    With :math:`u` the share of samples below a score and :math:`G(u)` the share of positives
    from it upward, :math:`\mathrm{LPR}(u) = G(u) - (1 - u) G'(u)`; :math:`G` and :math:`G'` come
    from one local quadratic fit with the Epanechnikov kernel. The correction has two parts. The
    weight of :math:`G(u)` is the number of samples above, :math:`n (1 - u)`, of which it is a mean.
    And because neighbouring points share almost all their samples, the curve predicts itself too
    well; so the bandwidth minimizes the Brier score of the LPRs on held-out truth instead.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``; Fan and Gijbels (1996), key ``fan1996``.
    """

    corrected: bool = True

    name: ClassVar[str] = "local-quadratic"

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit each label on its own; those with too little data get shares or the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            positive, total = groups.positive[at], groups.total[at]
            if total.size >= LEAST_DISTINCT:
                fit.lpr[at] = self._smooth(positive, total, self.bandwidth(positive, total))[0]
            else:
                fit.lpr[at] = (positive + 0.5) / (total + 1.0)
                fit.estimator[k] = "shares"
                fit.fallback[k] = "few distinct scores: used the share of positives of each"
        fall_back_to_prevalence(groups, fit, least=2.0)
        return fit

    def bandwidth(self, positive: Floats, total: Floats) -> float:
        """Return the bandwidth of one label."""
        if self.corrected:
            losses = self._held_out_brier(positive, total)
        else:
            losses = np.array([self._smooth(positive, total, h)[1] for h in BANDWIDTHS])
        return float(BANDWIDTHS[int(np.argmin(losses))])

    def _held_out_brier(self, positive: Floats, total: Floats) -> Floats:
        """Return the Brier score of each bandwidth on held-out truth."""
        every = np.arange(total.size)
        brier = np.zeros(BANDWIDTHS.size)
        folds = deal_folds(positive, total, every, total.size, N_FOLDS)
        for yes, both in zip(*folds, strict=True):
            for i, bandwidth in enumerate(BANDWIDTHS):
                lpr, _ = self._smooth(positive - yes, total - both, bandwidth)
                # The small weight keeps scores all of whose samples were held out.
                make_monotone(np.array([0, lpr.size]), lpr, total - both + 1e-9)
                brier[i] += np.sum(yes * (1.0 - lpr) ** 2 + (both - yes) * lpr**2)
        return brier

    def _smooth(self, positive: Floats, total: Floats, bandwidth: float) -> tuple[Floats, float]:
        """Return the LPR at every score, and how badly the curve predicts its own points."""
        below, precision, above, middle = precision_points(positive, total)
        weight = total * above if self.corrected else total
        value, slope, loss = local_quadratic(below, precision, weight, bandwidth, middle)
        return np.clip(value - (1.0 - middle) * slope, 0.0, 1.0), loss


def precision_points(positive: Floats, total: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the points of the precision curve of one label, one per group of rising score.

    They are the share of samples below the group, the share of positives from the group upward,
    the number of samples from the group upward, and the mid-rank share of the group.
    """
    above = np.cumsum(total[::-1])[::-1]
    hits = np.cumsum(positive[::-1])[::-1]
    precision = np.divide(hits, above, out=np.zeros_like(hits), where=above > 0.0)
    below = np.clip(1.0 - above / total.sum(), 0.0, 1.0)
    middle = np.clip(1.0 - (above - 0.5 * total) / total.sum(), 0.0, 1.0)
    return below, precision, above, middle
