"""New scores beside those fitted on: what differs, and a model for other prevalences."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import HierLPR, load_model, simulate
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.lpr.diagnostics import N_BINS, ScoreBins
from hierlpr.lpr.drift import explain_by_prevalence
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


@pytest.mark.parametrize("factor", [0.2, 5.0])
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


@pytest.fixture(scope="module")
def tree():
    train, pool = simulate.train_test("tree25", n_train=2000, n_test=6000, rng=5)
    return pool, HierLPR(train.hierarchy, joint=False).fit(train.scores, train.truth)


def test_a_move_of_all_prevalences_is_seen_in_few_samples(tree):
    """Every prevalence a third of what it was; 100 samples."""
    pool, model = tree
    rng = np.random.default_rng(0)
    root = pool.truth.any(axis=1)
    chance = np.where(root, 1 / 3 / root.mean(), 2 / 3 / (1 - root.mean()))
    for _ in range(5):
        rows = rng.choice(6000, 100, p=chance / chance.sum())
        drift = model.check(pool.scores[rows])
        assert "seems to have changed by" in str(drift)
        assert np.median(drift.expected / drift.prevalence) < 0.7
        assert not drift.is_nonsense


def test_reversed_and_permuted_scores_are_refused(tree):
    pool, model = tree
    order = np.random.default_rng(0).permutation(25)
    for scores in (1.0 - pool.scores[:300], pool.scores[:, order], 100.0 * pool.scores[:300]):
        with pytest.raises(DataError, match=r"No change of prevalences .* on the same scale"):
            model.adapt(scores)


def test_poor_scores_of_few_samples_cannot_tell():
    h = simulate.random_tree(25, max_depth=5, rng=0)
    drawn = simulate.random_model(h, quality="low", conditional=0.6, root=0.1, rng=0)
    fit = drawn.draw(1000, 1)
    model = HierLPR(h, joint=False).fit(fit.scores, fit.truth)
    assert "cannot tell from 100 samples" in str(model.check(drawn.draw(100, 5).scores))


@pytest.mark.parametrize("setting", ["2", "tree25"])
def test_prevalences_of_the_same_population_rarely_move(setting):
    """At most about 1 of 20 checks; relatives say much the same and must not count twice."""
    n_moved = 0
    for seed in range(8):
        train, pool = simulate.train_test(setting, n_train=3000, n_test=1000, rng=seed)
        model = HierLPR(train.hierarchy, joint=False).fit(train.scores, train.truth)
        for part in np.split(pool.scores, 10):
            n_moved += "seems to have changed by" in str(model.check(part))
    assert n_moved <= 4


def test_mixtures_recover_the_prevalence_they_were_drawn_with():
    """As exactly as the samples allow, or large samples raise alarms."""
    rng = np.random.default_rng(3)
    p1, p0 = np.array([0.05, 0.15, 0.3, 0.5]), np.array([0.45, 0.3, 0.2, 0.05])
    true = rng.uniform(0.02, 0.98, 20)
    for n_fit, n_new, limit in ((1e6, 300_000, 0.005), (1e3, 2000, 0.1)):
        positive = 0.2 * n_fit * np.tile(p1, (20, 1))
        total = positive + 0.8 * n_fit * p0
        count = np.stack([rng.multinomial(n_new, x * p1 + (1 - x) * p0) for x in true])
        residual, p_value, rate, error = explain_by_prevalence(total, positive, count)
        assert p_value.min() > 1e-3
        assert np.abs(rate - true).max() < limit
        assert np.all(np.abs(rate - true) < 4 * error)
        assert residual.max() < 0.05


@pytest.mark.parametrize("seed", [5, 11])
def test_an_unlikely_draw_of_the_same_population_raises_no_alarm(seed):
    """Each has a p-value near .002; alarms at 1 % would be frequent where each batch is checked."""
    train, pool = simulate.train_test(
        2, n_train=3000, n_test=20000, rng=np.random.default_rng(seed)
    )
    model = HierLPR(train.hierarchy, joint=False).fit(train.scores, train.truth)
    drift = model.check(pool.scores[:1000])
    assert drift.p_value.min() < 0.01 / 3
    assert drift.is_clean


def test_a_label_that_always_holds_is_no_objection_to_a_move():
    """A flat set with one certain label; the others become a third as frequent, or thrice."""
    rng = np.random.default_rng(6)
    truth = rng.random((1000, 5)) < [1.0, 0.3, 0.3, 0.2, 0.1]
    model = HierLPR(joint=False).fit(truth + 0.5 * rng.normal(size=truth.shape), truth)
    for factor in (1 / 3, 3.0):
        new = rng.random((1000, 5)) < np.array([1.0, *(factor * np.array([0.3, 0.3, 0.2, 0.1]))])
        drift = model.check(new + 0.5 * rng.normal(size=new.shape))
        assert not drift.is_far
        assert drift.expected[1:] == pytest.approx(new[:, 1:].mean(axis=0), rel=0.4)


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
    assert adapted.cutoff_.goal.confidence is None
    assert adapted.sets_ is None
    assert certified.cutoff_.goal.confidence == 0.9
    adapted.save(tmp_path / "there.hlpr")
    again = load_model(tmp_path / "there.hlpr")
    assert "not calibrated for this population" in str(again.cutoff_)
    assert np.array_equal(again.transform(rest[0]), adapted.transform(rest[0]))
    with pytest.raises(DataError, match="does not know the distribution of the scores"):
        again.check(pool.scores)
    again.calibrate(*rest, precision=0.8, confidence=0.9)
    assert again.cutoff_.goal.kind == "precision"


def test_bad_input_is_refused(case):
    train, pool, model = case
    with pytest.raises(DataError, match="too few to compare"):
        model.check(pool.scores[:20])
    listed = HierLPR(train.hierarchy).fit(sparse.csr_array(train.scores), train.truth)
    with pytest.raises(DataError, match=r"listed scores .* cannot be adapted"):
        listed.adapt(sparse.csr_array(pool.scores))


def test_listed_scores_are_compared_with_absent_pairs_as_a_bin(tmp_path):
    """Ancestors are often implied; one label gets five times as frequent, or broken."""
    h = simulate.random_tree(20, max_depth=4, rng=0)
    drawn = simulate.random_model(h, conditional=np.full(20, 0.5), root=0.5, rng=0)
    fit, pool = drawn.draw(2000, 1), drawn.draw(8000, 2)

    def listed(scores):
        return sparse.csr_array(np.where(scores > np.quantile(fit.scores, 0.7, axis=0), scores, 0))

    model = HierLPR(h).fit(listed(fit.scores), fit.truth)
    model.save(tmp_path / "m.hlpr")
    model = load_model(tmp_path / "m.hlpr")
    for rows in np.split(np.arange(8000), 8)[:4]:
        drift = model.check(listed(pool.scores[rows]))
        assert drift.is_clean
        assert "seems to have changed by" not in str(drift)
    label = int(np.argmin(np.abs(fit.truth.mean(axis=0) - 0.08)))
    scores, truth = shifted(np.random.default_rng(3), pool, label, 5.0)
    drift = model.check(listed(scores))
    assert drift.expected[label] == pytest.approx(truth[:, label].mean(), rel=0.35)
    assert drift.is_clean
    broken = listed(pool.scores[:2000]).tolil()
    broken[:, [label]] = np.where(np.arange(2000) % 3, 0.0, 0.9)[:, None]
    drift = model.check(sparse.csr_array(broken))
    assert drift.is_different[label]
    assert drift.is_different.sum() <= 2
