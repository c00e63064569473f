"""The joint posterior on DAGs: exact where the junction tree is small, else one parent a label."""

import numpy as np
import pytest

from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.joint import LabelPrior, fit_joint, fit_prior, posteriors
from hierlpr.joint import junction as junction_module
from hierlpr.joint.junction import junction_tree
from hierlpr.joint.posterior import forest_posteriors, is_exact, main_forest
from reference_joint import likelihood_ratio, posterior_by_enumeration


def random_dag_hierarchy(rng, n_labels, names=None):
    """Up to three parents a label; names in random order, so that columns are not topological."""
    names = [f"L{i:02}" for i in rng.permutation(n_labels)] if names is None else names
    edges = []
    for i in range(1, n_labels):
        for p in rng.choice(i, min(i, int(rng.integers(0, 4))), replace=False):
            edges.append((names[p], names[i]))
    return Hierarchy(edges, labels=sorted(names))


def parents_of(h):
    return [[h.index(p) for p in h.parents(label)] for label in h.labels]


@pytest.mark.parametrize("seed", range(40))
def test_posterior_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(3, 12))
    h = random_dag_hierarchy(rng, n_labels)
    assert is_exact(h)
    prior = LabelPrior(rng.uniform(0.05, 0.9, n_labels), rng.uniform(0.05, 0.95, n_labels))
    lpr = rng.random((2, n_labels))
    lpr[1] = rng.choice([1e-12, 0.5, 1.0 - 1e-12, np.nan], size=n_labels)
    posterior, others = posteriors(lpr, prior, h, with_others=True)
    for row in range(2):
        ratio = likelihood_ratio(lpr[row], prior.prevalence)
        exact = posterior_by_enumeration(parents_of(h), ratio, prior.conditional)
        np.testing.assert_allclose(posterior[row], exact, rtol=0, atol=1e-12)
        inside = (exact > 1e-9) & (exact < 1 - 1e-9)
        own = np.log(ratio) + prior.log_odds
        expected = np.log(exact[inside]) - np.log1p(-exact[inside]) - own[inside]
        np.testing.assert_allclose(others[row, inside], np.clip(expected, -30, 30), atol=1e-5)
    # An exact posterior keeps every edge, up to rounding.
    assert not h.violations(np.round(posterior, 12))


def test_cliques_equal_the_forest_pass_on_forests():
    rng = np.random.default_rng(1)
    names = [f"L{i}" for i in range(60)]
    h = Hierarchy([(names[int(rng.integers(0, i))], names[i]) for i in range(1, 60)], labels=names)
    prior = LabelPrior(rng.uniform(0.05, 0.9, 60), rng.uniform(0.05, 0.95, 60))
    lpr = rng.random((20, 60))
    twin = Hierarchy([*h.edges, ("L0", "extra"), ("L1", "extra")], labels=[*names, "extra"])
    wide = LabelPrior(np.append(prior.prevalence, 0.5), np.append(prior.conditional, 0.5))
    nothing = np.column_stack([lpr, np.full(20, np.nan)])
    # A label of which nothing is known adds nothing, whatever its parents.
    np.testing.assert_allclose(
        posteriors(nothing, wide, twin)[0][:, :60], posteriors(lpr, prior, h)[0], atol=1e-12
    )


def test_wide_dags_fall_back_to_one_parent(monkeypatch):
    rng = np.random.default_rng(2)
    n = 200
    h = random_dag_hierarchy(rng, n)
    assert junction_tree(h) is None
    truth = h.close_upward(rng.random((300, n)) < 0.03)
    prior = fit_prior(truth, h)
    lpr = rng.random((10, n))
    posterior, _ = posteriors(lpr, prior, h)
    assert np.array_equal(posterior, forest_posteriors(lpr, prior, h)[0])
    parent, on = main_forest(prior, h)
    for number in range(n):
        label = h.labels[h.order[number]]
        parents = h.parents(label)
        if parents:
            kept = h.labels[h.order[parent[number]]]
            rarity = {p: prior.prevalence[h.index(p)] for p in parents}
            assert rarity[kept] == min(rarity.values())
            assert on[number] <= prior.conditional[h.index(label)]
    monkeypatch.setattr(junction_module, "MAX_ENTRIES", 1)
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
    posterior, others = posteriors(lpr, prior, h, with_others=True)
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
