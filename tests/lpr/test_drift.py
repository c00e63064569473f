"""New scores beside those fitted on: what differs, and a model for other prevalences."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import reference_shift as slow
from hierlpr import Hierarchy, HierLPR, load_model, simulate
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.joint.posterior import forest_posteriors
from hierlpr.joint.prior import LabelPrior
from hierlpr.lpr.diagnostics import N_BINS, ScoreBins
from hierlpr.lpr.label_shift import (
    ENOUGH_POSITIVES,
    SHIFT_SD,
    SHIFTS,
    JointShiftLikelihood,
    RarestParentForest,
    ShiftLikelihood,
    average_over_tilts,
    find_tilts,
    log_likelihood,
)
from hierlpr.lpr.shared import LabelBins
from hierlpr.lpr.training import ScoreGroups


def log_loss(model, scores, truth):
    p = np.clip(model.transform(scores), 1e-9, 1 - 1e-9)
    return -np.where(truth, np.log(p), np.log1p(-p)).sum(axis=1).mean()


def shifted(rng, data, label, factor, n=2000):
    rate = data.truth[:, label].mean()
    new = min(0.9, rate * factor)
    chance = np.where(data.truth[:, label], new / rate, (1 - new) / (1 - rate))
    rows = rng.choice(data.n_samples, n, p=chance / chance.sum())
    return data.scores[rows], data.truth[rows]


@pytest.fixture(scope="module")
def case():
    train, pool = simulate.train_test(1, n_train=2000, n_test=8000, rng=5)
    return train, pool, HierLPR(train.hierarchy).fit(train.scores, train.truth)


def test_bins_hold_the_scores_fitted_on(case):
    train, _, model = case
    bins = model.lpr_.seen
    assert bins.total.sum(axis=1).tolist() == [2000.0] * 3
    assert np.array_equal(bins.positive.sum(axis=1), train.truth.sum(axis=0))
    assert np.array_equal(bins.count(train.scores), bins.total)
    assert bins.total.max() < 2 * 2000 / N_BINS
    tied = HierLPR().fit(np.repeat([[0.0], [1.0], [2.0]], 20, axis=0), [[0], [1], [1]] * 20)
    assert tied.lpr_.seen.count(np.array([[0.0], [1.0], [1.5], [9.0]])).sum() == 4


@pytest.mark.parametrize("seed", range(6))
def test_bins_count_their_own_scores_again(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, [2, 5, 40, 200])
    ptr = np.concatenate([[0], sizes.cumsum()])
    score = np.concatenate([np.sort(rng.normal(size=n)) for n in sizes])
    total = rng.integers(1, 4, score.size).astype(float)
    total[ptr[3] + sizes[3] // 2] = 300.0  # a score so frequent that bins are empty
    positive, lpr = np.floor(total * rng.random(score.size)), rng.random(score.size)
    bins = LabelBins.of(ScoreGroups(ptr, score, positive, total, 1.0), lpr)
    found = ScoreBins.of(bins, bins.lpr, score[ptr[:-1]])
    for k in range(4):
        at = slice(ptr[k], ptr[k + 1])
        samples = np.repeat(score[at], total[at].astype(int))[:, None]
        again = found.select([k]).count(samples)
        assert np.array_equal(again, found.total[[k]])
        assert found.positive[k].sum() == positive[at].sum()
        assert found.mean_lpr[k] == pytest.approx(np.average(lpr[at], weights=total[at]))
    single = total[ptr[2] : ptr[3]]
    assert found.total[2].max() <= single.sum() / N_BINS + 2 * single.max() + 0.06 * single.sum()


BELOW_80 = pytest.mark.xfail(reason="79 % since curves are shared by depth", strict=True)


@pytest.mark.parametrize("factor", [pytest.param(0.2, marks=BELOW_80), 5.0])
def test_adapting_recovers_most_of_a_shift(case, factor):
    train, pool, model = case
    rng = np.random.default_rng(1)
    label = int(np.argmin(train.truth.mean(axis=0)))
    scores, truth = shifted(rng, pool, label, factor)
    new = shifted(rng, pool, label, factor)
    before = model.lpr_.curves.knot_lpr.copy()
    adapted = model.adapt(scores)
    refitted = HierLPR(train.hierarchy).fit(scores, truth)
    old, now, best = (log_loss(m, *new) for m in (model, adapted, refitted))
    assert old - now > 0.8 * (old - best)
    assert np.array_equal(model.lpr_.curves.knot_lpr, before)
    drift = model.check(scores)
    assert drift.expected[label] == pytest.approx(truth[:, label].mean(), rel=0.3)
    assert f"most of all {train.hierarchy.labels[label]!r}" in str(drift)
    assert not drift.is_different.any()


def test_no_shift_changes_next_to_nothing(case):
    _, pool, model = case
    adapted = model.adapt(pool.scores[:2000])
    assert np.array_equal(
        adapted.transform(pool.scores[4000:]), model.transform(pool.scores[4000:])
    )
    assert "look like those fitted on" in str(model.check(pool.scores[:2000]))


def peaks(shifts, errors):
    """Log-likelihoods of normal estimates."""
    return -0.5 * ((SHIFTS - np.asarray(shifts)[:, None]) / np.asarray(errors)[:, None]) ** 2


def tilted(base, likelihood, h):
    """Prevalences of the tilts found for log-likelihoods of single labels."""
    table = likelihood - 0.5 * (SHIFTS / SHIFT_SD) ** 2
    return average_over_tilts(ShiftLikelihood(RarestParentForest.of(base, h), table), base)


def test_words_name_no_label_where_nothing_has_moved(case):
    _, pool, model = case
    drift = model.check(pool.scores[:2000])
    still = replace(drift, expected=drift.prevalence.copy())
    assert "samples: no prevalence seems to have moved. " in str(still)
    assert "most of all" not in str(still)
    hardly = still.prevalence * np.where(np.arange(len(still.labels)) == 1, 1.0 + 1e-9, 1.0)
    assert str(replace(still, expected=hardly)) == str(still)
    little = still.prevalence * np.where(np.arange(len(still.labels)) == 1, 0.9, 1.0)
    told = str(replace(still, expected=little))
    assert f"of 0 of {len(still.labels)} labels" in told
    assert f"most of all {still.labels[1]!r}" in told


def test_no_child_is_more_frequent_than_its_parents():
    rng = np.random.default_rng(3)
    for _ in range(10):
        h = simulate.random_dag(12, rng=rng)
        held = h.close_upward(rng.random((400, 12)) < 0.2)
        base = (held.sum(axis=0) + 0.5) / 401
        found = tilted(base, peaks(rng.normal(size=12) * 2, np.full(12, 0.3)), h)
        for parent, child in h.edges:
            rarest = min(h.parents(child), key=lambda p: (base[h.index(p)], h.index(p)))
            if parent == rarest:
                assert found[h.index(child)] <= found[h.index(parent)] * (1 + 1e-9)


def test_one_move_explains_those_below():
    """A root that moves takes along a child; how far, its own scores tell, or both is averaged."""
    h = Hierarchy([("A", "B")])
    base = np.array([0.5, 0.25])
    new = 1 / (1 + np.exp(-1.0))
    by_itself = np.log(new / 2 / (1 - new / 2)) - np.log(0.25 / 0.75)
    for error, share in ((0.05, (0.49, 0.51)), (1e3, (0.55, 0.70))):
        found = tilted(base, peaks([1.0, by_itself], [0.05, error]), h)
        assert found[0] == pytest.approx(new, abs=0.01)
        assert share[0] < found[1] / found[0] < share[1]
    stays = tilted(base, peaks([0.03, -0.02], [0.1, 0.1]), h)
    assert stays == pytest.approx(base, abs=0.01)


def test_prevalences_of_tilts_match_the_sum_over_label_sets():
    rng = np.random.default_rng(8)
    for _ in range(20):
        h = simulate.random_forest(6, rng=rng)
        base = np.zeros(6)
        for k in h.order:  # a share of the parent each
            above = [base[h.index(p)] for p in h.parents(h.labels[k])]
            base[k] = rng.uniform(0.1, 0.9) * min(above, default=1.0)
        tilt = rng.normal(size=6) * rng.integers(0, 2, size=6)
        found = np.exp(RarestParentForest.of(base, h).log_rates(tilt[None])[0])
        assert found == pytest.approx(slow.tilted_prevalences(base, tilt, h))


def test_few_tilts_are_found_as_by_trying_all():
    """No two tilts on a grid are worth more than what the search finds, prices included."""
    rng = np.random.default_rng(9)
    h = Hierarchy([("A", "B"), ("A", "C")])
    base, price = np.array([0.5, 0.2, 0.1]), np.log(3) + 2
    n_found = []
    for _ in range(4):
        table = peaks(rng.normal(size=3) * [0.5, 1, 1], rng.uniform(0.1, 0.5, size=3))
        aim = ShiftLikelihood(RarestParentForest.of(base, h), table)
        tilt = find_tilts(aim, price=price)
        n_found.append(np.count_nonzero(tilt))
        worth = aim.at(tilt[None])[0] - n_found[-1] * price
        assert worth >= slow.best_tilts(base, table, SHIFTS, h, price) - 1e-9
    assert min(n_found) == 0 < max(n_found)


def test_steps_of_tilts_are_worth_what_all_label_sets_say():
    """The joint likelihood along one tilt, by sums over all label sets of every sample."""
    rng = np.random.default_rng(12)
    for _ in range(5):
        h = simulate.random_forest(5, rng=rng)
        base = np.zeros(5)
        for k in h.order:
            above = [base[h.index(p)] for p in h.parents(h.labels[k])]
            base[k] = rng.uniform(0.1, 0.9) * min(above, default=1.0)
        lpr = rng.uniform(0.02, 0.98, (6, 5))

        def posterior(lpr, prevalence, conditional, h=h):
            return forest_posteriors(lpr, LabelPrior(prevalence, conditional), h)[0]

        aim = JointShiftLikelihood(
            RarestParentForest.of(base, h), lpr, base, np.full(5, 0.5), posterior
        )
        tilt, steps = rng.normal(size=5), np.array([-1.0, 0.3, 2.0])
        ratio = np.log(lpr / (1 - lpr) * (1 - base) / base)
        for k in range(5):
            found = []
            for step in (0.0, *steps):
                own = tilt + step * (np.arange(5) == k)
                told = sum(slow.log_sum(base, own + row, h) for row in ratio)
                told -= len(lpr) * slow.log_sum(base, own, h)
                found.append(0.5 * told - 0.5 * (own[k] / SHIFT_SD) ** 2)
            expected = np.array(found[1:]) - found[0]
            assert aim.gains(tilt, k, steps) == pytest.approx(expected, abs=1e-6)


def test_a_label_of_poor_scores_is_told_by_its_relatives():
    """With the joint posterior trusted the estimate is nearer to the truth than label by label."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(500 + seed)
        train, pool = simulate.train_test("2", n_train=2000, n_test=12000, rng=rng)
        rate = pool.truth[:, 1].mean()
        chance = np.where(pool.truth[:, 1], 3.0, 1.0)
        rows = rng.choice(12000, 2500, p=chance / chance.sum())
        assert rate > 0.0
        for joint in (False, True):
            model = HierLPR(train.hierarchy, joint=joint).fit(train.scores, train.truth)
            found = model.check(pool.scores[rows]).expected
            errors.append(np.abs(found - pool.truth[rows].mean(axis=0)).max())
    assert np.mean(errors[1::2]) < 1.1 * np.mean(errors[::2])
    assert max(errors) < 0.1


def test_labels_without_choice_raise_no_alarm():
    """Scores that tie leave bins empty; one value, two values, and a score beyond all seen."""
    rng = np.random.default_rng(4)
    truth = rng.random((400, 3)) < [1.0, 0.5, 0.2]
    scores = np.column_stack([np.ones(400), np.where(truth[:, 1], 1.0, rng.integers(0, 2, 400)),
                              truth[:, 2] + rng.normal(size=400)])  # fmt: skip
    model = HierLPR(joint=False).fit(scores[:200], truth[:200])
    drift = model.check(scores[200:])
    assert not drift.is_different.any()
    assert np.isfinite(drift.p_value).all()
    assert drift.p_value[0] == 1.0
    beyond = scores[200:].copy()
    beyond[0, 0] = -5.0
    assert not model.check(beyond).is_different.any()
    beyond[:150, 0] = -5.0
    assert model.check(beyond).is_different.tolist() == [True, False, False]


def test_likelihood_of_a_move(case):
    """Equal to the sum over samples, whatever is rounded on the way."""
    train, pool, model = case
    scores = pool.scores[:300]
    start, lpr = model.lpr_.seen.mean_lpr, model.lpr_.predict(scores)
    ratio = lpr / (1 - lpr) * (1 - start) / start
    found = log_likelihood(model.lpr_, scores)
    for at in (0, 30, 40, 70):
        rate = 1 / (1 + np.exp(-(np.log(start / (1 - start)) + SHIFTS[at])))
        expected = np.log(1 - rate + rate * ratio).sum(axis=0)
        positive = train.truth.sum(axis=0)
        rarer = np.minimum(positive, train.n_samples - positive)
        counts = train.n_samples / (train.n_samples + 300) * rarer / (rarer + ENOUGH_POSITIVES)
        assert found[:, at] == pytest.approx(counts * expected, abs=0.05)


def test_other_scores_are_refused_or_warned_of(case):
    _, pool, model = case
    with pytest.raises(DataError, match=r"look nothing like those of the fit"):
        model.adapt(10 * pool.scores - 3)
    rng = np.random.default_rng(0)
    one = pool.scores[:1500].copy()
    one[:, 1] = rng.random(1500)
    with pytest.warns(HierlprWarning, match="look different, whatever the prevalence: 'B'"):
        model.adapt(one)
    assert model.check(one).is_different.tolist() == [False, True, False]


def test_an_adapted_model_promises_nothing(case, tmp_path):
    train, pool, _ = case
    rest = pool.scores[6000:], pool.truth[6000:]
    certified = HierLPR(train.hierarchy).fit(train.scores, train.truth)
    certified.calibrate(*rest, precision=0.8, confidence=0.9).calibrate_sets(*rest)
    adapted = certified.adapt(pool.scores[:3000])
    assert "not calibrated for this population" in str(adapted.cutoff_)
    assert adapted.cutoff_.confidence is None
    assert adapted.sets_ is None
    assert certified.cutoff_.confidence == 0.9
    adapted.save(tmp_path / "there.hlpr")
    again = load_model(tmp_path / "there.hlpr")
    assert "not calibrated for this population" in str(again.cutoff_)
    assert np.array_equal(again.transform(rest[0]), adapted.transform(rest[0]))
    with pytest.raises(DataError, match="does not know the scores"):
        again.check(pool.scores)
    again.calibrate(*rest, precision=0.8, confidence=0.9)
    assert again.cutoff_.kind == "precision"


def test_saved_models_check_alike_and_frames(case, tmp_path):
    _, pool, model = case
    model.save(tmp_path / "m.hlpr")
    one, two = (m.check(pool.scores[:500]) for m in (model, load_model(tmp_path / "m.hlpr")))
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame())
    assert one.to_frame()["label"].tolist() == list(model.hierarchy_.labels)


def test_bad_input_is_refused(case):
    train, pool, model = case
    with pytest.raises(DataError, match="too few to compare"):
        model.check(pool.scores[:20])
    listed = HierLPR(train.hierarchy).fit(sparse.csr_array(train.scores), train.truth)
    with pytest.raises(DataError, match="Listed scores"):
        listed.check(sparse.csr_array(pool.scores))


def test_command(case, tmp_path):
    from click.testing import CliRunner

    from hierlpr.cli import main

    train, pool, model = case
    model.save(tmp_path / "m.hlpr")
    frame = pd.DataFrame(pool.scores[:400], columns=train.hierarchy.labels)
    frame.insert(0, "sample", [f"s{i}" for i in range(400)])
    frame.to_csv(tmp_path / "s.csv", index=False)
    call = ["check", "--model", str(tmp_path / "m.hlpr"), "--scores", str(tmp_path / "s.csv")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "label,distance,prevalence,expected,residual,p_value,is_different"
    assert len(lines) == 4
