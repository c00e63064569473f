"""Weights of samples: what they mean for fits, measures, cutoffs and certificates."""

import math
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from hierlpr import HierLPR, metrics, simulate
from hierlpr._utils.checks import check_sample_weight, effective_number
from hierlpr.cutoff.choose import cutoff_for
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.guarantee import Pair, _is_precise
from hierlpr.cutoff.instances import list_instances, random_order
from hierlpr.cutoff.outcome import goals_of
from hierlpr.exceptions import DataError, UnreachableWarning
from hierlpr.joint.prior import _count_known, count_labels, fit_prior
from hierlpr.metrics import au_prc_score, hit_curve, precision_recall_curve
from hierlpr.metrics.evaluation import evaluate_ranking


@pytest.fixture(scope="module")
def parts():
    fit, rest = simulate.train_test(2, n_train=500, n_test=400, rng=3)
    rng = np.random.default_rng(1)
    return fit, rest, rng.integers(1, 4, 500), rng.integers(1, 4, 400)


def same_models(one, two, tmp_path):
    one.save(tmp_path / "one.hlpr")
    two.save(tmp_path / "two.hlpr")
    return (tmp_path / "one.hlpr").read_bytes() == (tmp_path / "two.hlpr").read_bytes()


@pytest.mark.parametrize("holes", [False, True])
def test_weight_0_leaves_out_and_only_ratios_matter(parts, tmp_path, holes):
    fit, rest, weight, _ = parts
    truth = fit.truth.astype(float)
    if holes:
        truth = np.where(np.random.default_rng(5).random(truth.shape) < 0.3, np.nan, truth)
    own = weight.astype(float)
    own[::7] = 0.0
    left = np.flatnonzero(own)
    new = lambda: HierLPR(fit.hierarchy)  # noqa: E731
    whole = new().fit(fit.scores, truth, sample_weight=own)
    part = new().fit(fit.scores[left], truth[left], sample_weight=own[left])
    assert same_models(whole, part, tmp_path)
    plain = new().fit(fit.scores, truth)
    assert same_models(plain, new().fit(fit.scores, truth, np.full(500, 0.25)), tmp_path)
    large = new().fit(fit.scores, truth, sample_weight=own * 2.0**40)
    assert np.array_equal(large.lpr_.curves.knot_lpr, whole.lpr_.curves.knot_lpr)
    assert np.array_equal(large.joint_.tempering.own, whole.joint_.tempering.own)
    assert not same_models(plain, whole, tmp_path)
    for other in (rest.scores, fit.scores):
        assert np.isfinite(whole.transform(other)).all()


def test_integer_weights_are_repeated_rows_in_measures_and_shares(parts):
    fit, rest, weight, again = parts
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    rows = np.repeat(np.arange(400), again)
    assert model.score(rest.scores, rest.truth, again) == pytest.approx(
        model.score(rest.scores[rows], rest.truth[rows])
    )
    score, held = np.round(rest.scores, 1), rest.truth  # many ties
    for curve in (hit_curve, precision_recall_curve):
        weighted = curve(held, score, sample_weight=again)
        for a, b in zip(weighted, curve(held[rows], score[rows]), strict=True):
            assert a == pytest.approx(b)
    flat = au_prc_score(held[:, 0], sample_weight=again)
    assert flat == pytest.approx(au_prc_score(held[rows, 0], -np.repeat(np.arange(400), again)))
    # Relative shares are those of repeated rows; how far to smooth is not: copies are no samples.
    twice = np.repeat(np.arange(500), weight)
    weighted = HierLPR(fit.hierarchy, lpr="isotonic", joint=False)
    weighted.fit(fit.scores, fit.truth, weight)
    repeated = HierLPR(fit.hierarchy, lpr="isotonic", joint=False)
    repeated.fit(fit.scores[twice], fit.truth[twice])
    gap = np.abs(weighted.transform(rest.scores) - repeated.transform(rest.scores))
    assert gap.mean() < 0.01
    one, two = weighted.lpr_.report, repeated.lpr_.report
    assert one.base_rate == pytest.approx(two.base_rate, abs=2e-3)
    assert one.auc == pytest.approx(two.auc)
    assert (one.positives + one.negatives == 500).all()


def test_priors_are_those_of_weighted_counts(parts):
    fit, _, weight, _ = parts
    twice = np.repeat(np.arange(500), weight)
    prior = fit_prior(fit.truth, fit.hierarchy, weight / weight.max())
    copied = fit_prior(fit.truth[twice], fit.hierarchy)
    assert prior.prevalence == pytest.approx(copied.prevalence, abs=2e-3)
    # Conditional shares are shrunk by the effective number of samples, not by the copies.
    own = _count_known(fit.truth, fit.hierarchy, weight / weight.max())
    raw = count_labels(fit.truth[twice], fit.hierarchy)
    assert own[1] / own[2] == pytest.approx(raw[0] / raw[1])
    assert (own[2] <= raw[1]).all()


def test_a_biased_sample_is_set_right_by_its_weights():
    """Samples with label A are drawn five times as often; weights undo it."""
    data = simulate.train_test(1, n_train=6000, n_test=1500, rng=0)
    fit, test = data
    rng = np.random.default_rng(2)
    chance = np.where(fit.truth[:, 0], 1.0, 0.2)
    drawn = np.flatnonzero(rng.random(6000) < chance)
    options = {"hierarchy": fit.hierarchy, "joint": False}
    plain = HierLPR(**options).fit(fit.scores[drawn], fit.truth[drawn])
    weighted = HierLPR(**options).fit(fit.scores[drawn], fit.truth[drawn], 1.0 / chance[drawn])
    error = [np.abs(m.transform(test.scores) - test.lpr_true).mean() for m in (plain, weighted)]
    assert error[1] < 0.4 * error[0]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, -1.0, 1.0], r"not negative.*got -1.0 for sample 1"),
        ([1.0, np.nan, 1.0], r"finite.*got nan for sample 1"),
        ([1.0, 1.0, np.inf], r"finite.*got inf for sample 2"),
        ([0.0, 0.0, 0.0], r"all are 0"),
        ([1.0, 1.0], r"shape \(2,\), expected \(3,\)"),
        ([[1.0, 1.0, 1.0]], r"shape \(1, 3\), expected \(3,\)"),
        (["a", "b", "c"], r"sample_weight"),
    ],
)
def test_bad_weights_are_refused_with_their_place(weight, message):
    with pytest.raises(DataError, match=message):
        check_sample_weight(weight, 3)
    model = HierLPR([("A", "B")], joint=False)
    with pytest.raises(DataError, match=message):
        model.fit([[0.1, 0.2], [0.5, 0.1], [0.9, 0.8]], [[0, 0], [1, 0], [1, 1]], weight)


def test_pipelines_route_weights(parts):
    fit, rest, weight, again = parts
    with sklearn.config_context(enable_metadata_routing=True):
        model = HierLPR(fit.hierarchy, joint=False)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(FunctionTransformer(), model)
        pipe.fit(fit.scores, fit.truth, sample_weight=weight)
        routed = pipe.score(rest.scores, rest.truth, sample_weight=again)
        assert np.isfinite(pipe.score(rest.scores, rest.truth))
    alone = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth, weight)
    assert routed == alone.score(rest.scores, rest.truth, again)


# -- cutoffs -----------------------------------------------------------------------------------


def test_cutoffs_go_by_weights_and_say_what_they_are_worth(parts):
    fit, rest, _, _ = parts
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    weight = np.random.default_rng(4).exponential(size=400)
    model.calibrate(rest.scores, rest.truth, precision=0.8, sample_weight=weight)
    called = model.predict(rest.scores)
    own = np.broadcast_to(weight[:, None], called.shape)
    cutoff = model.cutoff_
    assert cutoff.precision == pytest.approx(own[called & rest.truth].sum() / own[called].sum())
    assert cutoff.recall == pytest.approx(own[called & rest.truth].sum() / own[rest.truth].sum())
    assert cutoff.n_calls == called.sum()
    assert cutoff.n_effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert f"equivalent to {cutoff.n_effective:,.4g} of equal weight" in str(cutoff)
    assert type(cutoff).from_dict(cutoff.to_dict()) == cutoff
    assert cutoff.precision >= 0.8
    for goal in ({"maximize": "f1"}, {"fdr": 0.2}):
        model.calibrate(rest.scores, rest.truth, sample_weight=weight, **goal)
        assert model.cutoff_.n_effective < 400


def test_a_certificate_needs_a_bound_on_the_weights(parts):
    fit, rest, _, again = parts
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    goal = {"precision": 0.6, "confidence": 0.9, "sample_weight": again}
    with pytest.raises(DataError, match="needs max_weight=, the largest weight that a sample can"):
        model.calibrate(rest.scores, rest.truth, **goal)
    place = int(np.flatnonzero(again == 3)[0])
    with pytest.raises(DataError, match=f"is 3 for sample {place}, more than max_weight=2"):
        model.calibrate(rest.scores, rest.truth, max_weight=2, **goal)
    some = np.where(np.arange(400) < place, 0, again)  # which leaves out those before it
    with pytest.raises(DataError, match=f"is 3 for sample {place}, more than max_weight=2"):
        model.calibrate(rest.scores, rest.truth, max_weight=2, **goal | {"sample_weight": some})
    with pytest.raises(DataError, match="max_weight must be a positive number"):
        model.calibrate(rest.scores, rest.truth, max_weight=0, **goal)
    with pytest.raises(DataError, match="groups= does not support sample_weight"):
        model.calibrate(rest.scores, rest.truth, fdr=0.1, groups="tree", sample_weight=again)
    model.calibrate(rest.scores, rest.truth, max_weight=3, **goal)
    assert model.cutoff_.reachable
    assert "certified for weights up to 3" in str(model.cutoff_)
    level = model.cutoff_.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)
        model.calibrate(rest.scores, rest.truth, max_weight=3e6, **goal)
    # If weights could be a million times as large, nothing could be certified from these.
    assert not model.cutoff_.reachable or model.cutoff_.level > level


@pytest.mark.parametrize("seed", range(8))
def test_equal_weights_are_tested_like_none(seed):
    rng = np.random.default_rng(seed)
    calls = rng.integers(0, 5, 300)
    hits = rng.binomial(calls, 0.78)
    shuffle = random_order(list_instances(rng.random((300, 1)), rng.random((300, 1)) < 0.5))
    found = [
        _is_precise(Pair(0.5, 4, 1.3), calls, hits, shuffle, alpha=alpha, delta=0.1, share=share)
        for share in (None, np.ones(300))
        for alpha in np.linspace(0.15, 0.35, 9)
    ]
    assert found[:9] == found[9:]
    assert len(set(found)) == 2


def heavy(rng, n):
    """One label; one sample in 60 counts 20 times as much, and its call is wrong."""
    rare = rng.random(n) < 1 / 60
    hit = np.where(rare, False, rng.random(n) < 0.97)
    return np.round(rng.random((n, 1)), 1), hit[:, None], np.where(rare, 20.0, 1.0)


def test_a_rare_heavy_sample_does_not_break_the_promise():
    """The weighted precision is .72, below the target of .8; seldom may it be certified."""
    profile_data = heavy(np.random.default_rng(0), 400)
    profile = LevelProfile.of(list_instances(*profile_data))
    (goal,) = goals_of(precision=0.8, confidence=0.9)
    wrong = 0
    for i in range(150):
        cutoff = cutoff_for(goal, list_instances(*heavy(np.random.default_rng(1 + i), 60)),
                            profile=profile, max_weight=20.0)  # fmt: skip
        wrong += cutoff.reachable
    assert wrong <= 150 * 0.1 + 3 * math.sqrt(150 * 0.09)


def listed(rng, n_samples, h, values=7):
    """A list of most instances with tied scores, calls, and truth with holes."""
    truth = h.close_upward(rng.random((n_samples, h.n_labels)) < 0.15).astype(float)
    truth[rng.random(truth.shape) < 0.1] = np.nan
    truth[:2] = np.nan  # nothing is known of these
    sample, label = np.nonzero(rng.random(truth.shape) < 0.7)
    score = rng.integers(0, values, sample.size) / (values - 1)
    return truth, sample, label, score, rng.random(sample.size) < score


def test_an_evaluation_with_whole_weights_is_that_of_repeated_samples():
    rng = np.random.default_rng(4)
    h = simulate.random_dag(12, rng=rng)
    truth, sample, label, score, call = listed(rng, 60, h)
    weight = rng.integers(0, 4, 60)
    found = evaluate_ranking(
        sample, label, score, truth, h, ordered=False, call=call, sample_weight=weight
    )
    rows = np.repeat(np.arange(60), weight)
    at = [np.flatnonzero(sample == row) for row in rows]
    every, where = np.concatenate(at), np.repeat(np.arange(rows.size), [x.size for x in at])
    again = evaluate_ranking(
        where, label[every], score[every], truth[rows], h, ordered=False, call=call[every]
    )
    for part in ("ranking", "decisions"):
        own, other = getattr(found, part), getattr(again, part)
        for name in own.keys() - {"parents after a child", "calls without a parent"}:
            assert own[name] == pytest.approx(other[name], rel=1e-9), name
    assert found.sizes["samples"] == np.count_nonzero(weight)
    assert found.sizes["effective samples"] == effective_number(weight.astype(float))


def test_measures_with_whole_weights_are_those_of_repeated_rows():
    rng = np.random.default_rng(2)
    truth = (rng.random((50, 6)) < 0.3).astype(float)
    truth[rng.random(truth.shape) < 0.1] = np.nan
    scores, weight = rng.integers(0, 9, truth.shape) / 8.0, rng.integers(0, 4, 50)
    calls, rows = scores > 0.6, np.repeat(np.arange(50), weight)
    for measure in (
        metrics.f_max_score, metrics.normalized_hit_area_score, metrics.early_precision_score,
        metrics.brier_error, metrics.calibration_error, metrics.mean_au_prc_score,
        lambda *x, **y: metrics.mean_au_prc_score(*x, weight="prevalence", **y),
    ):  # fmt: skip
        own = measure(truth, scores, sample_weight=weight)
        assert own == pytest.approx(measure(truth[rows], scores[rows]), rel=1e-12)
    for measure in (metrics.precision_score, metrics.recall_score, metrics.f_score):
        for average in ("pooled", "label", "sample"):
            own = measure(truth, calls, average=average, sample_weight=weight)
            again = measure(truth[rows], calls[rows], average=average)
            assert own == pytest.approx(again, rel=1e-12)
    own, count = metrics.f_curve(truth, scores, sample_weight=weight)
    again, count_again = metrics.f_curve(truth[rows], scores[rows])
    np.testing.assert_allclose((own, count), (again, count_again), rtol=1e-12)
    for measure in (metrics.brier_error, metrics.precision_score):
        with pytest.raises(DataError, match="one per sample"):
            measure(truth, calls, sample_weight=[1.0, 2.0])


def test_only_ratios_of_weights_matter_however_small_they_are():
    """Weights of 1e-300 certified nothing, and 5e-324, the smallest float, raised IndexError."""
    fit, rest = simulate.train_test(1, n_train=600, n_test=600, rng=0)
    ratio = np.where(np.arange(600) % 2, 1.0, 3.0)
    found = []
    for unit in (1.0, 1e-300, 5e-324):
        model = HierLPR(fit.hierarchy, joint=False)
        model.fit(fit.scores, fit.truth, sample_weight=unit * ratio)
        options = {"sample_weight": unit * ratio, "precision": 0.8}
        plain = model.calibrate(rest.scores, rest.truth, **options).cutoff_
        sure = model.calibrate(
            rest.scores, rest.truth, **options, confidence=0.9, max_weight=3.0 * unit
        ).cutoff_
        area = model.score(rest.scores, rest.truth, sample_weight=unit * ratio)
        assert sure.reachable
        found.append([plain.level, plain.precision, sure.level, sure.precision, area])
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-9)
