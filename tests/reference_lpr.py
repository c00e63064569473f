"""Slow, obviously right twins of the LPR kernels: dense matrices, one label, no binning."""

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import expit, ndtri


def groups_of(scores, truth, weight=None):
    """Distinct scores with the weight of all samples and of the positives."""
    weight = np.ones(len(scores)) if weight is None else np.asarray(weight)
    distinct = np.unique(np.asarray(scores)[weight > 0])
    total = np.array([weight[scores == s].sum() for s in distinct])
    positive = np.array([weight[(scores == s) & truth].sum() for s in distinct])
    return distinct, positive, total


def isotonic(positive, total):
    """Max-min formula of isotonic regression: O(n^3)."""
    n = len(total)
    mean = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(i, n):
            mean[i, j] = positive[i : j + 1].sum() / total[i : j + 1].sum()
    return np.array([max(mean[i, k:].min() for i in range(k + 1)) for k in range(n)])


def normal_scores(total):
    """Normal quantile of the mid-rank of each group."""
    return ndtri((np.cumsum(total) - 0.5 * np.asarray(total)) / np.sum(total))


def pspline(z, positive, total, penalty, n_segments, slope_sd):
    """Linear predictor and Laplace log evidence, from dense matrices and eigenvalues."""
    h = (z[-1] - z[0]) / n_segments
    knots = z[0] + h * np.arange(-3, n_segments + 4)
    design = BSpline.design_matrix(np.clip(z, knots[3], knots[-4]), knots, 3).toarray()
    m = design.shape[1]
    d1, d2 = np.diff(np.eye(m), 1, axis=0), np.diff(np.eye(m), 2, axis=0)
    ridge = 1.0 / ((m - 1) * h**2 * slope_sd**2)
    matrix = penalty * d2.T @ d2 + ridge * d1.T @ d1
    coef = np.full(m, np.log((positive.sum() + 0.5) / (total.sum() - positive.sum() + 0.5)))
    for _ in range(200):
        p = expit(design @ coef)
        hessian = design.T @ (design * (total * p * (1 - p))[:, None]) + matrix
        gradient = design.T @ (positive - total * p) - matrix @ coef
        step = np.linalg.solve(hessian, gradient)
        coef = coef + step * min(1.0, 1.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-10:
            break
    eta = design @ coef
    likelihood = np.sum(positive * eta - total * np.logaddexp(0.0, eta))
    quadratic = penalty * np.sum((d2 @ coef) ** 2)
    quadratic += ridge * np.sum((d1 @ coef) ** 2)
    log_det_penalty = np.log(np.linalg.eigvalsh(matrix)[1:]).sum()
    log_det = np.linalg.slogdet(hessian)[1]
    return eta, likelihood - 0.5 * (quadratic - log_det_penalty + log_det)


def interpolate(scores, knot_score, knot_lpr):
    """np.interp: linear between knots, constant beyond."""
    return np.interp(scores, knot_score, knot_lpr)


def local_quadratic(u, value, weight, bandwidth, at):
    """Value and derivative at one place, by least squares on the points under the kernel."""
    d = u - at
    kernel = weight * np.maximum(0.0, 1.0 - (d / bandwidth) ** 2)
    root = np.sqrt(kernel)
    design = np.column_stack([np.ones_like(d), d, d**2])
    coef = np.linalg.lstsq(design * root[:, None], value * root, rcond=None)[0]
    return coef[0], coef[1]
