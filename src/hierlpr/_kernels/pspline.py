"""Penalized logistic splines on the normal scores of ranks: the whole path of penalties."""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._jit import Floats, Floats2D, Int64s, kernel


class SplineGrid(NamedTuple):
    """What all splines share: quantiles of the normal, penalties, segments, bins."""

    normal_table: Floats
    penalties: Floats
    n_segments: int
    n_bins: int


@kernel
def bin_normal_scores(
    positive: Floats, total: Floats, normal_table: Floats, n_bins: int, balance: bool
) -> tuple[Floats, Int64s, Floats, Floats, Floats]:
    """Find the normal score of each group of one label, and bins of equal width in it.

    The normal score is the normal quantile of the mid-rank, read off `normal_table`, which holds
    the quantiles at ``i / (size - 1)``. With `balance` it is the mean of that and of the normal
    score of the rank among the commoner class alone. Returns the groups' normal scores, their
    bins, and per non-empty bin the mean normal score, positives and total. O(groups).
    """
    n_groups = total.size
    z = np.empty(n_groups)
    # Loops rather than whole-array expressions, which take seconds to compile; sums do not.
    n_all = total.sum()
    n_positive = positive.sum()
    few_positive = n_positive <= 0.5 * n_all
    n_common = n_all - n_positive if few_positive else n_positive
    last = normal_table.size - 1
    below = 0.0
    below_common = 0.0
    for g in range(n_groups):
        at = (below + 0.5 * total[g]) / n_all * last
        below += total[g]
        i = min(max(int(at), 1), last - 2)
        t = min(max(at - i, 0.0), 1.0)
        z[g] = normal_table[i] + t * (normal_table[i + 1] - normal_table[i])
        if balance:
            # Half a sample at each end keeps this share inside (0, 1) beyond the outer samples.
            common = total[g] - positive[g] if few_positive else positive[g]
            at = (below_common + 0.5 * common + 0.5) / (n_common + 1.0) * last
            below_common += common
            i = min(max(int(at), 1), last - 2)
            t = min(max(at - i, 0.0), 1.0)
            z[g] = 0.5 * (z[g] + normal_table[i] + t * (normal_table[i + 1] - normal_table[i]))
    bin_of = np.empty(n_groups, np.int64)
    most = min(n_bins, n_groups)
    bin_z = np.zeros(most)
    bin_positive = np.zeros(most)
    bin_total = np.zeros(most)
    if n_groups <= n_bins:
        for g in range(n_groups):
            bin_of[g] = g
            bin_z[g] = z[g]
            bin_positive[g] = positive[g]
            bin_total[g] = total[g]
        return z, bin_of, bin_z, bin_positive, bin_total
    per_bin = n_bins / (z[-1] - z[0])
    at_bin = -1
    grid_bin = -1
    for g in range(n_groups):
        b = min(int((z[g] - z[0]) * per_bin), n_bins - 1)
        if b != grid_bin:  # empty bins are left out
            grid_bin = b
            at_bin += 1
        bin_of[g] = at_bin
        bin_z[at_bin] += total[g] * z[g]
        bin_positive[at_bin] += positive[g]
        bin_total[at_bin] += total[g]
    size = at_bin + 1
    for b in range(size):
        bin_z[b] /= bin_total[b]
    return z, bin_of, bin_z[:size], bin_positive[:size], bin_total[:size]


@kernel
def deal_folds(
    positive: Floats, total: Floats, bin_of: Int64s, n_bins: int, n_folds: int
) -> tuple[Floats, Floats]:
    """Assign samples to folds; return the positives and the total of each (fold, bin).

    Weight is split into units of one sample by score, and each unit goes to a fold drawn from a
    fixed pseudo-random sequence, so folds do not depend on the order of the samples.
    """
    fold_positive = np.zeros((n_folds, n_bins))
    fold_total = np.zeros((n_folds, n_bins))
    state = np.uint64(88172645463325252)
    for g in range(total.size):
        for kind in range(2):
            left = positive[g] if kind == 0 else total[g] - positive[g]
            while left > 1e-12:
                # Multiplicative congruential steps modulo 2**64; the high bits are good.
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                fold = np.int64((state >> np.uint64(33)) % np.uint64(n_folds))
                unit = min(left, 1.0)
                left -= unit
                fold_total[fold, bin_of[g]] += unit
                if kind == 0:
                    fold_positive[fold, bin_of[g]] += unit
    return fold_positive, fold_total


@kernel
def fit_pspline_path(
    z: Floats,
    positive: Floats,
    total: Floats,
    penalties: Floats,
    n_segments: int,
    slope_sd: float,
    fitted: Floats2D,
    log_evidence: Floats,
) -> None:
    """Fit a cubic logistic P-spline of `positive` out of `total` on `z` for every penalty.

    Minimizes ``-loglik + penalty/2 |D2 b|^2 + |D1 b|^2 / (2 (m-1) h^2 slope_sd^2)`` over the m
    coefficients b, knots h apart, by Newton steps on the banded normal equations, from the largest
    penalty down. Writes the linear predictor of each (penalty, z) to `fitted` and the
    Laplace approximation of the log evidence to `log_evidence`.
    O(penalties x iterations x (bins + m)) time, O(bins + m) memory.
    """
    n_bins = z.size
    m = n_segments + 3
    low = z[0]
    width = max(z[-1] - z[0], 1e-6)
    h = width / n_segments
    first = np.empty(n_bins, np.int64)
    basis = np.empty((n_bins, 4))
    for b in range(n_bins):
        x = (z[b] - low) / h
        s = min(int(x), n_segments - 1)
        t = x - s
        first[b] = s
        basis[b, 0] = (1.0 - t) ** 3 / 6.0
        basis[b, 1] = (3.0 * t**3 - 6.0 * t**2 + 4.0) / 6.0
        basis[b, 2] = (-3.0 * t**3 + 3.0 * t**2 + 3.0 * t + 1.0) / 6.0
        basis[b, 3] = t**3 / 6.0
    ridge = 1.0 / ((m - 1) * h * h * slope_sd * slope_sd)
    n_positive = positive.sum()
    n_all = total.sum()
    start = np.log((n_positive + 0.5) / (n_all - n_positive + 0.5))
    coef = np.full(m, start)
    penalty_band = np.empty((m, 3))
    band = np.zeros((m, 4))
    step = np.zeros(m)
    eta = np.empty(n_bins)
    share = np.empty(n_bins)
    for at in range(penalties.size - 1, -1, -1):
        penalty = penalties[at]
        # The penalty matrix, upper band: penalty * D2'D2 + ridge * D1'D1.
        for i in range(m):
            penalty_band[i, 0] = penalty_band[i, 1] = penalty_band[i, 2] = 0.0
        for i in range(m - 2):
            penalty_band[i, 0] += penalty
            penalty_band[i, 1] -= 2.0 * penalty
            penalty_band[i, 2] += penalty
            penalty_band[i + 1, 0] += 4.0 * penalty
            penalty_band[i + 1, 1] -= 2.0 * penalty
            penalty_band[i + 2, 0] += penalty
        for i in range(m - 1):
            penalty_band[i, 0] += ridge
            penalty_band[i, 1] -= ridge
            penalty_band[i + 1, 0] += ridge
        # Its null space is the constants, so all its cofactors are equal: the product of its
        # non-zero eigenvalues is m times the determinant without the first row and column.
        log_det_penalty = np.log(float(m))
        for i in range(1, m):
            band[i, 0] = penalty_band[i, 0]
            band[i, 1] = penalty_band[i, 1]
            band[i, 2] = penalty_band[i, 2]
        for i in range(1, m):
            log_det_penalty += np.log(band[i, 0])
            for d in range(1, min(3, m - i)):
                ratio = band[i, d] / band[i, 0]
                for e in range(d, min(3, m - i)):
                    band[i + d, e - d] -= ratio * band[i, e]
        for _ in range(40):
            for i in range(m):
                band[i, 0] = penalty_band[i, 0]
                band[i, 1] = penalty_band[i, 1]
                band[i, 2] = penalty_band[i, 2]
                band[i, 3] = 0.0
                step[i] = 0.0
            # Minus the gradient of the penalties.
            for i in range(m - 1):
                pull = ridge * (coef[i + 1] - coef[i])
                step[i] += pull
                step[i + 1] -= pull
            for i in range(m - 2):
                bend = penalty * (coef[i] - 2.0 * coef[i + 1] + coef[i + 2])
                step[i] -= bend
                step[i + 1] += 2.0 * bend
                step[i + 2] -= bend
            # Loops of one kind of work each: a call of exp amid the sums would cost all of them.
            for b in range(n_bins):
                s = first[b]
                eta[b] = (
                    basis[b, 0] * coef[s]
                    + basis[b, 1] * coef[s + 1]
                    + basis[b, 2] * coef[s + 2]
                    + basis[b, 3] * coef[s + 3]
                )
            for b in range(n_bins):
                share[b] = 1.0 / (1.0 + np.exp(-eta[b]))
            for b in range(n_bins):
                s = first[b]
                v0, v1, v2, v3 = basis[b, 0], basis[b, 1], basis[b, 2], basis[b, 3]
                residual = positive[b] - total[b] * share[b]
                w = total[b] * share[b] * (1.0 - share[b])
                step[s] += residual * v0
                step[s + 1] += residual * v1
                step[s + 2] += residual * v2
                step[s + 3] += residual * v3
                band[s, 0] += w * v0 * v0
                band[s, 1] += w * v0 * v1
                band[s, 2] += w * v0 * v2
                band[s, 3] += w * v0 * v3
                band[s + 1, 0] += w * v1 * v1
                band[s + 1, 1] += w * v1 * v2
                band[s + 1, 2] += w * v1 * v3
                band[s + 2, 0] += w * v2 * v2
                band[s + 2, 1] += w * v2 * v3
                band[s + 3, 0] += w * v3 * v3
            # A saturated fit has no curvature left along the constants; keep the system definite.
            tiny = 1e-12 * (penalty + ridge)
            for i in range(m):
                band[i, 0] += tiny
            # Banded elimination with the right-hand side carried along, then back substitution.
            # What is taken off the next three rows is held in variables, which need no waiting.
            d1 = e1 = f1 = d2 = e2 = d3 = 0.0
            y1 = y2 = y3 = 0.0
            for i in range(m):
                b0 = band[i, 0] - d1
                b1 = band[i, 1] - e1
                b2 = band[i, 2] - f1
                b3 = band[i, 3]
                y = step[i] - y1
                inverse = 1.0 / b0
                r1, r2, r3 = b1 * inverse, b2 * inverse, b3 * inverse
                d1, e1, f1 = d2 + r1 * b1, e2 + r1 * b2, r1 * b3
                d2, e2 = d3 + r2 * b2, r2 * b3
                d3 = r3 * b3
                y1, y2, y3 = y2 + r1 * y, y3 + r2 * y, r3 * y
                band[i, 0], band[i, 1], band[i, 2], band[i, 3] = b0, r1, r2, r3
                step[i] = y * inverse
            largest = 0.0
            x1 = x2 = x3 = 0.0
            for i in range(m - 1, -1, -1):
                x = step[i] - band[i, 3] * x3 - band[i, 2] * x2 - band[i, 1] * x1
                step[i] = x
                x1, x2, x3 = x, x1, x2
                largest = max(largest, abs(x))
            # Newton's step may overshoot where the likelihood is flat: bound its length.
            scale = 1.0 if largest <= 3.0 else 3.0 / largest
            for i in range(m):
                coef[i] += scale * step[i]
            if largest < 1e-4:  # convergence is quadratic: the next step would be about 1e-8
                break
        log_det = 0.0
        for i in range(m):
            log_det += np.log(band[i, 0])
        quadratic = 0.0
        for i in range(m - 1):
            quadratic += ridge * (coef[i + 1] - coef[i]) ** 2
        for i in range(m - 2):
            quadratic += penalty * (coef[i] - 2.0 * coef[i + 1] + coef[i + 2]) ** 2
        log_likelihood = 0.0
        for b in range(n_bins):
            s = first[b]
            value = 0.0
            for d in range(4):
                value += basis[b, d] * coef[s + d]
            fitted[at, b] = value
            log_sum = max(value, 0.0) + np.log1p(np.exp(-abs(value)))  # log(1 + exp(value))
            log_likelihood += positive[b] * value - total[b] * log_sum
        log_evidence[at] = log_likelihood - 0.5 * (quadratic - log_det_penalty + log_det)


@kernel
def spread_bins(z: Floats, bin_z: Floats, bin_value: Floats, out: Floats) -> None:
    """Interpolate values at the bins' normal scores to all groups of the label. O(groups)."""
    last = bin_z.size - 1
    b = 0
    for g in range(z.size):
        while b < last and z[g] > bin_z[b + 1]:
            b += 1
        if b == last or z[g] <= bin_z[b]:
            out[g] = bin_value[b]
        else:
            t = (z[g] - bin_z[b]) / (bin_z[b + 1] - bin_z[b])
            out[g] = bin_value[b] + t * (bin_value[b + 1] - bin_value[b])


@kernel
def average_psplines(
    ptr: Int64s,
    positive: Floats,
    total: Floats,
    grid: SplineGrid,
    slope_sd: float,
    lpr: Floats,
) -> None:
    """Fit every label's P-splines and average them over the penalties by their evidence.

    Groups of tied scores ``ptr[k]:ptr[k + 1]`` are those of label ``k``: positives and all.
    Writes LPRs (not monotone yet) per group to `lpr`. A label with one class or one distinct score
    gets its share of positives.
    """
    normal_table, penalties, n_segments, n_bins = grid
    share = np.empty(penalties.size)
    for k in range(ptr.size - 1):
        begin, end = ptr[k], ptr[k + 1]
        n_positive = positive[begin:end].sum()
        n_all = total[begin:end].sum()
        # There is no curve through one score, and its fit converges slowly.
        if end == begin + 1 or min(n_positive, n_all - n_positive) <= 0.0:
            for g in range(begin, end):
                lpr[g] = n_positive / n_all
            continue
        z, _, bin_z, bin_positive, bin_total = bin_normal_scores(
            positive[begin:end], total[begin:end], normal_table, n_bins, True
        )
        size = bin_z.size
        fitted = np.empty((penalties.size, size))
        log_evidence = np.empty(penalties.size)
        fit_pspline_path(
            bin_z, bin_positive, bin_total, penalties, n_segments, slope_sd, fitted, log_evidence
        )
        best = -np.inf
        for at in range(penalties.size):
            best = max(best, log_evidence[at])
        share_all = 0.0
        for at in range(penalties.size):
            share[at] = np.exp(log_evidence[at] - best)
            share_all += share[at]
        mean = np.zeros(size)
        for at in range(penalties.size):
            share[at] /= share_all
            if share[at] > 1e-6:
                for b in range(size):
                    mean[b] += share[at] / (1.0 + np.exp(-fitted[at, b]))
        spread_bins(z, bin_z, mean, lpr[begin:end])


@kernel
def fit_label_lines(
    ptr: Int64s,
    curve_of: Int64s,
    base: Floats,
    positive: Floats,
    total: Floats,
    n_steps: int,
    most_variance: float,
    curve: Floats2D,
    line: Floats2D,
) -> None:
    """Fit log-odds ``a + u + (b + v) base`` with a, b per curve and u, v per label, in place.

    u and v are normal with mean 0. Rows of `curve` are a, b and the variances of u and v; rows of
    `line` are u and v; `ptr` delimits the bins of labels. A step improves the lines of labels,
    then a and b, both by Newton, then the variances by expectation; with `most_variance` 0, the
    lines only. O(steps x bins).
    """
    n_curves = curve.shape[1]
    for _ in range(n_steps):
        # Gradient and curvature of a and b; sums of squares of u and v; number of labels.
        sums = np.zeros((8, n_curves))
        for k in range(curve_of.size):
            begin, end = ptr[k], ptr[k + 1]
            if begin == end:
                continue
            c = curve_of[k]
            a, b = curve[0, c] + line[0, k], curve[1, c] + line[1, k]
            g0, g1 = -line[0, k] / curve[2, c], -line[1, k] / curve[3, c]
            h00, h01, h11 = 1.0 / curve[2, c], 0.0, 1.0 / curve[3, c]
            for i in range(begin, end):
                p = 1.0 / (1.0 + np.exp(-(a + b * base[i])))
                residual = positive[i] - total[i] * p
                w = total[i] * p * (1.0 - p)
                g0 += residual
                g1 += residual * base[i]
                h00 += w
                h01 += w * base[i]
                h11 += w * base[i] * base[i]
            determinant = h00 * h11 - h01 * h01
            line[0, k] += min(max((h11 * g0 - h01 * g1) / determinant, -2.0), 2.0)
            step = min(max((h00 * g1 - h01 * g0) / determinant, -0.5), 0.5)
            line[1, k] = max(line[1, k] + step, -0.95 * curve[1, c])
            if most_variance == 0.0:
                continue
            a, b = curve[0, c] + line[0, k], curve[1, c] + line[1, k]
            for i in range(begin, end):
                p = 1.0 / (1.0 + np.exp(-(a + b * base[i])))
                residual = positive[i] - total[i] * p
                w = total[i] * p * (1.0 - p)
                sums[0, c] += residual
                sums[1, c] += residual * base[i]
                sums[2, c] += w
                sums[3, c] += w * base[i]
                sums[4, c] += w * base[i] * base[i]
            sums[5, c] += line[0, k] ** 2 + h11 / determinant
            sums[6, c] += line[1, k] ** 2 + h00 / determinant
            sums[7, c] += 1.0
        for c in range(n_curves):
            if sums[7, c] == 0.0:
                continue
            # The slope has a normal prior of mean and variance 1.
            g0, g1 = sums[0, c], sums[1, c] + 1.0 - curve[1, c]
            h00, h01, h11 = sums[2, c] + 1e-3, sums[3, c], sums[4, c] + 1.0
            determinant = h00 * h11 - h01 * h01
            curve[0, c] += min(max((h11 * g0 - h01 * g1) / determinant, -1.0), 1.0)
            step = min(max((h00 * g1 - h01 * g0) / determinant, -0.5), 0.5)
            curve[1, c] = max(curve[1, c] + step, 0.05)
            curve[2, c] = min(max(sums[5, c] / sums[7, c], 1e-3), most_variance)
            curve[3, c] = min(max(sums[6, c] / sums[7, c], 1e-3), 1.0)
        for k in range(curve_of.size):  # b may have fallen: no label's slope is negative
            line[1, k] = max(line[1, k], -curve[1, curve_of[k]])
