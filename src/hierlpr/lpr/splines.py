"""Penalized logistic splines on the normal scores of ranks, for many labels at the same time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.linalg.lapack import dpbtrf, dpbtrs
from scipy.special import expit

Float = NDArray[np.float64]
Ints = NDArray[np.int64]
Design = tuple[scipy.sparse.csr_array, scipy.sparse.csc_array]  # see `_design`

MAX_ITERATIONS = 40
MAX_STEP = 6.0  # of one coefficient: Newton's step may overshoot where the likelihood is flat
TOLERANCE = 1e-4  # convergence is quadratic: the next step would be about 1e-8
LEAST_SHARE = 1e-6  # curves of less weight are left out of the mean


class NormalBins(NamedTuple):
    """Groups of tied scores of some labels, merged into bins of about equal width.

    `z` are the normal scores of the groups, which `group_ptr` delimits per label; the bins of label
    k are ``ptr[k]:ptr[k + 1]``, with the mean normal score, positive and total weight of each.
    """

    group_ptr: Ints
    z: Float
    ptr: Ints
    bin_z: Float
    positive: Float
    total: Float

    def spread(self, value: Float) -> Float:
        """Interpolate values of bins to all groups of the same label."""
        out = np.empty(self.z.size)
        for k in range(self.ptr.size - 1):
            groups = slice(self.group_ptr[k], self.group_ptr[k + 1])
            bins = slice(self.ptr[k], self.ptr[k + 1])
            out[groups] = np.interp(self.z[groups], self.bin_z[bins], value[bins])
        return out


def bin_normal_scores(
    ptr: Ints, positive: Float, total: Float, table: Float, n_bins: int, *, balance: bool
) -> NormalBins:
    """Find the normal score of each group, and bins of equal width in it where groups are many.

    The normal score is the normal quantile of the mid-rank, read off `table`, which holds the
    quantiles at ``i / (size - 1)``. With `balance` it is the mean of that and of the normal score
    of the rank among the commoner class alone.
    """
    sizes = np.diff(ptr)
    n_all, n_positive = (np.add.reduceat(x, ptr[:-1]) for x in (total, positive))
    z = _quantile(table, (running_sum(ptr, total) - 0.5 * total) / np.repeat(n_all, sizes))
    if balance:
        is_rare = n_positive <= 0.5 * n_all
        common = np.where(np.repeat(is_rare, sizes), total - positive, positive)
        n_common = np.where(is_rare, n_all - n_positive, n_positive)
        # Half a sample at each end keeps this share inside (0, 1) beyond the outer samples.
        below = running_sum(ptr, common) - 0.5 * common + 0.5
        z = 0.5 * (z + _quantile(table, below / np.repeat(n_common + 1.0, sizes)))
    low, high = z[ptr[:-1]], z[ptr[1:] - 1]
    with np.errstate(divide="ignore"):
        per_bin = np.repeat(n_bins / (high - low), sizes)
    place = np.minimum(((z - np.repeat(low, sizes)) * per_bin).astype(np.int64), n_bins - 1)
    is_first = np.diff(place, prepend=-1) != 0
    is_first |= np.repeat(sizes <= n_bins, sizes)  # few groups are their own bins
    is_first[ptr[:-1]] = True
    first = np.flatnonzero(is_first)
    sums = [np.add.reduceat(x, first) for x in (total * z, positive, total)]
    mean = np.where(np.diff(first, append=z.size) == 1, z[first], sums[0] / sums[2])
    return NormalBins(ptr, z, np.searchsorted(first, ptr), mean, sums[1], sums[2])


def running_sum(ptr: Ints, values: Float) -> Float:
    """Return the running sums of each run ``ptr[k]:ptr[k + 1]``, independently of other runs."""
    out = np.empty(values.size)
    for k in range(ptr.size - 1):
        np.cumsum(values[ptr[k] : ptr[k + 1]], out=out[ptr[k] : ptr[k + 1]])
    return out


def _quantile(table: Float, share: Float) -> Float:
    """Interpolate the table of normal quantiles, whose ends are infinite."""
    at = share * (table.size - 1)
    i = np.clip(at.astype(np.int64), 1, table.size - 3)
    return table[i] + np.clip(at - i, 0.0, 1.0) * (table[i + 1] - table[i])


def average_psplines(bins: NormalBins, penalties: Float, n_segments: int, slope_sd: float) -> Float:
    """Return the mean of the curves of all penalties per bin, weighted by their evidence."""
    log_odds, log_evidence = fit_psplines(bins, penalties, n_segments, slope_sd)
    weight = np.exp(log_evidence - log_evidence.max(axis=0))
    weight /= sum(weight)  # one after the other: the order of a sum must not depend on its shape
    weight[weight <= LEAST_SHARE] = 0.0
    mean = np.zeros(bins.bin_z.size)
    for each, curve in zip(np.repeat(weight, np.diff(bins.ptr), axis=1), log_odds, strict=True):
        mean += each * expit(curve)
    return mean


def fit_psplines(
    bins: NormalBins, penalties: Float, n_segments: int, slope_sd: float
) -> tuple[Float, Float]:
    r"""Fit cubic logistic P-splines to the bins of every label for every penalty.

    Returns log-odds (n_penalties, n_bins) and the log evidence (n_penalties, n_labels), in Laplace
    approximation.

    Notes
    -----
    With m coefficients :math:`\beta`, knots h apart, and differences D1 and D2, each fit minimizes
    :math:`-\log L + \lambda/2 |D_2 \beta|^2 + \rho/2 |D_1 \beta|^2`, where
    :math:`\rho^{-1} = (m - 1) h^2 \sigma^2` for a prior standard deviation :math:`\sigma` of the
    slope. The normal equations of a label are banded, so those of all labels, one after the other,
    are one banded system: no step of a label depends on the others. Penalties decrease, and each
    fit starts from the previous one.
    """
    n_labels, m = bins.ptr.size - 1, n_segments + 3
    width = np.maximum(bins.bin_z[bins.ptr[1:] - 1] - bins.bin_z[bins.ptr[:-1]], 1e-6)
    ridge = 1.0 / ((m - 1) * (width / n_segments) ** 2 * slope_sd**2)
    design = _design(bins, width / n_segments, n_segments)
    n_positive, n_all = (np.add.reduceat(x, bins.ptr[:-1]) for x in (bins.positive, bins.total))
    coef = np.repeat(np.log((n_positive + 0.5) / (n_all - n_positive + 0.5)), m)
    fitted = np.empty((penalties.size, bins.bin_z.size))
    log_evidence = np.empty((penalties.size, n_labels))
    for at in range(penalties.size - 1, -1, -1):
        band, log_det_penalty = _penalty(float(penalties[at]), ridge, m)
        coef, log_det = _maximize(bins, design, band, 1e-12 * (penalties[at] + ridge), coef)
        fitted[at] = log_odds = design[0] @ coef
        each = bins.positive * log_odds - bins.total * np.logaddexp(0.0, log_odds)
        log_likelihood = np.add.reduceat(each, bins.ptr[:-1])
        quadratic = (coef * _multiply(band, coef)).reshape(n_labels, m).sum(axis=1)
        log_evidence[at] = log_likelihood - 0.5 * (quadratic - log_det_penalty + log_det)
    return fitted, log_evidence


def _penalty(penalty: float, ridge: Float, m: int) -> tuple[Float, Float]:
    """Return the penalties of all labels as a band (4, n_labels m), and their log determinants.

    The null space of a penalty is the constants, so all its cofactors are equal: the product of its
    nonzero eigenvalues is m times the determinant without the first row and column.
    """
    smooth, flat = (_band(np.diff(np.eye(m), order, axis=0)) for order in (2, 1))
    band = penalty * smooth[:, None] + ridge[:, None] * flat[:, None]
    minor = _factor(band[:, :, 1:].reshape(4, -1))[0].reshape(ridge.size, m - 1)
    return band.reshape(4, -1), np.log(m) + 2.0 * np.log(minor).sum(axis=1)


def _maximize(
    bins: NormalBins, design: Design, penalty: Float, least: Float, coef: Float
) -> tuple[Float, Float]:
    """Return the coefficients of largest posterior density, and log determinants, by Newton.

    A saturated fit has no information left along the constants; `least` per label keeps its system
    definite. A label that has converged waits for the others.
    """
    basis, products = design
    basis_t, n_labels = basis.T, least.size
    coef, log_det, is_moving = coef.copy(), np.empty(n_labels), np.ones(n_labels, np.bool_)
    definite = penalty.copy()
    definite[0] += np.repeat(least, coef.size // n_labels)
    for _ in range(MAX_ITERATIONS):
        share = expit(basis @ coef)
        expected = bins.total * share
        gradient = basis_t @ (bins.positive - expected) - _multiply(penalty, coef)
        information = products @ (expected * (1.0 - share))
        factor = _factor(information.reshape(4, -1) + definite)
        step = dpbtrs(factor, gradient, lower=1)[0].reshape(n_labels, -1)
        largest = np.abs(step).max(axis=1)
        scale = np.where(is_moving, MAX_STEP / np.maximum(largest, MAX_STEP), 0.0)
        coef += (scale[:, None] * step).ravel()
        new = 2.0 * np.log(factor[0]).reshape(n_labels, -1).sum(axis=1)
        log_det = np.where(is_moving, new, log_det)
        is_moving &= largest >= TOLERANCE
        if not is_moving.any():
            break
    return coef, log_det


def _design(bins: NormalBins, h: Float, n_segments: int) -> Design:
    """Return the cubic B-splines of all labels at their bins, and what gives their information.

    The second matrix maps the weights of bins to the lower band of the block-diagonal matrix
    ``B' W B``, of shape (4, n_labels, m).
    """
    m, n = n_segments + 3, bins.bin_z.size
    label = np.repeat(np.arange(h.size), np.diff(bins.ptr))
    x = (bins.bin_z - bins.bin_z[bins.ptr[:-1]][label]) / h[label]
    segment = np.minimum(x.astype(np.int64), n_segments - 1)
    t = x - segment
    basis = np.stack(
        [(1.0 - t) ** 3, 3.0 * t**3 - 6.0 * t**2 + 4.0, -3.0 * t**3 + 3.0 * (t**2 + t) + 1.0, t**3],
        axis=1,
    )
    basis /= 6.0
    column = (label * m + segment)[:, None] + np.arange(4)
    shape = (n, h.size * m)
    design = scipy.sparse.csr_array((basis.ravel(), column.ravel(), 4 * np.arange(n + 1)), shape)
    i, j = np.tril_indices(4)  # of the four splines at a bin
    row = (i - j) * h.size * m + column[:, j]
    each = (basis[:, i] * basis[:, j]).ravel(), row.ravel(), i.size * np.arange(n + 1)
    return design, scipy.sparse.csc_array(each, shape=(4 * h.size * m, n))


def _band(differences: Float) -> Float:
    """Return the lower band (4, m) of the matrix ``D' D``."""
    matrix = differences.T @ differences
    return np.stack([np.pad(np.diag(matrix, -d), (0, d)) for d in range(4)])


def _factor(band: Float) -> Float:
    """Return the Cholesky factor of a banded matrix, both as lower bands."""
    return np.asarray(dpbtrf(band, lower=1)[0])


def _multiply(band: Float, x: Float) -> Float:
    """Return the product of a symmetric matrix of which the lower band is given."""
    out: Float = band[0] * x
    for d in range(1, len(band)):
        out[d:] += band[d, :-d] * x[:-d]
        out[:-d] += band[d, :-d] * x[d:]
    return out
