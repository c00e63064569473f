import itertools

import numpy as np
import pytest
from scipy import stats

from hierlpr import Hierarchy, metrics, simulate
from hierlpr.exceptions import DataError
from hierlpr.joint import joint_posterior


def enumerated_posterior(evidence, conditional, hierarchy):
    """Sum over every status of the whole forest: 2**n_labels terms."""
    h, n = hierarchy, hierarchy.n_labels
    parent = [h.index(h.parents(x)[0]) if h.parents(x) else None for x in h.labels]
    total, hits = 0.0, np.zeros(n)
    for status in itertools.product([0, 1], repeat=n):
        weight = 1.0
        for k in range(n):
            above = 1 if parent[k] is None else status[parent[k]]
            chance = conditional[k] * above
            weight *= chance * evidence[k] if status[k] else 1 - chance
        total += weight
        hits += weight * np.array(status)
    return hits / total


def test_disease_has_the_published_shape():
    d = simulate.disease(rng=3)
    h = d.hierarchy
    sizes = sorted(1 + len(h.descendants(root)) for root in h.roots)
    assert h.n_labels == 110
    assert (len(sizes), sizes.count(1), sizes.count(2), sizes[-2:]) == (24, 11, 6, [28, 30])
    assert (h.depth, np.median(h.levels)) == (6, 2)
    assert sum(len(h.children(x)) > 1 for x in h.labels) == 10
    positives = d.truth.sum(axis=0)
    assert (positives.min(), positives.max()) == (3, 62)
    assert positives.mean() / 196 == pytest.approx(0.0589, abs=5e-5)
    same = 0
    for parent, child in h.edges:
        p, c = h.index(parent), h.index(child)
        assert np.all(d.truth[:, c] <= d.truth[:, p])
        if np.array_equal(d.truth[:, c], d.truth[:, p]):
            same += 1
            assert np.array_equal(d.scores[:, c], d.scores[:, p])
            assert np.allclose(d.lpr_true[:, c], d.lpr_true[:, p])
    assert same == 26


def test_disease_scales_and_repeats():
    first, again = simulate.disease(rng=1), simulate.disease(rng=1)
    np.testing.assert_array_equal(first.scores, again.scores)
    assert not np.array_equal(first.scores, simulate.disease(rng=2).scores)
    assert simulate.disease(n_samples=1000).truth.mean() == pytest.approx(0.0589, abs=0.002)
    with pytest.raises(DataError, match="at least 12"):
        simulate.disease(n_samples=3)


@pytest.mark.parametrize("seed", range(12))
def test_posterior_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    h = simulate.random_forest(size, n_trees=min(size, 1 + seed % 3), rng=rng)
    conditional = rng.random(h.n_labels)
    evidence = np.exp(rng.normal(0, 3, (4, h.n_labels)))
    got = joint_posterior(np.log(evidence), conditional, h)
    for row, expected in zip(got, evidence, strict=True):
        np.testing.assert_allclose(row, enumerated_posterior(expected, conditional, h), atol=1e-12)
    assert not h.violations(got)


def test_posterior_survives_a_long_chain():
    names = [str(i) for i in range(5000)]
    chain = Hierarchy(list(itertools.pairwise(names)), labels=names)
    got = joint_posterior(np.full((1, 5000), 2.0), np.full(5000, 0.9), chain)
    assert np.isfinite(got).all()
    assert not chain.violations(got)


def test_posterior_of_a_dag_is_refused_and_not_simulated():
    h = simulate.random_dag(12, several_parents=0.9, rng=0)
    assert not h.is_forest
    drawn = simulate.random_model(h, rng=0).draw(50, rng=1)
    assert drawn.posterior_true is None
    assert not h.violations(drawn.truth)
    with pytest.raises(DataError, match="forest"):
        joint_posterior(np.zeros((1, 12)), np.full(12, 0.5), h)


@pytest.mark.parametrize("kind", ["forest", "dag"])
def test_prevalence_is_the_share_of_positives(kind):
    draw = simulate.random_forest if kind == "forest" else simulate.random_dag
    model = simulate.random_model(draw(10, rng=4), conditional=0.7, rng=5)
    drawn = model.draw(40_000, rng=6)
    np.testing.assert_allclose(drawn.truth.mean(axis=0), model.prevalence, atol=0.012)


@pytest.mark.parametrize("name", ["1", "4", "tree25"])
def test_true_probabilities_are_calibrated(name):
    drawn = simulate.setting(name, n_samples=20_000, rng=7)
    for chance in (drawn.lpr_true, drawn.posterior_true):
        bins = np.digitize(chance.ravel(), np.linspace(0, 1, 11))
        for b in np.unique(bins):
            inside = bins == b
            error = np.sqrt(chance.ravel()[inside].mean() / inside.sum()) + 1e-9
            gap = drawn.truth.ravel()[inside].mean() - chance.ravel()[inside].mean()
            assert abs(gap) < 5 * error


def test_lpr_is_bayes_rule_on_the_beta_densities():
    model = simulate.setting_model(4, rng=0)
    scores = np.array([[0.2, 0.5, 0.9]])
    eta, pi = model.eta, model.prevalence
    on, off = stats.beta.pdf(scores, 6, eta) * pi, stats.beta.pdf(scores, eta, 6) * (1 - pi)
    np.testing.assert_allclose(model.lpr(scores), on / (on + off), rtol=1e-10)


def test_train_and_test_share_their_model():
    train, test = simulate.train_test(1, n_train=20_000, n_test=20_000, rng=1)
    np.testing.assert_allclose(train.truth.mean(axis=0), test.truth.mean(axis=0), atol=0.015)
    assert train.truth.sum(axis=0).min() >= 60


def test_fixed_dependence():
    model = simulate.setting_model("1-fixed", rng=0)
    assert model.conditional[1:].tolist() == [0.95, 0.95]
    assert model.name == "1-fixed"


def test_the_joint_posterior_ranks_better_than_lprs():
    drawn = simulate.setting(3, n_samples=5000, rng=2)
    alone = metrics.normalized_hit_area_score(drawn.truth, drawn.lpr_true)
    joint = metrics.normalized_hit_area_score(drawn.truth, drawn.posterior_true)
    assert joint > alone + 0.02


def test_random_hierarchies_keep_their_promises():
    h = simulate.random_forest(500, n_trees=20, max_depth=4, rng=0)
    assert (h.n_labels, len(h.roots), h.depth) == (500, 20, 4)
    assert simulate.random_tree(300, rng=1).n_edges == 299
    assert simulate.random_dag(200, n_roots=3, max_parents=2, rng=0).roots == (
        "L000",
        "L001",
        "L002",
    )
    assert simulate.random_forest(5, n_trees=5, max_depth=1, rng=0).n_edges == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate.setting("9"), "no setting '9'"),
        (lambda: simulate.random_forest(3, n_trees=5), "5 trees"),
        (lambda: simulate.random_tree(3, max_depth=1), "no place"),
        (lambda: simulate.random_model(simulate.random_tree(3), quality="good"), "quality"),
        (lambda: simulate.setting(1, n_samples=10, min_positives=11), "No model"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(DataError, match=message):
        call()
