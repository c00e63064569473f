"""Groups of tied scores, monotone regression on them, and the curves they compile to."""

import numpy as np

from hierlpr._kernels._jit import Bools, Bools2D, Floats, Floats2D, Int32s, Int64s, Int64s2D, kernel


@kernel
def group_sorted(
    scores: Floats2D, truth: Bools2D, order: Int64s2D, weight: Floats2D
) -> tuple[Int64s, Floats, Floats, Floats]:
    """Merge equal scores of each row into groups; return their total and positive weight.

    Rows are labels; ``order[k]`` sorts row k. `weight` has one row per label, or a single row for
    all. Samples of weight 0 are skipped. O(size).
    """
    n_labels, n_samples = scores.shape
    group_ptr = np.zeros(n_labels + 1, np.int64)
    group_score = np.empty(scores.size)
    positive = np.empty(scores.size)
    total = np.empty(scores.size)
    size = 0
    for k in range(n_labels):
        begin = size
        for i in range(n_samples):
            m = order[k, i]
            w = weight[k % weight.shape[0], m]
            if w == 0.0:
                continue
            score = scores[k, m]
            if size == begin or score > group_score[size - 1]:
                # Adding 0.0 turns -0.0 into 0.0, so that equal scores have equal bits.
                group_score[size] = score + 0.0
                positive[size] = 0.0
                total[size] = 0.0
                size += 1
            total[size - 1] += w
            if truth[k, m]:
                positive[size - 1] += w
        group_ptr[k + 1] = size
    return group_ptr, group_score[:size].copy(), positive[:size].copy(), total[:size].copy()


@kernel
def group_stored(
    col_ptr: Int64s,
    row: Int64s,
    score: Floats,
    truth_ptr: Int64s,
    truth_row: Int64s,
    weight: Floats2D,
    excluded: Floats,
    excluded_positive: Floats,
) -> tuple[Int64s, Floats, Floats, Floats]:
    """Do the same as `group_sorted` for sparse columns; unstored entries form the lowest group.

    That group has the score -inf. `excluded` is the weight of each label's samples that it leaves
    out, `excluded_positive` that of the positives among them.
    O(stored log stored) plus O(n_samples) per row of `weight`.
    """
    n_labels = col_ptr.size - 1
    group_ptr = np.zeros(n_labels + 1, np.int64)
    group_score = np.empty(score.size + n_labels)
    positive = np.empty(score.size + n_labels)
    total = np.empty(score.size + n_labels)
    is_positive = np.zeros(weight.shape[1], np.bool_)
    weight_sum = np.zeros(weight.shape[0])
    for k in range(weight.shape[0]):
        weight_sum[k] = weight[k].sum()
    size = 0
    for k in range(n_labels):
        at = k % weight.shape[0]
        all_weight = weight_sum[at]
        begin = size
        group_score[size] = -np.inf
        positive[size] = -excluded_positive[k]
        total[size] = all_weight - excluded[k]
        for e in range(truth_ptr[k], truth_ptr[k + 1]):
            is_positive[truth_row[e]] = True
            positive[size] += weight[at, truth_row[e]]
        size += 1
        order = np.argsort(score[col_ptr[k] : col_ptr[k + 1]], kind="mergesort")
        for i in order:
            e = col_ptr[k] + i
            w = weight[at, row[e]]
            if w == 0.0:
                continue
            if score[e] > group_score[size - 1]:
                group_score[size] = score[e]
                positive[size] = 0.0
                total[size] = 0.0
                size += 1
            total[size - 1] += w
            total[begin] -= w
            if is_positive[row[e]]:
                positive[size - 1] += w
                positive[begin] -= w
        for e in range(truth_ptr[k], truth_ptr[k + 1]):
            is_positive[truth_row[e]] = False
        is_empty = total[begin] <= 1e-9 * all_weight
        if is_empty and size > begin + 1:
            size -= 1
            for g in range(begin, size):
                group_score[g] = group_score[g + 1]
                positive[g] = positive[g + 1]
                total[g] = total[g + 1]
        else:
            if is_empty:  # always implied and never stored: use its prevalence
                positive[begin], total[begin] = excluded_positive[k], excluded[k]
            positive[begin] = min(max(positive[begin], 0.0), total[begin])
        group_ptr[k + 1] = size
    return group_ptr, group_score[:size].copy(), positive[:size].copy(), total[:size].copy()


@kernel
def make_monotone(ptr: Int64s, value: Floats, weight: Floats) -> None:
    """Replace each run of `value` by its weighted isotonic regression, in place.

    Pooled adjacent violators: O(size). Runs are ``value[ptr[k]:ptr[k + 1]]``.
    """
    mean = np.empty(value.size)
    mass = np.empty(value.size)
    last = np.empty(value.size, np.int64)
    for k in range(ptr.size - 1):
        n_pools = 0
        for i in range(ptr[k], ptr[k + 1]):
            mean[n_pools] = value[i]
            mass[n_pools] = weight[i]
            last[n_pools] = i
            n_pools += 1
            # Invariant: the means of the pools before the last one rise strictly.
            while n_pools > 1 and mean[n_pools - 2] >= mean[n_pools - 1]:
                w = mass[n_pools - 2] + mass[n_pools - 1]
                if mean[n_pools - 2] > mean[n_pools - 1]:
                    mean[n_pools - 2] += (
                        (mean[n_pools - 1] - mean[n_pools - 2]) * mass[n_pools - 1] / w
                    )
                mass[n_pools - 2] = w
                last[n_pools - 2] = last[n_pools - 1]
                n_pools -= 1
        i = ptr[k]
        for pool in range(n_pools):
            while i <= last[pool]:
                value[i] = mean[pool]
                i += 1


@kernel
def fit_isotonic(ptr: Int64s, positive: Floats, total: Floats, shrinkage: float) -> Floats:
    """Isotonic share of positives, each pool shrunk to the prevalence by `shrinkage` samples."""
    lpr = np.empty(total.size)
    mass = np.empty(total.size)
    start = np.empty(total.size + 1, np.int64)
    pool_positive = np.empty(total.size)
    for k in range(ptr.size - 1):
        begin, end = ptr[k], ptr[k + 1]
        prevalence = (positive[begin:end].sum() + 0.5) / (total[begin:end].sum() + 1.0)
        n_pools = 0
        for i in range(begin, end):
            pool_positive[n_pools] = positive[i]
            mass[n_pools] = total[i]
            start[n_pools] = i
            n_pools += 1
            while n_pools > 1 and (
                pool_positive[n_pools - 2] * mass[n_pools - 1]
                >= pool_positive[n_pools - 1] * mass[n_pools - 2]
            ):
                pool_positive[n_pools - 2] += pool_positive[n_pools - 1]
                mass[n_pools - 2] += mass[n_pools - 1]
                n_pools -= 1
        start[n_pools] = end
        # Small pools shrink more than large ones, which may put neighbours out of order again:
        # pooling the shrunk means keeps the curve monotone.
        pools = 0
        for pool in range(n_pools):
            pool_positive[pools] = pool_positive[pool] + shrinkage * prevalence
            mass[pools] = mass[pool] + shrinkage
            start[pools] = start[pool]
            pools += 1
            while pools > 1 and (
                pool_positive[pools - 2] * mass[pools - 1]
                >= pool_positive[pools - 1] * mass[pools - 2]
            ):
                pool_positive[pools - 2] += pool_positive[pools - 1]
                mass[pools - 2] += mass[pools - 1]
                pools -= 1
        start[pools] = end
        for pool in range(pools):
            for i in range(start[pool], start[pool + 1]):
                lpr[i] = pool_positive[pool] / mass[pool]
    return lpr


@kernel
def compress_curves(
    ptr: Int64s, score: Floats, lpr: Floats, total: Floats, is_exact: Bools
) -> tuple[Int64s, Floats, Floats]:
    """Knots of each label's curve: the ends of its runs of (nearly) equal LPR.

    Of labels that are `is_exact`, a run holds equal LPRs only. Else it holds LPRs that differ by
    at most 1/256 and at most a 20th of p (1 - p) (or 1e-5, if that is more), and has their mean:
    a few hundred runs at most, whatever the number of groups. A run of two or more groups has two
    knots of one LPR.
    """
    knot_ptr = np.zeros(ptr.size, np.int64)
    knot_score = np.empty(lpr.size)
    knot_lpr = np.empty(lpr.size)
    size = 0
    for k in range(ptr.size - 1):
        begin, end = ptr[k], ptr[k + 1]
        first = begin
        while first < end:
            p = lpr[first]
            step = max(1e-5, min(1.0 / 256.0, p * (1.0 - p) / 20.0))
            limit = p if is_exact[k] else p + step
            mass = total[first]
            excess = 0.0  # relative to p, so that a run of equal LPRs keeps its exact value
            last = first
            while last + 1 < end and lpr[last + 1] <= limit:
                last += 1
                mass += total[last]
                excess += total[last] * (lpr[last] - p)
            knot_score[size] = score[first]
            knot_lpr[size] = p + excess / mass
            size += 1
            if last > first:
                knot_score[size] = score[last]
                knot_lpr[size] = knot_lpr[size - 1]
                size += 1
            first = last + 1
        knot_ptr[k + 1] = size
    return knot_ptr, knot_score[:size].copy(), knot_lpr[:size].copy()


@kernel
def evaluate_curves(
    scores: Floats2D,
    start: int,
    stop: int,
    knot_ptr: Int64s,
    knot_score: Floats,
    knot_lpr: Floats,
    out: Floats2D,
) -> None:
    """Interpolate scores of columns ``start`` to ``stop`` on their curves; constant beyond them.

    O(size x log knots), and about O(size) where knots are spread evenly. Columns go in blocks of
    8, a cache line of scores, so that their knots stay in the cache; they are searched side by
    side, so that loads of one need not wait for another's.
    """
    n_samples = scores.shape[0]
    n_buckets = 128 if n_samples >= 256 else 16
    # first[j, b] is the first knot of the block's label j in bucket b or later. Buckets have
    # equal width in the score; their numbers rise with it even after rounding.
    first = np.empty((8, n_buckets + 1), np.int64)
    per_score = np.empty(8)
    low = np.empty(8, np.int64)
    left = np.empty(8, np.int64)
    for block in range(start, stop, 8):
        end = min(block + 8, stop)
        for k in range(block, end):
            begin, last = knot_ptr[k], knot_ptr[k + 1] - 1
            per_score[k - block] = 0.0
            first[k - block, 0] = begin
            first[k - block, 1] = last + 1
            if n_samples < 16:  # few samples are not worth the table
                continue
            width = knot_score[last] - knot_score[begin]
            scale = n_buckets / width
            if not (width > 0.0 and 0.0 < scale < np.inf):  # a range that overflows has no buckets
                continue
            per_score[k - block] = scale
            bucket = 0
            for i in range(begin, last + 1):
                b = min(int((knot_score[i] - knot_score[begin]) * scale), n_buckets - 1)
                while bucket <= b:
                    first[k - block, bucket] = i
                    bucket += 1
            while bucket <= n_buckets:
                first[k - block, bucket] = last + 1
                bucket += 1
        for m in range(n_samples):
            most = 1
            for k in range(block, end):
                j = k - block
                b = 0
                if per_score[j] > 0.0:
                    past = (scores[m, k] - knot_score[knot_ptr[k]]) * per_score[j]
                    b = int(min(max(past, 0.0), n_buckets - 1.0))
                low[j] = max(first[j, b] - 1, knot_ptr[k])
                left[j] = first[j, b + 1] - low[j]
                most = max(most, left[j])
            # Invariant: knot_score[low] <= score < knot_score[low + left], where `low` may also be
            # the first knot and ``low + left`` past the last; `most` is the longest of all `left`.
            while most > 1:
                for k in range(block, end):
                    j = k - block
                    half = left[j] >> 1
                    low[j] += half if knot_score[low[j] + half] <= scores[m, k] else 0
                    left[j] -= half
                most -= most >> 1
            for k in range(block, end):
                score = scores[m, k]
                i = low[k - block]
                if i == knot_ptr[k + 1] - 1 or score <= knot_score[i]:
                    out[m, k] = knot_lpr[i]
                    continue
                # Halves, because the difference of two huge scores may overflow.
                t = (0.5 * score - 0.5 * knot_score[i]) / (
                    0.5 * knot_score[i + 1] - 0.5 * knot_score[i]
                )
                t = min(t, 1.0) if t > 0.0 else 0.0
                out[m, k] = knot_lpr[i] + t * (knot_lpr[i + 1] - knot_lpr[i])


@kernel
def evaluate_stored(
    column: Int32s,
    scores: Floats,
    knot_ptr: Int64s,
    knot_score: Floats,
    knot_lpr: Floats,
    out: Floats,
) -> None:
    """Do as `evaluate_curves` for the stored entries of a sparse matrix."""
    for e in range(scores.size):
        score = scores[e]
        low, high = knot_ptr[column[e]], knot_ptr[column[e] + 1] - 1
        if score <= knot_score[low]:
            out[e] = knot_lpr[low]
            continue
        if score >= knot_score[high]:
            out[e] = knot_lpr[high]
            continue
        left = high - low
        while left > 1:
            half = left >> 1
            low += half if knot_score[low + half] <= score else 0
            left -= half
        high = low + 1
        t = (0.5 * score - 0.5 * knot_score[low]) / (0.5 * knot_score[high] - 0.5 * knot_score[low])
        t = min(t, 1.0) if t > 0.0 else 0.0
        out[e] = knot_lpr[low] + t * (knot_lpr[high] - knot_lpr[low])


@kernel
def area_under_roc(ptr: Int64s, positive: Floats, total: Floats) -> Floats:
    """Area under the ROC curve per label, NaN without both classes. O(size)."""
    out = np.full(ptr.size - 1, np.nan)
    for k in range(ptr.size - 1):
        n_positive = positive[ptr[k] : ptr[k + 1]].sum()
        n_negative = total[ptr[k] : ptr[k + 1]].sum() - n_positive
        below = 0.0
        area = 0.0
        for g in range(ptr[k], ptr[k + 1]):
            negative = total[g] - positive[g]
            area += positive[g] * (below + 0.5 * negative)
            below += negative
        if n_positive * n_negative > 0.0:
            out[k] = area / (n_positive * n_negative)
    return out


@kernel
def bin_groups(
    ptr: Int64s,
    score: Floats,
    positive: Floats,
    total: Floats,
    lpr: Floats,
    share_edges: Floats,
) -> tuple[Int64s, Floats2D]:
    """Merge the groups of each label whose mid-rank share lies between the same two edges. O(size).

    Returns where labels begin and, per bin (columns), the middle and the highest of its scores, the
    mid-rank share, the weight of positives and of all samples, and the mean LPR. Empty bins are
    left out, and a group of score -inf has a bin of its own.
    """
    bin_ptr = np.zeros(ptr.size, np.int64)
    out = np.empty((6, min(total.size, (ptr.size - 1) * (share_edges.size + 2))))
    size = 0
    for k in range(ptr.size - 1):
        n_all = total[ptr[k] : ptr[k + 1]].sum()
        below = 0.0
        edge = 0
        g = ptr[k]
        while g < ptr[k + 1]:
            while edge < share_edges.size and below + 0.5 * total[g] > share_edges[edge] * n_all:
                edge += 1
            last_share = share_edges[edge] * n_all if edge < share_edges.size else np.inf
            first = g
            bin_total = bin_positive = bin_lpr = 0.0
            while g < ptr[k + 1] and (
                g == first
                or (below + bin_total + 0.5 * total[g] <= last_share and score[first] > -np.inf)
            ):
                bin_total += total[g]
                bin_positive += positive[g]
                bin_lpr += total[g] * lpr[g]
                g += 1
            out[0, size] = score[(first + g - 1) // 2]
            out[1, size] = score[g - 1]
            out[2, size] = (below + 0.5 * bin_total) / n_all
            out[3, size] = bin_positive
            out[4, size] = bin_total
            out[5, size] = bin_lpr / bin_total
            below += bin_total
            size += 1
        bin_ptr[k + 1] = size
    return bin_ptr, out[:, :size].copy()


@kernel
def count_in_bins(
    ptr: Int64s, score: Floats, positive: Floats, total: Floats, bin_ptr: Int64s, highest: Floats
) -> Floats2D:
    """Sum positive and total weight of groups in given bins, up to the highest score of each.

    Groups of score -inf are left out where there is no such bin. O(groups + bins).
    """
    out = np.zeros((2, highest.size))
    for k in range(ptr.size - 1):
        b, last = bin_ptr[k], bin_ptr[k + 1] - 1
        for g in range(ptr[k], ptr[k + 1]):
            if score[g] == -np.inf and highest[b] > -np.inf:
                continue
            while b < last and score[g] > highest[b]:
                b += 1
            out[0, b] += positive[g]
            out[1, b] += total[g]
    return out
