"""Networks, forest and kernel against slow twins, and what they promise."""

from dataclasses import astuple, replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import reference_first_stage as reference
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.first_stage import FirstStage, kernel_ridge, networks, projection_forest
from hierlpr.first_stage.descent import (
    WEIGHT_DECAY,
    NetworkPlan,
    _cut,
    _descend,
    _start,
    adam_step,
    add_block,
    predict_network,
    take_block,
    train_network,
)
from hierlpr.first_stage.kernel_ridge import KernelRidge, _kernel
from hierlpr.first_stage.multilabel import (
    LabelColumns,
    blend_weights,
    check_labels,
    fit_pooled_map,
    log_odds,
    mean_log_loss,
)

SMALL = NetworkPlan((12, 8), 0.7, 0.5, 0.01, 16, 16)
PLAN = NetworkPlan((7, 5), 0.0, 0.0, 0.01, 8, 4)


@pytest.fixture(autouse=True)
def small_networks(monkeypatch):
    monkeypatch.setattr(networks, "PLANS", (SMALL, replace(SMALL, dropout=0.5, noise=0.1)))


def views_of(vector, layers):
    return _cut(vector, [weight.shape for weight, _ in layers])


def trained(x, y, plan, seed):
    """The layers after the last epoch."""
    kept = []
    train_network(x, y, plan, seed, watch=lambda epoch, layers: kept.append(layers))
    return kept[-1]


def data(n_samples=120, rng=0):
    rng = np.random.default_rng(rng)
    x = rng.normal(size=(n_samples, 4)).astype(np.float32)
    y = np.stack([x[:, 0] > 0, (x[:, 0] > 0) & (x[:, 1] > 0), x[:, 2] > 1.0], axis=1)
    return x, y


def members(**options):
    return [
        FirstStage(members=[name], n_trees=30, n_networks=2, **options)
        for name in ("forest", "kernel", "networks")
    ]


def networks_of(x, y, n_networks, clusters=None):
    """The ensemble in a first stage of networks alone, and the encoded features."""
    stage = FirstStage(members=["networks"], n_networks=n_networks)
    stage.fit(x, y, clusters=clusters)
    return stage.members_["networks"], stage.encoder_.transform(x)


# -- networks --------------------------------------------------------------------------------


def test_the_slope_is_that_of_the_log_loss():
    x, y = data(8)
    y = y.astype(np.float32)
    rng = np.random.default_rng(0)
    parameters, layers = _start(4, y, PLAN, rng)
    parameters += 0.1 * rng.standard_normal(parameters.size).astype(np.float32)
    slope = np.zeros_like(parameters)
    _descend(layers, views_of(slope, layers), x, y, len(x), PLAN, rng)
    exact = parameters.astype(np.float64)
    for i in rng.choice(parameters.size, 40, replace=False):
        losses = []
        for step in (1e-5, -1e-5):
            moved = exact.copy()
            moved[i] += step
            losses.append(reference.log_loss(views_of(moved, layers), x, y))
        assert slope[i] == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=2e-4)


def test_adam_as_printed():
    rng = np.random.default_rng(0)
    w = rng.normal(size=50).astype(np.float32)
    slopes = rng.normal(size=(5, 50)).astype(np.float32)
    rates = [PLAN.learning_rate] * 5
    expected = reference.adam(w, slopes, rates=rates, decay=WEIGHT_DECAY)
    gradient = np.zeros_like(w)
    moments = np.zeros_like(w), np.zeros_like(w)
    for n, slope in enumerate(slopes, start=1):
        gradient += slope  # each step leaves it empty
        rate, widen = PLAN.learning_rate / (1.0 - 0.9**n), 1.0 / (1.0 - 0.999**n)
        adam_step(w, gradient, *moments, rate, widen, WEIGHT_DECAY)
    np.testing.assert_allclose(w, expected, atol=1e-6)


def test_parts_of_matrices():
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(6, 5)).astype(np.float32)
    none = np.empty(0, dtype=np.int64)
    for rows, columns in [([4, 1], [0, 3, 2]), ([], [2]), ([5], []), ([], [])]:
        taken = whole[rows] if rows else whole
        taken = taken[:, columns] if columns else taken
        part = np.empty(taken.shape, np.float32)
        places = [np.array(a, dtype=np.int64) if a else none for a in (rows, columns)]
        take_block(whole, *places, part)
        np.testing.assert_array_equal(part, taken)
        added, expected = whole.copy(), whole.copy()
        add_block(added, *places, part)
        expected[np.ix_(rows or range(6), columns or range(5))] += taken
        np.testing.assert_array_equal(added, expected)


@pytest.mark.parametrize("cluster", [None, np.arange(90) // 9])
def test_each_sample_is_judged_by_networks_that_have_not_seen_it(cluster, monkeypatch):
    """Nor another sample of its cluster."""
    x, y = data(90)
    monkeypatch.setattr(networks, "FOLDS", 3)
    ensemble, encoded = networks_of(x, y, 7, clusters=cluster)
    assert len(ensemble.networks_) == 7
    labels = LabelColumns.of(y)
    # Trained again one by one: the folds are the first draws of the last seed.
    seeds = np.random.SeedSequence(0).spawn(8)
    rng = np.random.default_rng(seeds[-1])
    unit = np.arange(90)
    if cluster is not None:
        unit = cluster_numbers(cluster, Table(np.empty((90, 0)), ()))
    partitions = [(rng.permutation(unit.max() + 1) % 3)[unit] for _ in range(3)]
    total, count = np.zeros_like(labels.values), np.zeros((90, 1))
    for i in range(7):
        apart = partitions[i // 3] == i % 3
        layers = trained(encoded[~apart], labels.values[~apart], ensemble.plan_, seeds[i])
        total[apart] += predict_network(layers, encoded[apart])
        count[apart] += 1
    assert set(count.ravel()) == {2, 3}
    np.testing.assert_allclose(ensemble.outside_, total / count, atol=1e-6)


def test_training_ends_where_left_out_samples_lose(monkeypatch):
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(60, 30)), rng.random((60, 2)) < 0.5
    monkeypatch.setattr(networks, "PLANS", (NetworkPlan((50,), 0.0, 0.0, 0.01, 8, 100),))
    assert networks_of(x, noise, 3)[0].plan_.epochs <= 10
    assert networks_of(*data(300), 3)[0].plan_.epochs > 10


def test_the_first_fold_chooses_the_regularization(monkeypatch):
    x, y = data(300)
    plans = [replace(SMALL, dropout=d, noise=n) for d, n in ((0.9, 5.0), (0.0, 0.0))]
    monkeypatch.setattr(networks, "PLANS", plans)
    chosen = networks_of(x, y, 2)[0].plan_
    assert (chosen.dropout, chosen.noise) == (0.0, 0.0)


# -- forest ----------------------------------------------------------------------------------


PATIENTS = np.random.default_rng(2).integers(0, 9, 40)  # of samples, of 1 to 8 each


@pytest.mark.parametrize("cluster", [None, PATIENTS], ids=["samples", "clusters"])
def test_shares_of_trees_without_the_cluster(cluster, monkeypatch):
    monkeypatch.setattr(projection_forest, "PROJECTIONS", 99)
    x, y = data(40)
    stage = FirstStage(members=["forest"], n_trees=12).fit(x, y, clusters=cluster)
    ours, encoded = stage.members_["forest"], stage.encoder_.transform(x)
    unit, fold = np.arange(40), np.full(40, -1)
    if cluster is not None:
        assert [len(forest.estimators_) for forest in ours.forests_] == [3, 3, 2, 2, 2]
        unit = cluster_numbers(cluster, Table(np.empty((40, 0)), ()))
        fold = (np.random.default_rng(0).permutation(9) % 5)[unit]  # the first draw of the seed
    bags = []
    for number, forest in enumerate(ours.forests_):
        bags += [np.flatnonzero(fold != number)[rows] for rows in forest.estimators_samples_]
    in_bag = np.stack([np.bincount(rows, minlength=40) for rows in bags])
    outside = np.array([[u not in unit[rows] for rows in bags] for u in unit])
    rows = np.flatnonzero(outside.any(axis=1))
    assert rows.size > 35
    leaves = np.hstack([forest.apply(encoded) for forest in ours.forests_])
    expected = reference.leaf_shares(leaves, in_bag, y, leaves[rows], outside[rows])
    np.testing.assert_allclose(ours.outside_[rows], expected, atol=1e-6)
    expected = reference.leaf_shares(leaves, in_bag, y, leaves, np.ones((40, 12), bool))
    np.testing.assert_allclose(ours.proba(encoded), expected, atol=1e-6)


def test_a_forest_that_adds_nothing_is_not_grown():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 12))
    y = np.stack([x[:, 0] > 0, x.sum(axis=1) > 0], axis=1)  # lines: a kernel learns them better
    stage = FirstStage(members=["forest", "kernel"], n_trees=100).fit(x, y)
    assert stage.weights_["forest"] == 0.0
    stage = FirstStage(members=["forest"], n_trees=100).fit(x, y)
    assert len(stage.members_["forest"].forests_[0].estimators_) == 100


# -- kernel ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [None, PATIENTS], ids=["samples", "clusters"])
@pytest.mark.parametrize("power", [1, 2])
def test_left_one_out_in_closed_form(power, cluster, monkeypatch):
    """Also of samples beyond those in use, if their cluster is left out too."""
    x, y = data(40)
    if cluster is not None:
        monkeypatch.setattr(kernel_ridge, "MAX_SAMPLES", 30)
    monkeypatch.setattr(kernel_ridge, "SHAPES", ((power, 1.0),))
    monkeypatch.setattr(kernel_ridge, "PENALTIES", (0.3,))
    labels = replace(LabelColumns.of(y), cluster=cluster)
    ours = KernelRidge()
    ours.learn(x, labels)
    fitted = (x[:, None] == ours.x_).all(axis=2).any(axis=1)  # samples in use
    assert fitted.sum() == (40 if cluster is None else 30)
    kernel = _kernel(x, x, power, ours.width_).astype(float)
    target = y - ours.mean_
    inside = kernel[np.ix_(fitted, fitted)]
    np.testing.assert_allclose(inside @ ours.dual_ + 0.3 * ours.dual_, target[fitted], atol=1e-4)
    expected = reference.left_one_out(kernel, target, 0.3, cluster, fitted)
    odds = kernel_ridge._log_odds(expected + ours.mean_)
    np.testing.assert_allclose(ours.outside_, ours.map_.probabilities(odds, ours.prior_), atol=1e-3)


def test_the_kernel_is_chosen_by_what_predicts_new_clusters():
    """Samples of a patient are nearly copies, and would choose a narrow kernel and no penalty."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 4)
    x = (rng.normal(size=(30, 3))[patient] + 0.1 * rng.normal(size=(120, 3))).astype(np.float32)
    y = (x[:, :1] + rng.normal(size=(30, 1))[patient] > 0).astype(float)
    target = y - y.mean(axis=0)
    chosen = kernel_ridge._choose(x, target, patient)
    errors = {}
    median = np.median(kernel_ridge._squared(x, x)[~np.eye(120, dtype=bool)])
    for power, times in kernel_ridge.SHAPES:
        kernel = _kernel(x, x, power, times * median).astype(float)
        for penalty in kernel_ridge.PENALTIES:
            out = reference.left_one_out(kernel, target, penalty, patient)
            errors[power, times * median, penalty] = np.square(target - out).sum()
    assert chosen == pytest.approx(min(errors, key=errors.get))
    assert chosen != pytest.approx(kernel_ridge._choose(x, target, None))


def test_more_samples_than_allowed_are_predicted_by_the_others(monkeypatch):
    x, y = data(120)
    monkeypatch.setattr(kernel_ridge, "MAX_SAMPLES", 60)
    stage = FirstStage(members=["kernel"]).fit(x, y)
    kernel = stage.members_["kernel"]
    assert kernel.x_.shape[0] == 60
    assert mean_log_loss(kernel.outside_, stage.labels_.values) < 1.5
    assert np.isfinite(kernel.outside_).all()


# -- weights ---------------------------------------------------------------------------------


def test_weights_have_the_smallest_log_loss():
    rng = np.random.default_rng(0)
    y = rng.random((300, 4)) < 0.3
    p = np.clip(0.3 + 0.4 * (y - 0.3) + 0.1 * rng.normal(size=y.shape), 0.01, 0.99)
    q = np.clip(0.3 + 0.3 * (y - 0.3) + 0.2 * rng.normal(size=y.shape), 0.01, 0.99)
    weights = blend_weights([p, q], y)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == pytest.approx(reference.best_two_weights(p, q, y), abs=0.01)


def test_a_member_without_use_is_left_out_and_that_is_said():
    x, y = data(80)
    stage = FirstStage(members=["forest", "kernel"], n_trees=25).fit(x, y)
    good = stage.members_.get("kernel") or next(iter(stage.members_.values()))

    useless = SimpleNamespace(outside_=np.full_like(good.outside_, 0.5))
    stage._blend({"forest": useless, "kernel": good}, stage.labels_)
    assert list(stage.members_) == ["kernel"]
    assert stage.weights_ == {"forest": 0.0, "kernel": 1.0}
    assert "forest: left out" in stage.describe()
    # The kernel has learned its map, and a second one has nothing left to do.
    np.testing.assert_allclose(stage.outside_, good.outside_, atol=0.02)


def test_the_map_of_all_labels_against_scikit_learn():
    rng = np.random.default_rng(0)
    prior = np.array([0.02, 0.1, 0.4])
    chance = np.clip(prior + 0.1 * rng.normal(size=(2000, 3)), 0.001, 0.999)
    y = rng.random((2000, 3)) < chance
    level = 0.5 * log_odds(chance) + 0.5 * log_odds(prior)  # too near to the prevalence
    fitted = fit_pooled_map(level, y, prior, np.random.default_rng(0))
    design = np.stack([level.ravel(), np.tile(log_odds(prior), 2000)], axis=1)
    other = LogisticRegression(C=np.inf, tol=1e-8).fit(design, y.ravel())
    np.testing.assert_allclose(astuple(fitted), [*other.intercept_, *other.coef_[0]], atol=0.01)
    np.testing.assert_allclose(
        fitted.probabilities(level, prior).ravel(), other.predict_proba(design)[:, 1], atol=1e-3
    )
    assert mean_log_loss(fitted.probabilities(level, prior), y) < mean_log_loss(
        1 / (1 + np.exp(-level)), y
    )
    turned = fit_pooled_map(-level, y, prior, np.random.default_rng(0))
    assert turned.slope == 0.0  # the order is never turned around


# -- labels ----------------------------------------------------------------------------------


def test_equal_columns_are_learned_once_and_constant_ones_not_at_all():
    rng = np.random.default_rng(0)
    held = rng.random((20, 4)) < 0.5
    held = np.column_stack([held, held[:, 1], np.zeros(20, bool), np.ones(20, bool), held[:, 0]])
    labels = LabelColumns.of(held)
    assert labels.values.shape == (20, 4)
    out = labels.spread(labels.values)
    np.testing.assert_array_equal(out[:, :5] > 0.5, held[:, :5])
    np.testing.assert_array_equal(out[:, 7] > 0.5, held[:, 7])
    np.testing.assert_allclose(out[0, 5:7], [0.5 / 21, 20.5 / 21])


def test_labels_must_be_0_and_1():
    with pytest.raises(DataError, match=r"0 and 1 only, got 2.0 at sample 1, label 0"):
        check_labels([[0], [2]], 2)
    with pytest.raises(DataError, match="got inf"):
        check_labels([[np.nan], [np.inf]], 2)
    with pytest.raises(DataError, match=r"unknown in all samples for 1 label\(s\), first 1"):
        check_labels([[0.0, np.nan], [1.0, np.nan]], 2)
    held, known = check_labels([[0.0], [np.nan]], 2)
    assert (held.tolist(), known.tolist()) == ([[False], [False]], [[True], [False]])
    assert check_labels([[0.0], [1.0]], 2)[1] is None
    with pytest.raises(DataError, match="shape"):
        check_labels([0, 1], 2)
    with pytest.raises(DataError, match="X has 3 samples"):
        check_labels([[0], [1]], 3)
    with pytest.raises(DataError, match="not numbers"):
        check_labels([["a"], ["b"]], 2)


# -- labels of which some are unknown ---------------------------------------------------------


def hidden(y, share=0.3, rng=0):
    return np.where(np.random.default_rng(rng).random(y.shape) < share, np.nan, y)


def test_columns_of_unknown_labels():
    nan = np.nan
    y = np.array([[1, 1, 0, 0], [0, 0, 0, 1], [nan, 1, nan, 1], [1, 1, 0, 0], [nan, 0, 0, nan]])
    labels = LabelColumns.of(*check_labels(y, 5))
    # Labels that are equal where known, but known elsewhere, are not the same column.
    assert labels.place.tolist() == [0, 1, -1, 2]
    np.testing.assert_allclose(labels.prevalence, [2.5 / 4, 3.5 / 6, 0.5 / 5, 2.5 / 5])
    np.testing.assert_array_equal(labels.evaluated, y[:, [0, 1, 3]].astype(np.float32))
    assert labels.values[2, 0] == pytest.approx(2.5 / 4)
    filled = labels.filled(np.full((5, 3), 0.25))
    assert filled.values[2, 0] == filled.values[4, 2] == 0.25
    np.testing.assert_array_equal(filled.evaluated, labels.evaluated)


@pytest.mark.parametrize("member", members(), ids=lambda m: m.members[0])
def test_members_learn_from_what_is_known(member):
    """Nearly as well as from all, and better than if unknown labels did not hold."""
    x, y = data(400)
    gaps = hidden(y, 0.5)
    new_x, new_y = data(2000, rng=7)

    def loss(truth):
        return mean_log_loss(clone(member).fit(x, truth).predict_proba(new_x), new_y)

    unknown, negative, whole = loss(gaps), loss(np.nan_to_num(gaps)), loss(y)
    assert unknown < 0.9 * negative
    assert unknown < whole + 0.6 * (negative - whole)
    fitted = clone(member).fit(x, y.astype(float))
    np.testing.assert_array_equal(fitted.predict_proba(x), clone(member).fit(x, y).predict_proba(x))


# -- all members -----------------------------------------------------------------------------


@pytest.mark.parametrize("member", members(), ids=lambda m: m.members[0])
def test_members_learn_and_out_of_fold_does_not_know_its_truth(member):
    x, y = data(300)
    member.fit(x, y)
    assert (member.predict(x) == y).mean() > 0.85
    assert ((member.oof_proba_ > 0.5) == y).mean() > 0.75
    noise = np.random.default_rng(5).random((300, 3)) < 0.5
    member.fit(x, noise)
    assert abs(member.oof_proba_[noise].mean() - member.oof_proba_[~noise].mean()) < 0.06


@pytest.mark.parametrize("member", members(), ids=lambda m: m.members[0])
def test_out_of_fold_does_not_know_the_truth_of_the_cluster(member):
    """Nothing can be learned here but who is who, and that is of no use for new patients."""
    rng = np.random.default_rng(5)
    patient = rng.integers(0, 60, 300)
    x = rng.normal(size=(60, 4))[patient] + 0.1 * rng.normal(size=(300, 4))
    noise = (rng.random((60, 3)) < 0.5)[patient]

    def gap(**options):
        proba = member.fit(x, noise, **options).oof_proba_
        return proba[noise].mean() - proba[~noise].mean()

    assert abs(gap(clusters=[f"patient {p}" for p in patient])) < 0.1
    assert gap() > 0.15
    alone = member.fit(x, noise, clusters=np.arange(300)).oof_proba_
    np.testing.assert_array_equal(alone, member.fit(x, noise).oof_proba_)
    for n_clusters in (2, 3):
        assert np.isfinite(member.fit(x, noise, clusters=patient % n_clusters).oof_proba_).all()
    with pytest.raises(DataError, match="are of one cluster"):
        member.fit(x, noise, clusters=patient * 0)


@pytest.mark.parametrize("member", members(), ids=lambda m: m.members[0])
@pytest.mark.parametrize("n_samples", [2, 3, 30])
def test_tiny_and_odd_data(member, n_samples):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=n_samples), np.full(n_samples, np.nan)])
    x[0, 0] = np.nan
    y = np.zeros((n_samples, 4), dtype=int)
    y[0, 0] = 1  # one positive
    y[:, 1] = 1  # always; 2 and 3 never
    out = member.fit(x, y).predict_proba(x)
    assert out.shape == (n_samples, 4)
    assert np.isfinite(out).all()
    assert ((out >= 0) & (out <= 1)).all()
    assert (out[:, 1] > 0.5).all()
    assert (out[:, 2] <= 0.2).all()
    assert np.isfinite(member.oof_proba_).all()
    only = member.fit(x, np.zeros((n_samples, 1))).predict_proba(x)
    assert (only <= 0.2).all()


def test_the_same_seed_gives_the_same_bits_with_any_number_of_jobs():
    x, y = data(60)
    for one in members()[::2]:  # the kernel has no jobs
        two = clone(one).set_params(n_jobs=2)
        np.testing.assert_array_equal(
            one.fit(x, y).predict_proba(x), two.fit(x, y).predict_proba(x)
        )
        np.testing.assert_array_equal(one.oof_proba_, two.oof_proba_)


def test_wrong_options():
    x, y = data(20)
    for member, message in [
        (FirstStage(n_networks=1), "n_networks must be a whole number of at least 2"),
        (FirstStage(n_jobs="a"), "n_jobs"),
        (FirstStage(n_trees="many"), "n_trees"),
        (FirstStage(members=["trees"]), "'forest', 'kernel', 'networks'"),
        (FirstStage(members="forest"), "must list"),
    ]:
        with pytest.raises(DataError, match=message):
            member.fit(x, y)
    with pytest.raises(DataError, match="fewer than 2"):
        FirstStage().fit(x[:1], y[:1])
