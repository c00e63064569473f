"""Curves shared by labels: the fit, the blend, the choice, and labels that come later."""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit, logit

from hierlpr import Hierarchy, HierLPR, fit_lpr, load_model
from hierlpr.exceptions import DataError
from hierlpr.lpr import LPRCurves, SharedCurves
from hierlpr.lpr.estimators import Auto
from hierlpr.lpr.fitting import _fit_own, fit_data
from hierlpr.lpr.shared import fit_lines, fit_shared, shared_weight
from hierlpr.lpr.training import read_training_data


def rare_labels(n_labels=60, n=400, *, seed=0, draw=0, comparable=True):
    """Labels of about four positives each, whose log-odds are the score plus an offset.

    A seed stands for labels, and a draw for samples of them.
    """
    labels, rng = np.random.default_rng(seed), np.random.default_rng([seed, draw])
    offset, scale, shift = labels.normal(size=(3, n_labels))
    x = rng.normal(size=(n, n_labels))
    chance = expit(2.5 * x - 6.5 + 0.7 * offset)
    truth = rng.random(x.shape) < chance
    scores = x if comparable else x * np.exp(2.0 * scale) + 9.0 * shift
    return scores, truth, chance


def log_loss(p, chance):
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return -(chance * np.log(p) + (1 - chance) * np.log1p(-p)).sum(axis=1).mean()


def binned(scores, truth, estimator=None):
    data = read_training_data(scores, truth)
    return _fit_own(data, estimator or Auto(), 1)[::2]


@pytest.mark.parametrize("scale", ["score", "rank"])
def test_offsets_and_slopes_are_the_penalized_maximum(scale):
    scores, truth, _ = rare_labels(6)
    _, bins = binned(scores, truth)
    depth = np.array([0, 0, 0, 1, 1, 1])
    shared, first = fit_shared(bins, depth, Auto(), scale)
    line = fit_lines(shared, bins, depth)
    # Both describe labels relative to the final curve, whose slope is not that of the pooled one.
    assert first == pytest.approx(line, abs=0.02)
    label, x, positive, total = bins.label, bins.along(scale), bins.positive, bins.total
    curve = shared.curve_of(depth)
    for k in range(6):
        at, sd = label == k, shared.label_sd[:, curve[k]]

        def cost(u, at=at, sd=sd):
            z = shared.log_odds_of_labels(curve[label[at]], x[at], np.reshape(u, (2, 1)))
            loss = total[at] * np.logaddexp(0, z) - positive[at] * z
            return loss.sum() + 0.5 * ((u / sd) ** 2).sum()

        best = optimize.minimize(cost, np.zeros(2), method="Nelder-Mead")
        assert cost(line[:, k]) <= best.fun + 1e-4


def test_no_slope_is_negative_where_most_scores_are_reversed():
    rng = np.random.default_rng(32)
    x = rng.normal(size=(200, 3))
    truth = rng.random(x.shape) < expit(x * [-3.0, -3.0, 3.0] - 2.0)
    _, line = fit_shared(binned(x, truth)[1], np.zeros(3, np.int64), Auto(), "score")
    assert line[1].min() >= -1.0


def test_the_blend_is_a_weighted_mean_of_log_odds():
    scores, truth, _ = rare_labels(8)
    own, bins = binned(scores, truth)
    model = fit_lpr(scores, truth, kappa=5.0, scale="score")
    _, line = fit_shared(bins, np.zeros(8, np.int64), Auto(), "score")
    weight = shared_weight(bins.support(), 5.0)
    assert model.report.shared_weight == pytest.approx(weight)
    single = logit(own.evaluate(scores))
    curve, at = np.zeros(400, np.int64), np.repeat(line[:, None], 400, axis=1)
    pooled = [model.shared.log_odds_of_labels(curve, scores[:, k], at[..., k]) for k in range(8)]
    expected = expit((1 - weight) * single + weight * np.transpose(pooled))
    assert model.predict(scores) == pytest.approx(expected, abs=0.01)


def test_rare_labels_gain_where_scores_are_comparable_and_lose_nothing_elsewhere():
    gains = {True: [], False: []}
    for comparable, gain in gains.items():
        for seed in range(3):
            scores, truth, _ = rare_labels(seed=seed, comparable=comparable)
            new, _, chance = rare_labels(seed=seed, draw=1, comparable=comparable)
            model = fit_lpr(scores, truth)
            single = fit_lpr(scores, truth, kappa=0.0)
            gain.append(
                log_loss(single.predict(new), chance) - log_loss(model.predict(new), chance)
            )
            assert (model.shared.scale == "score") == comparable
    assert min(gains[True]) > 0.1
    assert min(gains[False]) > 0.0


def test_depths_have_curves_of_their_own():
    rng = np.random.default_rng(0)
    depth = np.repeat([1, 4], 20)
    scores = rng.random((300, 40))
    truth = rng.random(scores.shape) < np.where(depth == 1, scores, 0.2 * scores)
    data = read_training_data(scores, truth)
    model = fit_data(data, method=Auto(kappa=np.inf, scale="score"), depth=depth)
    assert model.shared.depths.tolist() == [1, 4]
    assert model.shared.curve_of(np.array([0, 1, 2, 4, 9])).tolist() == [0, 0, 0, 1, 1]
    found = model.predict(np.full((1, 40), 0.8))[0]
    assert found[:20].mean() == pytest.approx(0.8, abs=0.08)
    assert found[20:].mean() == pytest.approx(0.16, abs=0.05)


def test_labels_that_come_later_use_the_shared_curves_and_change_no_other(tmp_path):
    scores, truth, _ = rare_labels(30, seed=4)
    truth[:, 0] = True
    h = Hierarchy([("L0", f"L{k}") for k in range(1, 29)])
    model = HierLPR(h, joint=False).fit(scores[:, :29], truth[:, :29])
    before, shared = model.transform(scores[:, :29]), model.lpr_.shared
    model.add_labels([("L0", "L29")], scores[:, [29]], truth[:, [29]])
    assert model.lpr_.shared is shared
    after = model.transform(scores)
    np.testing.assert_array_equal(after[:, :29], before)
    whole = HierLPR(Hierarchy([*h.edges, ("L0", "L29")]), joint=False).fit(scores, truth)
    assert after[:, 29] == pytest.approx(whole.transform(scores)[:, 29], abs=0.1)
    model.remove_labels(["L5"])
    kept = [k for k in range(30) if k != 5]
    np.testing.assert_array_equal(model.transform(scores[:, kept]), after[:, kept])
    model.save(tmp_path / "m.hlpr")
    back = load_model(tmp_path / "m.hlpr")
    again = back.lpr_.shared
    assert (again.kappa, again.scale) == (shared.kappa, shared.scale)
    back.add_labels([("L0", "L5")], scores[:, [5]], truth[:, [5]])
    assert np.isfinite(back.transform(scores[:, [*kept, 5]])).all()


def test_damaged_shared_curves_are_refused():
    curves = LPRCurves(np.array([0, 1]), np.zeros(1), np.full(1, 0.5))
    good = {"scale": "rank", "depths": np.zeros(1, np.int64), "curves": curves}
    good |= {"centre": np.zeros(1), "label_sd": np.ones((2, 1)), "kappa": 3.0}
    SharedCurves(**good)
    for bad in (
        {"scale": "x"},
        {"depths": np.arange(2)},
        {"centre": np.zeros(2)},
        {"centre": np.full(1, np.nan)},
        {"label_sd": -np.ones((2, 1))},
        {"label_sd": np.ones((3, 1))},
        {"kappa": -1.0},
    ):
        with pytest.raises(DataError, match="Shared curves"):
            SharedCurves(**{**good, **bad})
