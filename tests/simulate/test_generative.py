import numpy as np
import pytest
from scipy import stats

from hierlpr import simulate
from hierlpr.exceptions import DataError
from hierlpr.joint import joint_posterior


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


def test_lpr_is_bayes_rule_on_the_beta_densities():
    model = simulate.setting_model(4, rng=0)
    scores = np.array([[0.2, 0.5, 0.9]])
    eta, pi = model.eta, model.prevalence
    on, off = stats.beta.pdf(scores, 6, eta) * pi, stats.beta.pdf(scores, eta, 6) * (1 - pi)
    np.testing.assert_allclose(model.lpr(scores), on / (on + off), rtol=1e-10)


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
        (lambda: simulate.setting_model("9"), "no setting '9'"),
        (lambda: simulate.random_forest(3, n_trees=5), "5 trees"),
        (lambda: simulate.random_tree(3, max_depth=1), "too small"),
        (lambda: simulate.random_model(simulate.random_tree(3), quality="good"), "quality"),
        (lambda: simulate.train_test("tree25", n_train=1), "No model"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(DataError, match=message):
        call()
