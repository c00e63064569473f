"""The exact posterior of every label given all LPRs of its sample, on forests."""

import numpy as np

from hierlpr._kernels._arrays import Floats, Floats2, Index
from hierlpr._kernels._jit import kernel

__all__ = ["joint_forest", "weigh_evidence"]


@kernel
def joint_forest(
    lpr: Floats2,
    start: int,
    stop: int,
    order: Index,
    parent: Index,
    on: Floats,
    off: Floats,
    prevalence: Floats,
    floor: float,
    most: float,
    posterior: Floats2,
    others: Floats2,
) -> None:
    """Write the posteriors of samples ``start`` to ``stop``: one pass up, one pass down.

    Node ``i``, numbered with parents first, is in column ``order[i]`` of `lpr`; NaN there means
    that its score is missing. ``on[i]`` is its probability given that its parent holds, ``off[i]``
    one minus that, and ``prevalence[i]`` what its LPR is without any score.

    If `others` is not empty, it gets the log-odds of the posterior over those of the label's own
    LPR, at most `most` in size: what the rest of the hierarchy adds.

    No logarithm is needed on the way. A product of ratios is held as ``value * BIG ** steps``
    with ``value`` in [1 / BIG, BIG], so chains of any length neither overflow nor vanish. O(K)
    time a sample, O(K) memory.
    """
    n = order.size
    big = 2.0**400
    small = 2.0**-400
    below = np.empty(n)  # r times the messages of the children; then the share; then P
    steps = np.empty(n, np.int32)
    ratio = np.empty(n)  # r, the likelihood ratio of the label's own score
    rest = np.empty(n)  # 1 - share, free of cancellation; then 1 - P
    inverse_odds = np.empty(n)
    for i in range(n):
        inverse_odds[i] = (1.0 - prevalence[i]) / prevalence[i]
    for m in range(start, stop):
        for i in range(n):
            x = lpr[m, order[i]]
            r = 1.0
            if x == x:
                x = min(max(x, floor), 1.0 - floor)
                r = x / (1.0 - x) * inverse_odds[i]
            below[i] = r
            ratio[i] = r
            steps[i] = 0
        # Invariant: when node i is reached, the messages of all its children are in below[i].
        for i in range(n - 1, -1, -1):
            yes = on[i] * below[i]
            no = off[i]
            e = steps[i]
            if e > 0:
                no = no * small if e == 1 else 0.0
            elif e < 0 and no > 0.0:
                yes = yes * small if e == -1 else 0.0
                e = 0
            message = yes + no
            below[i] = yes / message
            rest[i] = no / message
            p = parent[i]
            if p >= 0:
                product = below[p] * message
                e += steps[p]
                while product > big:
                    product *= small
                    e += 1
                while 0.0 < product < small:
                    product *= big
                    e -= 1
                below[p] = product
                steps[p] = e
        for i in range(n):
            p = parent[i]
            if p >= 0:
                rest[i] = rest[p] + below[p] * rest[i]
                below[i] *= below[p]
            posterior[m, order[i]] = below[i]
        if others.size > 0:
            for i in range(n):
                odds = below[i] / max(rest[i], 1e-300) * inverse_odds[i] / ratio[i]
                added = np.log(min(max(odds, 1e-300), 1e300))
                others[m, order[i]] = min(max(added, -most), most)


@kernel
def weigh_evidence(
    lpr: Floats2,
    others: Floats2,
    start: int,
    stop: int,
    prior: Floats,
    own: Floats,
    rest: Floats,
    shift: Floats,
    floor: float,
    out: Floats2,
) -> None:
    """Write the probability of each label from its own and the others' evidence, both weighted.

    The log-odds are ``shift + prior + own * (logit(lpr) - prior) + rest * others`` with the
    prior's log-odds `prior`; a missing LPR (NaN) adds nothing. O(size).
    """
    for m in range(start, stop):
        for k in range(lpr.shape[1]):
            x = lpr[m, k]
            z = shift[k] + prior[k] + rest[k] * others[m, k]
            if x == x:
                x = min(max(x, floor), 1.0 - floor)
                z += own[k] * (np.log(x / (1.0 - x)) - prior[k])
            out[m, k] = 1.0 / (1.0 + np.exp(-z))
