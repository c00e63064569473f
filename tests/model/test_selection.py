"""The best of several certified models."""

import numpy as np
import pytest

from hierlpr import Hierarchy, HierLPR, HierlprError, certify
from hierlpr.exceptions import UnreachableWarning

TREE = Hierarchy([("A", "B"), ("A", "C")])


def draw(rng, n, strength=2.0):
    truth = TREE.close_upward(rng.random((n, 3)) < 0.3)
    return strength * truth + rng.normal(size=truth.shape), truth


def test_the_best_model_shares_its_error_with_the_others():
    rng = np.random.default_rng(0)
    models = [HierLPR(TREE, joint=False).fit(*draw(rng, 200)) for _ in range(5)]
    scores, truth = draw(rng, 500)
    best = certify(models, scores, truth, precision=0.85, confidence=0.9)
    assert best.cutoff_.goal.confidence == 0.9
    alone = [m.calibrate(scores, truth, precision=0.85, confidence=0.98).cutoff_ for m in models]
    assert best.cutoff_.recall == max(cutoff.recall for cutoff in alone)
    assert models[0] is not best
    both = certify(models, scores, truth, precision=[0.8, 0.85], groups="depth").cutoff_
    assert str(both).startswith("With 90 % confidence, all of the 2 certified targets hold")
    [part, *_] = both.targets[0].groups.values()
    assert part.goal.confidence == pytest.approx(0.975)


def test_each_model_may_have_scores_of_its_own():
    rng = np.random.default_rng(2)
    (first, truth), (other, more) = draw(rng, 300), draw(rng, 300, 0.2)
    models = [HierLPR(TREE, joint=False).fit(x, t) for x, t in ((other, more), (first, truth))]
    scores, truth = draw(rng, 400)
    noise = rng.normal(size=scores.shape)
    best = certify(models, [noise, scores], truth, precision=0.8)
    assert best.lpr_ is models[1].lpr_
    with pytest.raises(HierlprError, match="3 matrices of scores for 2 models"):
        certify(models, [noise, scores, noise], truth, precision=0.8)


def test_models_that_reach_nothing_say_so():
    rng = np.random.default_rng(1)
    models = [HierLPR(TREE, joint=False).fit(*draw(rng, 200)) for _ in range(2)]
    with pytest.warns(UnreachableWarning, match="cannot certify this"):
        assert not certify(models, *draw(rng, 20), precision=0.99).cutoff_.reachable
    with pytest.raises(HierlprError, match="at least one model"):
        certify([], *draw(rng, 20), precision=0.9)
