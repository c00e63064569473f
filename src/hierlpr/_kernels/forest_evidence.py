"""What the other labels of a forest say about each label, of many samples at a time."""

import numpy as np

from hierlpr._kernels._arrays import Floats, Floats2
from hierlpr._kernels._jit import kernel
from hierlpr._kernels.elementary import exponential, logarithm
from hierlpr._kernels.joint_passes import Bounds, Tree

AT_ONCE = 64  # samples side by side; a few arrays of (labels, samples) stay in the cache
BIG = 2.0**400
SMALL = 2.0**-400


@kernel
def forest_evidence(
    place: Floats2,
    start: int,
    stop: int,
    log_odds: Floats2,
    prior: Floats,
    tree: Tree,
    bounds: Bounds,
    own: Floats2,
    others: Floats2,
    first: int,
) -> None:
    """Write the own and the others' evidence of samples ``start`` to ``stop``; rows are labels.

    It is `look_up_codes` and `joint_forest` together, step by step for `AT_ONCE` samples, so that
    the steps run along the memory. Columns of `own` and `others` from `first` on are written. As
    the log-odds are finite, the likelihood ratio of a score is the exponential of its own evidence.
    """
    order, parent, on, off, prevalence = tree
    _, least, most = bounds
    n = order.size
    last = log_odds.shape[1] - 2
    width = min(AT_ONCE, max(stop - start, 1))
    ratio = np.empty((n, width))  # of the label's own score
    below = np.empty((n, width))  # r times the messages of the children; then the share; then P
    rest = np.empty((n, width))  # 1 - share, free of cancellation; then 1 - P
    message = np.empty(width)
    # Products are held as value * BIG ** steps; hardly ever are there any steps.
    steps = np.zeros((n, width), np.int32)
    has_steps = np.zeros(n, np.bool_)
    for begin in range(start, stop, width):
        size = min(width, stop - begin)
        at = first + begin - start
        for i in range(n):
            k = order[i]
            for m in range(size):
                x = place[k, begin + m]
                c = int(x) if x < last else last  # NaN stays NaN, whatever the code
                message[m] = log_odds[k, c] + (x - c) * (log_odds[k, c + 1] - log_odds[k, c])
            for m in range(size):
                evidence = message[m] - prior[k]
                own[k, at + m] = evidence if evidence == evidence else 0.0
            for m in range(size):
                ratio[i, m] = exponential(own[k, at + m])
            for m in range(size):
                below[i, m] = ratio[i, m]
        # Invariant: when node i is reached, the messages of all its children are in below[i].
        for i in range(n - 1, -1, -1):
            if has_steps[i]:
                for m in range(size):
                    yes, no = on[i] * below[i, m], off[i]
                    if steps[i, m] > 0:
                        no = no * SMALL if steps[i, m] == 1 else 0.0
                    elif steps[i, m] < 0 and no > 0.0:
                        yes = yes * SMALL if steps[i, m] == -1 else 0.0
                        steps[i, m] = 0
                    message[m] = yes + no
                    inverse = 1.0 / (yes + no)
                    below[i, m] = yes * inverse
                    rest[i, m] = no * inverse
            else:
                for m in range(size):
                    yes = on[i] * below[i, m]
                    message[m] = yes + off[i]
                    inverse = 1.0 / (yes + off[i])
                    below[i, m] = yes * inverse
                    rest[i, m] = off[i] * inverse
            p = parent[i]
            if p < 0:
                continue
            outside = 0
            for m in range(size):
                product = below[p, m] * message[m]
                below[p, m] = product
                outside += 1 if product > BIG or product < SMALL else 0
            if has_steps[i] or outside > 0:
                has_steps[p] = True
                for m in range(size):
                    product = below[p, m]
                    e = steps[p, m] + steps[i, m]
                    while product > BIG:
                        product *= SMALL
                        e += 1
                    while 0.0 < product < SMALL:
                        product *= BIG
                        e -= 1
                    below[p, m] = product
                    steps[p, m] = e
        for i in range(n):
            if has_steps[i]:  # the next samples begin without
                has_steps[i] = False
                for m in range(size):
                    steps[i, m] = 0
            p = parent[i]
            if p >= 0:
                for m in range(size):
                    rest[i, m] = rest[p, m] + below[p, m] * rest[i, m]
                    below[i, m] *= below[p, m]
        for i in range(n):
            k = order[i]
            inverse_odds = (1.0 - prevalence[i]) / prevalence[i]
            for m in range(size):
                odds = below[i, m] * inverse_odds / (max(rest[i, m], 1e-300) * ratio[i, m])
                message[m] = min(max(odds, 1e-300), 1e300)
            for m in range(size):
                message[m] = logarithm(message[m])
            for m in range(size):
                x = message[m]
                others[k, at + m] = min(max(x, -most), most) if abs(x) > least else 0.0
