"""New scores are compared with those of the fit wherever a model is used."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit

from hierlpr import Hierarchy, HierLPR, load_model, simulate
from hierlpr.exceptions import HierlprWarning
from hierlpr.lpr.comparison import find_difference, sample_statistics
from hierlpr.report import write_report


@pytest.fixture(scope="module")
def fitted():
    train = simulate.disease(n_samples=600, rng=0)
    model = HierLPR(train.hierarchy, joint=False).fit(train.scores, train.truth)
    held = simulate.disease(n_samples=400, rng=1)
    model.calibrate(held.scores, held.truth, fdr=0.2, confidence=0.9)
    return model, simulate.disease(n_samples=400, rng=2)


@pytest.mark.parametrize("use", ["rank", "predict", "predict_proba", "call_lists", "assign"])
def test_every_use_sees_broken_scores_and_is_silent_on_others(fitted, use):
    model, new = fitted
    rng = np.random.default_rng(len(use))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            getattr(model, use)(scores := new.scores[rng.choice(400, 50, replace=False)])
    for mistake in (100.0 * scores, logit(np.clip(scores, 1e-9, 1.0 - 1e-9))):
        with pytest.warns(HierlprWarning, match="outside the range"):
            getattr(model, use)(mistake)
    for mistake in (scores[:, rng.permutation(110)], 1.0 - scores):
        with pytest.warns(HierlprWarning, match="differently"):
            getattr(model, use)(mistake)


def test_scores_of_another_scale_are_counted(fitted):
    model, new = fitted
    for n in (2, 5, 400):
        with pytest.warns(HierlprWarning, match="of 110 of 110 labels lie outside the range"):
            model.predict(100.0 * new.scores[:n])
    adapted = model.adapt(new.scores)  # which has no summary of samples, only ranges
    with pytest.warns(HierlprWarning, match="of 110 of 110 labels lie outside the range"):
        adapted.predict_proba(100.0 * new.scores)


@pytest.mark.parametrize("share", [0.002, 0.3])
def test_missing_scores_alone_are_no_difference(fitted, share):
    _, new = fitted
    holes = np.where(np.random.default_rng(1).random(new.scores.shape) < share, np.nan, new.scores)
    model = HierLPR(new.hierarchy, joint=False, missing_scores="allow")
    for scores in (holes[:200], new.scores[:200]):
        model.fit(scores, new.truth[:200])
        for used in (holes[200:], new.scores[200:]):
            model.predict_proba(used)
        with pytest.warns(HierlprWarning, match="of 110 of 110 labels lie outside the range"):
            model.predict_proba(100.0 * holes[200:])


def test_reversed_scores_contradict_the_hierarchy_where_no_label_looks_different():
    """Labels hold in about half of the samples, so their scores are nearly symmetric."""
    setting = simulate.setting_model("tree25", rng=0)
    h = setting.hierarchy
    drawn = simulate.random_model(h, quality=setting.eta, conditional=0.95, root=0.6)
    fit, new = drawn.draw(2000, 1), drawn.draw(2000, 2)
    model = HierLPR(h, joint=False).fit(fit.scores, fit.truth)
    for batch in np.split(new.scores, 40):
        with pytest.warns(HierlprWarning, match="contradict the hierarchy"):
            model.predict_proba(1.0 - batch)


def test_small_batches_of_a_skewed_population_are_no_difference():
    """Without their skewness, about 1.2 % of the batches would differ instead of 0.1 %."""
    rng = np.random.default_rng(0)
    h = Hierarchy([], labels=["A", "B", "C"])

    def listed(n):
        place = np.arange(n), rng.integers(3, size=n)
        return sparse.csr_array((rng.exponential(size=n), place), shape=(n, 3))

    scores = listed(4000)
    truth = (scores.toarray() > 0.0) & (rng.random(scores.shape) < 0.5)
    model = HierLPR(h, joint=False).fit(scores, truth)
    batches = [listed(2) for _ in range(1500)]
    notes = [find_difference(model.lpr_, x, h, model.sample_summary_) for x in batches]
    assert sum(note != "" for note in notes) <= 0.005 * len(notes)


def test_the_statistic_of_samples_is_a_likelihood_ratio():
    """It equals sums over all label sets, here of the chain A, B, C and D, in another order."""
    h = Hierarchy([("A", "B"), ("B", "C")], labels=["C", "A", "B", "D"])
    fit = simulate.random_model(h, conditional=0.6, rng=2).draw(300, 3)
    lpr = HierLPR(h, joint=False).fit(fit.scores, fit.truth).lpr_
    rate, held = lpr.report.base_rate, np.array(list(np.ndindex(2, 2, 2, 2)))
    on = rate / [rate[2], 1.0, rate[1], 1.0] * np.where([1, 0, 1, 0], held[:, [2, 0, 1, 0]], 1)
    chance = np.where(held, on, 1.0 - on).prod(axis=1)
    bound = np.log(150.0)
    ratio = np.clip(logit(lpr.predict(fit.scores)) - logit(rate), -bound, bound) @ (held.T - 0.5)
    expected = np.log(np.exp(ratio) @ chance) - np.log(np.exp(-ratio) @ chance)
    found = sample_statistics(lpr, fit.scores, h, None)
    np.testing.assert_allclose(found, expected[None], atol=1e-12)


def test_a_single_sample_is_compared_once(fitted, tmp_path):
    fitted[0].save(tmp_path / "m.hlpr")
    model, one = load_model(tmp_path / "m.hlpr"), 100.0 * fitted[1].scores[:1]
    with pytest.warns(HierlprWarning, match="outside the range"):
        model.predict(one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(one)


def test_listed_scores_are_compared_too():
    h = simulate.random_tree(60, max_depth=4, rng=0)
    drawn = simulate.random_model(h, conditional=np.full(60, 0.6), rng=0)
    fit, new = drawn.draw(500, 1), drawn.draw(200, 2)

    def listed(data):
        return sparse.csr_array(np.where(data.scores > 0.3, data.scores, 0.0))

    model = HierLPR(h).fit(listed(fit), fit.truth)
    rng = np.random.default_rng(0)
    for mistake in (100.0 * listed(new), listed(new)[:, rng.permutation(60)]):
        with pytest.warns(HierlprWarning):
            model.predict_proba(sparse.csr_array(mistake))


@pytest.mark.parametrize("population", ["rare labels", "long lists", "labels new to the model"])
def test_false_alarms_on_listed_scores_are_rare(population):
    """A label is rarer in new samples than in those it was found in; one list may be very long."""
    rng = np.random.default_rng(0)
    value = rng.integers(1, 21, (2300, 1000)) / 20
    if population == "rare labels":
        is_listed = rng.random(value.shape) < 0.015
    elif population == "long lists":
        is_listed = np.tile(np.arange(1000) < 2, (2300, 1))
        value[:, :2] = 0.5 + 0.4 * rng.random((2300, 2))
        is_listed[350::400], value[350::400] = True, 0.9 + 0.1 * rng.random((5, 1000))
    else:  # one of many labels, below one that all samples have
        is_listed = np.arange(1000) == rng.integers(1, 1000, (2300, 1))
        is_listed[:, 0], value[:, 0] = True, 0.95
    scores = sparse.csr_array(np.where(is_listed, value, 0.0))
    known = np.flatnonzero(np.diff(scores[:300].tocsc().indptr))
    scores = sparse.csr_array(scores.tocsc()[:, known])
    truth = rng.random(scores.shape) < scores.toarray()
    model = HierLPR(joint=False).fit(scores[:300], truth[:300])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(40):
            model.predict_proba(scores[300 + rng.choice(2000, 50, replace=False)])
    assert len(caught) <= 1


def test_the_report_withdraws_the_guarantee(fitted, tmp_path):
    model, new = fitted
    good = write_report(tmp_path / "a.html", model, new.scores, new.truth).answer
    assert good.promise.startswith("Guaranteed")
    bad = write_report(tmp_path / "b.html", model, 100.0 * new.scores, new.truth).answer
    assert bad.promise.startswith("Nothing is guaranteed here. The scores of 110 of 110 labels")
    assert "confidence" not in bad.target
