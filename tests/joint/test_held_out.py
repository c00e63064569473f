"""Evidence from fits that did not see a sample: valid, and equal to fits made one by one."""

import numpy as np
import pytest

from hierlpr import Hierarchy, simulate
from hierlpr.data.truth import Truth, align_truth
from hierlpr.joint.held_out import CrossFitting, bin_scores
from hierlpr.lpr.estimators import Auto
from reference_joint import evidence_directly

FIXED = Auto(kappa=10.0, scale="rank")  # nothing to choose from the samples


def population(n=160, *, steps=None, seed=0):
    rng = np.random.default_rng(seed)
    model = simulate.random_model(simulate.random_tree(9, rng=rng), rng=rng)
    drawn = model.draw(n, rng)
    scores = drawn.scores if steps is None else np.round(drawn.scores * steps) / steps
    return scores, drawn.truth, model.hierarchy, rng.permutation(n) % 4


@pytest.mark.parametrize("seed", range(6))
def test_places_lie_between_bins_of_the_same_label(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 900))
    scores = rng.normal(size=(n, 3))
    scores[:, 0] = np.round(scores[:, 0], 1)
    scores[: n // 2, 1] = 0.25  # half of all samples share one score
    scores[rng.random(n) < 0.1 * (seed % 3)] = np.nan
    scores[:, 2] = np.nan if seed == 5 else scores[:, 2]
    bins, place = bin_scores(scores, n_jobs=1 + seed % 2)
    for k in range(3):
        column, known = scores[:, k], ~np.isnan(scores[:, k])
        score = bins.score[bins.ptr[k] : bins.ptr[k + 1]]
        assert np.isnan(place[k, ~known]).all()
        inside = np.clip(column[known], score[0], score[-1])
        number = np.arange(score.size)
        np.testing.assert_allclose(np.interp(place[k, known], number, score), inside)
        assert bins.total[bins.ptr[k] : bins.ptr[k + 1]].sum() == max(known.sum(), 1)


@pytest.mark.parametrize("kind", ["whole", "missing scores", "unknown truth", "weights"])
def test_evidence_equals_a_fit_for_each_part(kind):
    scores, truth, h, part = population(steps=6)
    rng = np.random.default_rng(7)
    if kind == "missing scores":
        scores[rng.random(scores.shape) < 0.2] = np.nan
    if kind == "unknown truth":
        partial = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
        truth = align_truth(partial, h)
    truth = Truth.of(truth)
    weight = rng.integers(0, 4, len(scores)) / 2.0 if kind == "weights" else None
    parts = CrossFitting(scores, truth, h, part, method=FIXED, n_jobs=1, sample_weight=weight)
    asked = {0: frozenset((0,)), 2: frozenset((1, 2)), 3: frozenset((3,))}
    found = parts.evidence(asked)
    for fold, (own, without) in enumerate(asked.items()):
        seen = np.flatnonzero(~np.isin(part, list(without)))
        new = np.flatnonzero(part == own)
        slow = evidence_directly(scores, truth, h, seen, new, FIXED.coarser(), weight)
        mine = slice(*found.fold_ptr[fold : fold + 2])
        # New scores between two that were seen are interpolated differently.
        for got, want in ((found.own, slow[0]), (found.others, slow[1])):
            error = np.abs(got[:, mine].T - want)
            assert error.max() < 1.0
            assert (error > 0.02).mean() < 0.05
        np.testing.assert_array_equal(found.truth[:, mine].T, truth.positive[new])
        if found.weight.size:
            np.testing.assert_array_equal(found.weight[:, mine].T, slow[2])


@pytest.mark.parametrize("method", ["auto", "isotonic"])
def test_the_truth_of_parts_left_out_is_not_used(method):
    scores, truth, h, part = population(120, seed=5)
    parts = CrossFitting(scores, Truth.of(truth), h, part, method=method)
    flipped = truth.copy()
    flipped[part < 2] = h.close_upward(~truth[part < 2])
    other = CrossFitting(scores, Truth.of(flipped), h, part, method=method)
    alone = {0: frozenset((0, 1)), 1: frozenset((0, 1))}
    before, after = parts.evidence(alone), other.evidence(alone)
    np.testing.assert_array_equal(before.own, after.own)
    np.testing.assert_array_equal(before.others, after.others)
    np.testing.assert_array_equal(before.prior, after.prior)
    single = {0: frozenset((0,))}  # has seen part 1
    assert not np.array_equal(parts.evidence(single).own, other.evidence(single).own)


def test_no_candidate_has_seen_its_judges(monkeypatch):
    from hierlpr.joint import model as module

    asked = []
    original = module.CrossFitting.evidence
    monkeypatch.setattr(
        module.CrossFitting, "evidence", lambda self, out: asked.append(out) or original(self, out)
    )
    scores, truth, h, _ = population(80)
    module.fit_joint(scores, truth, h)
    final, *judged = asked
    assert final == {own: {own} for own in range(4)}
    assert len(judged) == 4
    for judges, learning in enumerate(judged):
        assert learning == {own: {own, judges} for own in range(4) if own != judges}


def test_a_label_without_any_score_in_the_other_parts():
    h = Hierarchy([("A", "B")])
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(40, 2)), rng.random((40, 2)) < [0.8, 0.0]
    part = np.arange(40) % 4
    scores[part != 0, 1] = np.nan
    found = CrossFitting(scores, Truth.of(truth), h, part, method="auto").evidence(
        {0: frozenset((0,))}
    )
    assert np.isfinite(found.own).all()
    assert np.unique(found.own[1]).size == 1
