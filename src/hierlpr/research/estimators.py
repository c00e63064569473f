"""The paper's estimator of LPRs, for comparison; `hierlpr.lpr.fit_lpr` loads it by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from hierlpr._kernels.curves import make_monotone
from hierlpr.lpr.estimators import GroupFit, fall_back_to_prevalence
from hierlpr.lpr.training import ScoreGroups

LEAST_DISTINCT = 8  # with fewer points the precision curve has no usable derivative
BANDWIDTHS: NDArray[np.float64] = np.geomspace(0.01, 1.0, 14)
N_FOLDS = 5
CELLS = 16  # per bandwidth: the error is then about 0.1 %

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
        brier = np.zeros(BANDWIDTHS.size)
        folds = deal_folds(positive, total, N_FOLDS)
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


def deal_folds(positive: Floats, total: Floats, n_folds: int) -> tuple[Floats, Floats]:
    """Assign samples to folds; return the positives and the total of each (fold, group).

    Weight is split into units of one sample by score, and each unit goes to a fold drawn from a
    fixed pseudo-random sequence, so folds do not depend on the order of the samples.
    """
    weight = np.stack([positive, total - positive], axis=1).ravel()
    n_units = np.ceil(weight - 1e-12).astype(np.int64).clip(0)
    kind = np.repeat(np.arange(weight.size), n_units)
    last = np.cumsum(n_units) - 1
    unit = np.ones(kind.size)
    unit[last[n_units > 0]] = (weight - n_units + 1.0)[n_units > 0]
    # A linear congruential sequence modulo 2**64, whose high bits are good.
    powers = np.cumprod(np.full(kind.size, 6364136223846793005, np.uint64))
    sums = np.cumsum(np.append(np.ones(1, np.uint64), powers)[: kind.size])
    state = powers * np.uint64(88172645463325252) + np.uint64(1442695040888963407) * sums
    fold = ((state >> np.uint64(33)) % np.uint64(n_folds)).astype(np.int64)
    cell = fold * weight.size + kind
    counts = np.bincount(cell, unit, n_folds * weight.size).astype(np.float64)
    counts = counts.reshape(n_folds, total.size, 2)
    return counts[:, :, 0], counts.sum(axis=2)


def local_quadratic(
    u: Floats, value: Floats, weight: Floats, bandwidth: float, at: Floats
) -> tuple[Floats, Floats, float]:
    """Local quadratic fit with the Epanechnikov kernel: value and derivative at rising `at`.

    Points are first put in cells of a 16th of the bandwidth, and the fit is made at the cells'
    centres and interpolated: O(points + 1 / bandwidth). Also returns the mean squared residual
    with each unit of weight left out in turn (infinite where a fit rests on too few cells).
    """
    n_cells = int(np.ceil(CELLS / bandwidth)) + 1
    width = 1.0 / (n_cells - 1)
    cell = np.minimum((u / width + 0.5).astype(np.int64), n_cells - 1)
    sums = (weight, weight * u, weight * value, weight * value**2, np.ones(u.size))
    mass, *means, n_points = (np.bincount(cell, x, n_cells) for x in sums)
    filled = np.where(mass > 0.0, mass, 1.0)
    mean_u, mean, square = (x / filled for x in means)
    fit, slope, share = np.zeros((3, n_cells))
    todo, reach = np.arange(n_cells), bandwidth
    while todo.size:
        # Moments of the distance, in units of the reach, over the cells that it covers.
        half = int(reach / width) + 1
        w, x, y = (
            sliding_window_view(np.pad(each, half), 2 * half + 1)[todo]
            for each in (mass, mean_u, mean)
        )
        d = (x - width * todo[:, None]) / reach
        k0 = w * np.maximum(0.0, 1.0 - d * d)
        k1 = k0 * d
        k2 = k1 * d
        k3 = k2 * d
        m0, m1, m2, m3 = (k.sum(axis=1) for k in (k0, k1, k2, k3))
        m4 = np.einsum("ij,ij->i", k3, d)
        r0, r1, r2 = (np.einsum("ij,ij->i", k, y) for k in (k0, k1, k2))
        # Cofactors of the normal equations [[m0 m1 m2] [m1 m2 m3] [m2 m3 m4]].
        a00, a01, a02 = m2 * m4 - m3 * m3, m2 * m3 - m1 * m4, m1 * m3 - m2 * m2
        a11, a12 = m0 * m4 - m2 * m2, m1 * m2 - m0 * m3
        det = m0 * a00 + m1 * a01 + m2 * a02
        is_solved = (np.count_nonzero(k0 > 0.0, axis=1) >= 3) & (det > 1e-10 * m0**3)
        with np.errstate(divide="ignore", invalid="ignore"):
            quadratic = (a00 * r0 + a01 * r1 + a02 * r2) / det
            rise = (a01 * r0 + a11 * r1 + a12 * r2) / (det * reach)
            constant = np.where(m0 > 0.0, r0 / m0, 0.0)
            fit[todo] = np.where(is_solved, quadratic, constant)
            slope[todo] = np.where(is_solved, rise, 0.0)
            share[todo] = np.where(is_solved, a00 / det, 1.0 / m0)
        if reach > 2.0:  # elsewhere only a constant can be fitted
            break
        todo, reach = todo[~is_solved], 1.5 * reach  # too few points there: look further
    # Mean squared residual of the cells; a point has the share weight x a00 / det in its own fit.
    own = mass / np.maximum(n_points, 1.0) * share
    spread = np.where(mass > 0.0, square - mean * mean + (mean - fit) ** 2, 0.0)
    loss = np.where(mass > 0.0, np.inf, 0.0)
    np.divide(mass * spread, (1.0 - own) ** 2, out=loss, where=own < 1.0)
    centres = width * np.arange(n_cells)
    return (
        np.interp(at, centres, fit),
        np.interp(at, centres, slope),
        float(loss.sum() / mass.sum()),
    )
