"""Local quadratic smoothing of a label's precision curve."""

import numpy as np

from hierlpr._kernels._jit import Floats, kernel

_CELLS = 16  # cells per bandwidth: the kernel's error is then about 0.1 %


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
