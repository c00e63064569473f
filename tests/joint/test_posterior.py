"""The joint posterior on forests and DAGs, the prior, and what the model does at the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from cases import hierarchy_of, random_forest
from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.exceptions import DataError
from hierlpr.joint import JointModel, LabelPrior, Tempering, fit_joint, fit_prior, posteriors
from hierlpr.joint import posterior as posterior_module
from hierlpr.joint.posterior import forest_posteriors, is_exact, junction_tree, main_forest
from reference_joint import likelihood_ratio, posterior_by_enumeration


def parents_of(h):
    return [[h.index(p) for p in h.parents(label)] for label in h.labels]


def random_prior(rng, h):
    """Conditional probabilities with the prevalences that they imply on a forest."""
    conditional = rng.uniform(0.02, 0.98, h.n_labels)
    prevalence = conditional.copy()
    for number in h.order:
        for p in h.parents(h.labels[number]):
            prevalence[number] = conditional[number] * prevalence[h.index(p)]
    return LabelPrior(prevalence, conditional)


def both(lpr, prior, h, n_jobs=None):
    """Posteriors, and the evidence of the other labels."""
    return [posteriors(lpr, prior, h, of_others=x, n_jobs=n_jobs) for x in (False, True)]


def check_by_enumeration(lpr, prior, h):
    """Compare posteriors, and what other labels say, with sums over all label sets."""
    posterior, others = both(lpr, prior, h)
    for row in range(len(lpr)):
        ratio = likelihood_ratio(lpr[row], prior.prevalence)
        exact = posterior_by_enumeration(parents_of(h), ratio, prior.conditional)
        np.testing.assert_allclose(posterior[row], exact, rtol=0, atol=1e-12)
        own = np.log(ratio) + prior.log_odds
        inside = (exact > 1e-9) & (exact < 1 - 1e-9)
        expected = np.log(exact[inside]) - np.log1p(-exact[inside]) - own[inside]
        np.testing.assert_allclose(others[row, inside], np.clip(expected, -30, 30), atol=1e-5)
    return posterior


def random_dag_hierarchy(rng, n_labels):
    """Up to three parents a label; names in random order, so that columns are not topological."""
    names = [f"L{i:02}" for i in rng.permutation(n_labels)]
    parents = [rng.choice(i, min(i, int(rng.integers(0, 4))), False) for i in range(1, n_labels)]
    edges = [(names[p], names[i]) for i, above in enumerate(parents, 1) for p in above]
    return Hierarchy(edges, labels=sorted(names))


@pytest.mark.parametrize("seed", range(60))
def test_posterior_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(1, 13))
    if seed % 2:
        h = hierarchy_of(random_forest(rng, n_labels))
        prior = random_prior(rng, h)
    else:
        h = random_dag_hierarchy(rng, n_labels)
        prior = LabelPrior(rng.uniform(0.05, 0.9, n_labels), rng.uniform(0.05, 0.95, n_labels))
    assert is_exact(h)
    lpr = rng.random((2, n_labels))
    lpr[1] = rng.choice([1e-12, 1e-6, 0.5, 1.0 - 1e-6, 1.0 - 1e-12, np.nan], size=n_labels)
    posterior = check_by_enumeration(lpr, prior, h)
    assert not h.violations(np.round(posterior, 12))  # up to rounding on DAGs


@pytest.mark.parametrize("edges", [[("A", "B")], [("A", "C"), ("B", "C")]], ids=["forest", "DAG"])
def test_labels_that_stand_alone_hear_exactly_nothing(edges):
    h = Hierarchy(edges, labels=["A", "B", "C", "alone"])
    rng = np.random.default_rng(0)
    prior, lpr = random_prior(rng, h), rng.random((500, 4))
    others = posteriors(lpr, prior, h, of_others=True)
    assert np.all(others[:, 3] == 0.0)  # not +-1e-16: evidence is gathered by its sign
    assert np.all(others[:, 0] != 0.0)
    lpr[:, :3] = np.nan
    assert np.all(posteriors(lpr, prior, h, of_others=True)[:, [0, 1, 3]] == 0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_no_child_above_its_parent(seed, n_labels):
    rng = np.random.default_rng(seed)
    h = hierarchy_of(random_forest(rng, n_labels))
    lpr = rng.choice([0.0, 1e-12, 0.25, 0.5, 1 - 1e-12, 1.0, np.nan], size=(5, n_labels))
    posterior, others = both(lpr, random_prior(rng, h), h)
    assert posterior.min() >= 0.0
    assert posterior.max() <= 1.0
    assert np.isfinite(others).all()
    assert not h.violations(posterior)


@pytest.mark.parametrize("lpr", [1e-12, 0.5, 1.0 - 1e-12])
def test_chain_of_100_000_labels(lpr):
    n = 100_000
    h = Hierarchy([(str(i), str(i + 1)) for i in range(n - 1)])
    prior = LabelPrior(np.full(n, 0.3), np.full(n, 0.9999))
    values = np.full((2, n), lpr)
    values[1, ::2] = 1.0 - lpr  # evidence that contradicts itself all along
    posterior, others = both(values, prior, h)
    assert np.isfinite(posterior).all()
    assert np.isfinite(others).all()
    assert not h.violations(posterior)
    if lpr < 0.5:
        assert posterior[0].max() < 1e-10
    if lpr > 0.5:
        # As all labels of the chain are sure of themselves, so is the posterior.
        np.testing.assert_allclose(posterior[0], 1.0, atol=1e-9)


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    h = hierarchy_of(random_forest(rng, 40))
    prior = random_prior(rng, h)
    lpr = rng.random((101, 40))
    one = both(lpr, prior, h, n_jobs=1)
    for n_jobs in (2, 7):
        many = both(lpr, prior, h, n_jobs=n_jobs)
        assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))


# -- the prior ------------------------------------------------------------------------------------


def test_prior_of_plenty_of_samples_is_the_models():
    model = simulate.setting_model("tree25", rng=1)
    drawn = model.draw(200_000, rng=2)
    prior = fit_prior(drawn.truth, model.hierarchy)
    np.testing.assert_allclose(prior.prevalence, model.prevalence, atol=0.01)
    common = model.prevalence > 0.02
    np.testing.assert_allclose(prior.conditional[common], model.conditional[common], atol=0.02)


def test_prior_of_rare_labels_is_shrunk_and_never_certain():
    h = Hierarchy([("A", "B"), ("A", "C"), ("B", "D")], labels=["E"])
    truth = np.zeros((10, 5), dtype=bool)
    truth[:4, h.index("A")] = truth[:4, h.index("B")] = True
    prior = fit_prior(truth, h)
    assert np.all((prior.conditional > 0.0) & (prior.conditional < 1.0))
    assert prior.conditional[h.index("D")] < 0.5 < prior.conditional[h.index("B")]
    assert prior.prevalence[h.index("E")] == pytest.approx(0.5 / 11)


def test_prior_on_a_dag_counts_samples_with_all_parents():
    h = Hierarchy([("A", "C"), ("B", "C")])
    assert h.labels == ("A", "C", "B")
    truth = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [1, 0, 0]] * 500, dtype=bool)
    assert fit_prior(truth, h).conditional[1] == pytest.approx(0.5, abs=0.01)


def test_prior_refuses_truth_that_is_not_closed():
    with pytest.raises(DataError, match="without their parents"):
        fit_prior(np.array([[False, True]]), Hierarchy([("A", "B")]))
    with pytest.raises(DataError, match="no sample"):
        fit_prior(np.zeros((0, 2), dtype=bool), Hierarchy([("A", "B")]))


def test_prior_of_changed_hierarchies():
    old = Hierarchy([("A", "B"), ("B", "C")])
    new = old.subset(["A", "C"])
    prior = LabelPrior(np.array([0.5, 0.1]), np.array([0.5, 0.4]))
    assert prior.on(new, old).conditional.tolist() == pytest.approx([0.5, 0.2])
    assert prior.on(Hierarchy([("A", "C")]), Hierarchy([("A", "C")])).conditional[1] == 0.4


# -- the model: missing and sparse scores ---------------------------------------------------------


def test_missing_scores_are_the_marginal_posterior():
    h = Hierarchy([("A", "B"), ("B", "C")])
    truth = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]] * 50, dtype=bool)
    model = fit_joint(None, truth, h, use="exact")
    nothing = model.transform(np.full((1, 3), np.nan))
    np.testing.assert_allclose(nothing[0], np.cumprod(model.prior.conditional))
    leaf = model.transform([[np.nan, np.nan, 0.99]])
    assert np.all(leaf[0] > 0.98)
    plain = JointModel(h, model.prior, Tempering.fixed("none", 3))
    np.testing.assert_array_equal(
        plain.transform([[np.nan, 0.3, np.nan]])[0],
        [model.prior.prevalence[0], 0.3, model.prior.prevalence[2]],
    )


def test_sparse_equals_dense_on_the_closure():
    rng = np.random.default_rng(5)
    h = hierarchy_of(random_forest(rng, 15))
    truth = h.close_upward(rng.random((200, 15)) < 0.1)
    model = fit_joint(None, truth, h, use="exact")
    lpr = np.where(rng.random((30, 15)) < 0.3, rng.uniform(0.1, 1, (30, 15)), 0.0)
    absent = rng.uniform(0.0, 0.05, 15)
    out = model.transform(sparse.csr_array(lpr), absent=absent)
    dense = model.transform(np.where(lpr > 0, lpr, absent))
    closed = h.close_upward(lpr > 0)
    np.testing.assert_array_equal(out.toarray(), np.where(closed, dense, 0.0))
    assert out.nnz == closed.sum()
    with pytest.raises(DataError, match="one LPR per label"):
        model.transform(sparse.csr_array(lpr), absent=np.zeros(3))


def test_model_refuses_what_does_not_fit():
    h = Hierarchy([("A", "B")])
    truth = np.array([[1, 1], [1, 0], [0, 0]], dtype=bool)
    model = fit_joint(None, truth, h, use="exact")
    with pytest.raises(DataError, match="outside"):
        model.transform([[0.5, 1.5]])
    with pytest.raises(DataError, match="columns"):
        model.transform([[0.5]])
    with pytest.raises(DataError, match="different numbers"):
        JointModel(h, model.prior, Tempering.fixed("none", 3))
    with pytest.raises(DataError, match="strictly between"):
        LabelPrior(np.array([0.5]), np.array([1.0]))


def test_wide_dags_fall_back_to_one_parent(monkeypatch):
    rng = np.random.default_rng(2)
    n = 200
    h = random_dag_hierarchy(rng, n)
    assert junction_tree(h) is None
    truth = h.close_upward(rng.random((300, n)) < 0.03)
    prior = fit_prior(truth, h)
    lpr = rng.random((10, n))
    posterior = posteriors(lpr, prior, h)
    assert np.array_equal(posterior, forest_posteriors(lpr, prior, h))
    parent, on = main_forest(prior, h)
    for number in range(n):
        label = h.labels[h.order[number]]
        parents = h.parents(label)
        if parents:
            kept = h.labels[h.order[parent[number]]]
            rarity = {p: prior.prevalence[h.index(p)] for p in parents}
            assert rarity[kept] == min(rarity.values())
            assert on[number] <= prior.conditional[h.index(label)]
    monkeypatch.setattr(posterior_module, "MAX_ENTRIES", 1)
    small = Hierarchy([("A", "C"), ("B", "C"), ("C", "D")], labels=["D", "A", "B", "C"])
    junction_tree.cache_clear()
    assert not is_exact(small)
    junction_tree.cache_clear()


def test_contradictions_beyond_floats_fall_back():
    n = 400
    names = [str(i) for i in range(n)]
    edges = [(names[i], names[i + 1]) for i in range(n - 2)] + [("0", names[-1]), ("1", names[-1])]
    h = Hierarchy(edges, labels=names)
    assert is_exact(h)
    prior = LabelPrior(np.full(n, 0.5), np.full(n, 1.0 - 1e-9))
    lpr = np.where(np.arange(n) % 2, 1e-15, 1.0 - 1e-15)[np.newaxis]
    posterior, others = both(lpr, prior, h)
    assert np.isfinite(posterior).all()
    assert np.isfinite(others).all()


@pytest.mark.parametrize("n_labels", [12, 200])
def test_pipeline_on_dags(n_labels):
    rng = np.random.default_rng(4)
    h = random_dag_hierarchy(rng, n_labels)
    model = simulate.random_model(h, conditional=0.6, quality="mixed", rng=rng)
    train, test = model.draw(800, rng), model.draw(200, rng)
    area = {}
    for joint in (False, True, "auto"):
        fitted = HierLPR(h, joint=joint).fit(train.scores, train.truth)
        assert not h.violations(fitted.predict_proba(test.scores))
        area[joint] = fitted.score(test.scores, test.truth)
    assert area["auto"] > area[False]
    assert area[True] > area[False]
    assert fit_joint(None, train.truth, h, use="exact").is_exact == is_exact(h)
