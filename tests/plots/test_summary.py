"""Aggregates over samples agree with slow computations over all instances."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR
from hierlpr.baselines import propagate_max
from hierlpr.baselines.rank_functions import propagate_max_sparse
from hierlpr.lpr import own_lpr
from hierlpr.metrics.hits import HitCurve
from hierlpr.plots.summary import apply_model, share_interval, summarize
from reference_curves import measured

EDGES = {
    "tree": [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (5, 6)],
    "dag": [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5), (2, 6)],
}


def draw(rng, shape, *, steps, n, listed=False, missing=False):
    h = Hierarchy([(f"L{a}", f"L{b}") for a, b in EDGES[shape]])
    truth = h.close_upward(rng.random((n, h.n_labels)) < 0.15)
    scores = np.clip(rng.normal(0.35, 0.2, truth.shape) + 0.3 * truth, 0.01, 1.0)
    scores = np.maximum(1, np.round(scores * steps)) / steps  # few steps: many ties
    if listed:
        return h, sparse.csr_array(np.where(rng.random(scores.shape) < 0.6, scores, 0.0)), truth
    if missing:
        scores[rng.random(scores.shape) < 0.1] = np.nan
    return h, scores, truth


CASES = [
    # shape, steps, listed, missing, weighted, unknown, truth
    ("tree", 7, False, False, False, False, True),
    ("tree", 10**6, False, False, True, True, True),
    ("dag", 9, False, False, True, False, True),
    ("dag", 10**6, False, True, False, True, True),
    ("dag", 10**6, True, False, True, True, True),
    ("tree", 5, True, False, False, False, True),
    ("dag", 10**6, False, False, False, False, False),
    ("tree", 10**6, False, True, True, False, False),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [1, 60])
def test_summary_matches_the_slow_reference(case, n):
    shape, steps, listed, missing, weighted, holes, has_truth = case
    rng = np.random.default_rng(n + len(shape) + steps)
    options = {"listed": listed, "missing": missing}
    h, scores, truth = draw(rng, shape, steps=steps, n=200, **options)
    model = HierLPR(h, joint=False, missing_scores="allow" if missing else "error").fit(
        scores, truth
    )
    h, scores, truth = draw(rng, shape, steps=steps, n=n, **options)
    given = truth.astype(float)
    if holes:
        given[rng.random(given.shape) < 0.1] = np.nan
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    output = apply_model(
        model, scores, given if has_truth else None, is_truth_needed=False, sample_weight=weight
    )
    found = summarize(output)
    matrices = {
        "HierLPR": output.block_score,
        "LPR alone": own_lpr(model.lpr_, output.scores),
        "Max-propagation": (propagate_max_sparse if listed else propagate_max)(output.scores, h),
        "Raw scores": output.scores,
    }
    about = (output.truth, output.unknown, output.weight, int(found.counts.evaluated.sum()))
    _, _, calls_at = measured(matrices["HierLPR"], *about)
    which = "observed" if has_truth else "expected"
    assert [row["n_calls"] for row in found.tradeoffs] == calls_at[which]
    for method in found.methods:
        areas, at_cutoff, _ = measured(matrices[method.name], *about)
        np.testing.assert_allclose([method.au_prc, method.hit_area], areas)
        assert method.precision_at_cutoff == (at_cutoff and pytest.approx(at_cutoff))
        if not listed:
            assert method.violations == len(h.violations(matrices[method.name]))


def test_a_thinned_curve_keeps_both_ends():
    rng = np.random.default_rng(0)
    curve = HitCurve.of(rng.random(20_000) < 0.3, rng.random(20_000))
    thinned = curve.thinned(100)
    assert thinned.n_calls.size == 100
    assert (thinned.n_calls[-1], thinned.n_hits[-1]) == (curve.n_calls[-1], curve.n_hits[-1])
    assert thinned.precision[:10].tolist() == curve.precision[:10].tolist()


def test_intervals_count_samples():
    rng = np.random.default_rng(0)
    inside = {"single": 0, "copied": 0}
    for _ in range(400):
        hits = rng.binomial(1, 0.8, size=120).astype(float)
        low, high = share_interval(hits, np.ones(120, dtype=np.intp))
        inside["single"] += low <= 0.8 <= high
        # Ten calls per sample that are all correct or all incorrect carry no more information.
        low, high = share_interval(10 * hits, np.full(120, 10))
        inside["copied"] += low <= 0.8 <= high
    assert min(inside.values()) > 0.92 * 400
