"""The curves of a report from all instances at once: slow, and easy to believe."""

import numpy as np

from hierlpr.data.tables import dense
from hierlpr.metrics import au_prc_score, normalized_hit_area_score
from hierlpr.plots.comparisons import TARGETS


def corners(value, truth, weight):
    """Weight of calls and of hits, and values times weight, after each group of equal values."""
    found = [(0, 0.0, 0.0, 0.0)]
    for level in sorted(set(value.tolist()), reverse=True):
        at = value == level
        n, made, right, chance = found[-1]
        found.append(
            (
                n + int(at.sum()), made + weight[at].sum(), right + weight[at & truth].sum(),
                chance + (weight[at] * value[at]).sum(),
            )
        )  # fmt: skip
    return np.array(found)


def whole_order(matrix, truth, unknown, weight, n_calls):
    """Areas, the precision after so many calls, and the prices of the targets, of one order."""
    values, held = dense(matrix), dense(truth)
    listed = ~np.isnan(values)
    if not isinstance(matrix, np.ndarray):
        stored = matrix.copy()
        stored.data = np.ones_like(stored.data)
        listed = stored.toarray() > 0
    known = np.ones_like(listed) if unknown is None else ~dense(unknown)
    own = np.broadcast_to((np.ones(len(held)) if weight is None else weight)[:, None], held.shape)
    lowest = values[listed].min() - 1.0 if listed.any() else 0.0
    full = np.where(listed, values, lowest)  # what is not listed comes last, as one group
    flat = [x[known] for x in (full, held, own)]
    curve = corners(*flat)
    ranked = curve[:-1] if (~listed & known).any() else curve
    areas = [np.nan, np.nan]
    if 0 < flat[1].sum() < flat[1].size:
        areas = [f(flat[1], flat[0], sample_weight=flat[2])
                 for f in (au_prc_score, normalized_hit_area_score)]  # fmt: skip
    there = None
    if n_calls:
        made, right = (np.interp(n_calls, curve[:, 0], curve[:, k]) for k in (1, 2))
        there = right / made
    prices = {}
    for name, share, points in (
        ("right", curve[1:, 2] / curve[1:, 1], curve),
        ("expected", ranked[1:, 3] / ranked[1:, 1], ranked),
    ):
        meets = [np.flatnonzero(share >= target - 1e-12) for target in TARGETS]
        prices[name] = [int(points[1 + m[-1], 0]) if m.size else 0 for m in meets]
    return areas, there, prices
