"""Curves of a report computed from all instances, slowly, in a way that is easy to believe."""

import numpy as np

from hierlpr.data.tables import dense
from hierlpr.metrics import au_prc_score, normalized_hit_area_score
from hierlpr.plots.summary import TARGETS


def corners(score, truth, weight):
    """Number and weight of calls, weight of hits and score times weight, after each group."""
    found = [(0, 0.0, 0.0, 0.0)]
    for level in sorted(set(score.tolist()), reverse=True):
        at = score == level
        n, calls, hits, total = found[-1]
        calls, hits = calls + weight[at].sum(), hits + weight[at & truth].sum()
        found.append((n + int(at.sum()), calls, hits, total + (weight[at] * score[at]).sum()))
    return np.array(found)


def measured(matrix, truth, unknown, weight, n_calls):
    """Areas, the precision after so many calls, and calls at each target, of one order."""
    values, held = dense(matrix), dense(truth)
    listed = ~np.isnan(values)
    if not isinstance(matrix, np.ndarray):
        stored = matrix.copy()
        stored.data = np.ones_like(stored.data)
        listed = stored.toarray() > 0
    known = np.ones_like(listed) if unknown is None else ~dense(unknown)
    own = np.broadcast_to((np.ones(len(held)) if weight is None else weight)[:, None], held.shape)
    lowest = values[listed].min() - 1.0 if listed.any() else 0.0
    full = np.where(listed, values, lowest)  # instances without a score come last, as one group
    score, positive, weights = (x[known] for x in (full, held, own))
    curve = corners(score, positive, weights)
    ranked = curve[:-1] if (~listed & known).any() else curve
    areas = [np.nan, np.nan]
    if 0 < positive.sum() < positive.size:
        metrics = (au_prc_score, normalized_hit_area_score)
        areas = [metric(positive, score, sample_weight=weights) for metric in metrics]
    at_cutoff = None
    if n_calls:
        calls, hits = (np.interp(n_calls, curve[:, 0], curve[:, k]) for k in (1, 2))
        at_cutoff = hits / calls
    calls_at = {}
    observed, expected = curve[1:, 2] / curve[1:, 1], ranked[1:, 3] / ranked[1:, 1]
    for name, share, points in (("observed", observed, curve), ("expected", expected, ranked)):
        enough = [np.flatnonzero(share >= target - 1e-12) for target in TARGETS]
        calls_at[name] = [int(points[1 + m[-1], 0]) if m.size else 0 for m in enough]
    return areas, at_cutoff, calls_at
