"""Smoothing of a label's precision curve, and density ratios: LPRs the classical ways.

The precision curve is G(u), the share of positives among the samples whose rank is at least u;
the local precision rate is G(u) - (1 - u) G'(u).
"""

import numpy as np

from hierlpr._kernels._jit import Floats, kernel

_CELLS = 16  # cells per bandwidth: the kernel's error is then about 0.1 %


@kernel
def precision_points(positive: Floats, total: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Points of the precision curve of one label, one per group of rising score.

    Returns the share of samples below the group, the share of positives from the group upward,
    the number of samples from the group upward, and the mid-rank share of the group. O(groups).
    """
    n_groups = total.size
    below = np.empty(n_groups)
    precision = np.empty(n_groups)
    above = np.empty(n_groups)
    middle = np.empty(n_groups)
    n_all = total.sum()
    hits = 0.0
    size = 0.0
    for g in range(n_groups - 1, -1, -1):
        hits += positive[g]
        size += total[g]
        above[g] = size
        precision[g] = hits / size if size > 0.0 else 0.0
        below[g] = max(0.0, 1.0 - size / n_all)
        middle[g] = min(1.0, max(0.0, 1.0 - (size - 0.5 * total[g]) / n_all))
    return below, precision, above, middle


@kernel
def local_quadratic(
    u: Floats, value: Floats, weight: Floats, bandwidth: float, at: Floats
) -> tuple[Floats, Floats, float]:
    """Local quadratic fit with the Epanechnikov kernel: value and derivative at rising `at`.

    Points are first put in cells of a 16th of the bandwidth, and the fit is made at the cells'
    centres and interpolated: O(points + 1 / bandwidth). Also returns the mean squared residual
    with each unit of weight left out in turn (infinite where a fit rests on too few cells).
    """
    n_cells = int(np.ceil(_CELLS / bandwidth)) + 1
    width = 1.0 / (n_cells - 1)
    cell_weight = np.zeros(n_cells)
    cell_u = np.zeros(n_cells)
    cell_value = np.zeros(n_cells)
    cell_square = np.zeros(n_cells)
    cell_points = np.zeros(n_cells)
    for i in range(u.size):
        c = min(int(u[i] / width + 0.5), n_cells - 1)
        cell_weight[c] += weight[i]
        cell_u[c] += weight[i] * u[i]
        cell_value[c] += weight[i] * value[i]
        cell_square[c] += weight[i] * value[i] * value[i]
        cell_points[c] += 1.0
    fit = np.empty(n_cells)
    slope = np.empty(n_cells)
    loss = 0.0
    mass = 0.0
    for c in range(n_cells):
        center = c * width
        reach = bandwidth
        solved = False
        while not solved:
            # Moments of the distance, in units of the reach, over the window.
            m0 = m1 = m2 = m3 = m4 = r0 = r1 = r2 = 0.0
            filled = 0
            half = int(reach / width) + 1
            for j in range(max(0, c - half), min(n_cells, c + half + 1)):
                w = cell_weight[j]
                if w <= 0.0:
                    continue
                d = (cell_u[j] / w - center) / reach
                if d <= -1.0 or d >= 1.0:
                    continue
                k = w * (1.0 - d * d)
                y = cell_value[j] / w
                m0 += k
                m1 += k * d
                m2 += k * d * d
                m3 += k * d * d * d
                m4 += k * d * d * d * d
                r0 += k * y
                r1 += k * y * d
                r2 += k * y * d * d
                filled += 1
            # Cofactors of the normal equations [[m0 m1 m2] [m1 m2 m3] [m2 m3 m4]].
            a00 = m2 * m4 - m3 * m3
            a01 = m2 * m3 - m1 * m4
            a02 = m1 * m3 - m2 * m2
            a11 = m0 * m4 - m2 * m2
            a12 = m1 * m2 - m0 * m3
            det = m0 * a00 + m1 * a01 + m2 * a02
            if filled >= 3 and det > 1e-10 * m0 * m0 * m0:
                fit[c] = (a00 * r0 + a01 * r1 + a02 * r2) / det
                slope[c] = (a01 * r0 + a11 * r1 + a12 * r2) / (det * reach)
                solved = True
            elif reach > 2.0:  # only a constant can be fitted
                fit[c] = r0 / m0 if m0 > 0.0 else 0.0
                slope[c] = 0.0
                solved = True
                a00, det = 1.0, m0
            else:
                reach *= 1.5  # too few points here: look further
        if cell_weight[c] > 0.0:
            # Mean squared residual of the cell; each point's own share of the fit is its
            # average weight times a00 / det.
            w = cell_weight[c]
            mean = cell_value[c] / w
            spread = cell_square[c] / w - mean * mean + (mean - fit[c]) ** 2
            own = w / cell_points[c] * a00 / det
            loss += w * spread / (1.0 - own) ** 2 if own < 1.0 else np.inf
            mass += w
    out = np.empty(at.size)
    derivative = np.empty(at.size)
    for i in range(at.size):
        x = at[i] / width
        c = min(int(x), n_cells - 2)
        t = x - c
        out[i] = fit[c] + t * (fit[c + 1] - fit[c])
        derivative[i] = slope[c] + t * (slope[c + 1] - slope[c])
    return out, derivative, loss / mass


@kernel
def smoothing_spline(x: Floats, y: Floats, weight: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Cubic smoothing spline through at least three points: values and derivatives at rising `x`.

    Minimizes ``sum w (y - f)^2 + penalty * integral f''^2`` by Reinsch's banded equations for
    the second derivatives; O(points) time and memory.
    """
    n = x.size
    h = x[1:] - x[:-1]
    m = n - 2
    # (R + penalty Q' W^-1 Q) gamma = Q' y, with five bands.
    diagonal = np.empty(m)
    upper = np.zeros(m)
    upper2 = np.zeros(m)
    right = np.empty(m)
    for i in range(m):
        a, b = 1.0 / h[i], 1.0 / h[i + 1]
        middle = -(a + b)
        diagonal[i] = (h[i] + h[i + 1]) / 3.0 + penalty * (
            a * a / weight[i] + middle * middle / weight[i + 1] + b * b / weight[i + 2]
        )
        right[i] = (y[i + 2] - y[i + 1]) * b - (y[i + 1] - y[i]) * a
        if i + 1 < m:
            c = 1.0 / h[i + 2]
            upper[i] = h[i + 1] / 6.0 + penalty * (
                middle * b / weight[i + 1] - b * (b + c) / weight[i + 2]
            )
        if i + 2 < m:
            upper2[i] = penalty * b * (1.0 / h[i + 2]) / weight[i + 2]
    for i in range(m):  # elimination, the right-hand side carried along
        if i + 1 < m:
            ratio = upper[i] / diagonal[i]
            diagonal[i + 1] -= ratio * upper[i]
            if i + 2 < m:
                upper[i + 1] -= ratio * upper2[i]
            right[i + 1] -= ratio * right[i]
        if i + 2 < m:
            ratio = upper2[i] / diagonal[i]
            diagonal[i + 2] -= ratio * upper2[i]
            right[i + 2] -= ratio * right[i]
    gamma = np.zeros(n)  # second derivatives; 0 at both ends
    for i in range(m - 1, -1, -1):
        value = right[i]
        if i + 1 < m:
            value -= upper[i] * gamma[i + 2]
        if i + 2 < m:
            value -= upper2[i] * gamma[i + 3]
        gamma[i + 1] = value / diagonal[i]
    fit = np.empty(n)
    for i in range(n):
        bend = 0.0  # (Q gamma)_i
        if i > 0:
            bend -= (gamma[i] - gamma[i - 1]) / h[i - 1]
        if i < n - 1:
            bend += (gamma[i + 1] - gamma[i]) / h[i]
        fit[i] = y[i] - penalty * bend / weight[i]
    slope = np.empty(n)
    for i in range(n - 1):
        slope[i] = (fit[i + 1] - fit[i]) / h[i] - h[i] / 6.0 * (2.0 * gamma[i] + gamma[i + 1])
    slope[n - 1] = (fit[n - 1] - fit[n - 2]) / h[n - 2] + h[n - 2] / 6.0 * gamma[n - 2]
    return fit, slope


@kernel
def density_ratio(
    z: Floats, positive: Floats, total: Floats, h_positive: float, h_negative: float
) -> Floats:
    """Share of positives in Gaussian kernel estimates of both classes at the groups' `z`.

    Each class is put on a grid of an 8th of its bandwidth (linear binning) and smoothed there:
    O(groups + range / bandwidth), whatever the number of samples.
    """
    n_groups = z.size
    density = np.empty((2, n_groups))
    low = z[0]
    for kind in range(2):
        h = h_positive if kind == 0 else h_negative
        step = h / 8.0
        n_cells = int((z[-1] - low) / step) + 2
        count = np.zeros(n_cells)
        for g in range(n_groups):
            mass = positive[g] if kind == 0 else total[g] - positive[g]
            at = (z[g] - low) / step
            c = min(int(at), n_cells - 2)
            count[c] += mass * (1.0 - (at - c))
            count[c + 1] += mass * (at - c)
        reach = 8 * 8  # eight bandwidths: beyond, the kernel is 1e-14 of its top
        bell = np.exp(-0.5 * (np.arange(reach + 1) / 8.0) ** 2) / h
        smooth = np.zeros(n_cells)
        for c in range(n_cells):
            if count[c] > 0.0:
                for j in range(max(0, c - reach), min(n_cells, c + reach + 1)):
                    smooth[j] += count[c] * bell[abs(j - c)]
        for g in range(n_groups):
            at = (z[g] - low) / step
            c = min(int(at), n_cells - 2)
            density[kind, g] = smooth[c] + (at - c) * (smooth[c + 1] - smooth[c])
    out = np.empty(n_groups)
    for g in range(n_groups):
        both = density[0, g] + density[1, g]
        out[g] = density[0, g] / both if both > 0.0 else 0.5
    return out
