"""The paper's Table 2 as a statement about the rule: what is asked for is what one gets.

Differences in percent, target minus achieved on 1,000 test samples, of cutoffs learned on one
half of 5,000 training samples; for the largest F, what the cutoff reported minus what it achieved.
"""

import numpy as np
import pytest

from cases import choose_cutoff
from hierlpr import HierLPR, simulate

PAPER = {
    "f1": (0.57, 0.49, 7.51, 0.24),
    0.8: (1.25, 0.71, 11.31, 3.13),
    0.9: (0.56, 0.39, 17.53, 8.18),
    0.95: (0.22, 0.22, 20.07, 1.29),
    0.99: (0.13, 0.12, 21.69, 0.16),
}


def differences(setting, replications, seed=0):
    """Differences in percent by goal, NaN where the calibration half did not reach the target."""
    out = {goal: np.full(replications, np.nan) for goal in PAPER}
    for i in range(replications):
        train, test = simulate.train_test(setting, rng=[seed, setting, i])
        model = HierLPR(train.hierarchy).fit(train.scores[2500:], train.truth[2500:])
        score, truth = model.predict_proba(train.scores[:2500]), train.truth[:2500]
        test_score = model.predict_proba(test.scores)
        for goal in PAPER:
            ask = {"maximize": goal} if goal == "f1" else {"precision": goal}
            cutoff = choose_cutoff(score, truth, **ask)
            called = test_score >= cutoff.level
            right = np.count_nonzero(called & test.truth)
            if goal == "f1":
                f = 2 * right / (called.sum() + test.truth.sum())
                out[goal][i] = 100 * (cutoff.f - f)
            elif cutoff.reachable and called.any():
                out[goal][i] = 100 * (goal - right / called.sum())
    return out


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:The scores ")  # a false alarm in 0.8 % of 800 batches
@pytest.mark.parametrize("setting", [1, 2, 3, 4])
def test_every_mean_difference_is_at_most_that_of_the_paper(setting):
    found = differences(setting, 100)
    for goal, values in found.items():
        limit = PAPER[goal][setting - 1] * (0.5 if setting == 3 else 1.0)
        assert np.nanmean(values) <= limit, goal
        if setting != 3:
            assert np.isnan(values).mean() <= 0.2  # 99 % needs a hundred right calls or more


def test_targets_are_met_on_average():
    for setting in (1, 2, 4):
        found = differences(setting, 6)
        for goal in (0.8, 0.9):
            error = np.nanstd(found[goal]) / np.sqrt(6)
            assert np.nanmean(found[goal]) <= PAPER[goal][setting - 1] + 3 * error
