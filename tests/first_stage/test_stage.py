"""The default first stage inside HierarchicalClassifier, and scikit-learn's own checks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from cases import FEATURE_TREE as TREE
from cases import features
from hierlpr import HierarchicalClassifier, HierlprError
from hierlpr.exceptions import DataError
from hierlpr.first_stage import FirstStage, networks

CHEAP = FirstStage(members=["forest", "kernel"], n_trees=25)


@pytest.fixture
def small_networks(monkeypatch):
    """The default as it is, with networks that train in an instant."""
    small = {"hidden": (16,), "epochs": 10, "learning_rate": 0.01}
    monkeypatch.setattr(networks, "PLANS", [replace(plan, **small) for plan in networks.PLANS])


def test_nothing_to_choose(small_networks, capsys):
    x, truth = features(400, 0)
    x_new, truth_new = features(300, 1)
    model = HierarchicalClassifier(hierarchy=TREE, precision=0.7, verbose=True).fit(x, truth)
    assert "100%" in capsys.readouterr().err
    clone(model).set_params(verbose=False).fit(x, truth)
    assert not any(capsys.readouterr())
    assert len(TREE.violations(model.predict(x_new))) == 0
    assert model.score(x_new, truth_new) > 0.7
    assert model.held_out_.size == 133
    text = model.estimators_[0].describe()
    for member in ("forest", "kernel", "networks", "together"):
        assert member in text
    again = clone(model).fit(x, truth)
    np.testing.assert_array_equal(again.predict_proba(x_new), model.predict_proba(x_new))
    other = clone(model).set_params(random_state=np.random.default_rng(3)).fit(x, truth)
    assert not np.array_equal(other.predict_proba(x_new), model.predict_proba(x_new))


def test_sparse_text(small_networks):
    rng = np.random.default_rng(0)
    truth = TREE.close_upward(rng.random((150, 5)) < 0.3)
    others = rng.random((150, 40)) * (rng.random((150, 40)) < 0.1)
    words = sparse.csr_array(np.hstack([truth.astype(float), others]))
    model = HierarchicalClassifier(hierarchy=TREE).fit(words, truth)
    assert (model.predict(words) == truth).mean() > 0.9


@pytest.mark.parametrize("n_samples", [10, 30])
def test_few_samples_and_odd_labels(small_networks, n_samples):
    x, truth = features(n_samples, 2)
    truth[:, 2] = truth[:, 3] = False  # never
    truth[:, 4] = False
    truth[0, 4] = True  # once
    model = HierarchicalClassifier(hierarchy=TREE).fit(x, truth)
    proba = model.predict_proba(x)
    assert np.isfinite(proba).all()
    assert len(TREE.violations(proba)) == 0
    one = HierarchicalClassifier().fit(x, truth[:, :1])
    assert one.predict(x).shape == (n_samples, 1)


@pytest.mark.filterwarnings("ignore:No sample has a label")
@pytest.mark.parametrize("held", [True, False])
def test_labels_that_never_differ(small_networks, held):
    x, truth = features(30, 0)
    model = HierarchicalClassifier(hierarchy=TREE).fit(x, np.full_like(truth, held))
    np.testing.assert_allclose(model.scores(x), 30.5 / 31 if held else 0.5 / 31)
    np.testing.assert_allclose(model.predict_proba(x), float(held), atol=0.02)
    assert "no label varies" in model.estimators_[0].describe()
    alone = FirstStage(members=["networks"]).fit(x, np.full_like(truth, held))
    assert alone.weights_ == {"networks": 1.0}


def test_a_stage_of_ones_own():
    x, truth = features(150, 0)
    model = HierarchicalClassifier(CHEAP, TREE).fit(x, truth)
    assert not hasattr(CHEAP, "encoder_")  # the user's own stays as it was
    np.testing.assert_array_equal(model.oof_scores_, model.estimators_[0].oof_proba_)
    assert model.score(*features(100, 1)) > 0.6


def test_bad_input():
    x, truth = features(40, 0)
    with pytest.raises(HierlprError, match="must be 'auto'"):
        HierarchicalClassifier("logistic", TREE).fit(x, truth)
    with pytest.raises(DataError, match="infinite"):
        HierarchicalClassifier(CHEAP, TREE).fit(np.where(x > 2, np.inf, x), truth)
    with pytest.raises(DataError, match="Complex"):
        HierarchicalClassifier(CHEAP, TREE).fit(x + 1j, truth)
    for none, kind in ((None, "NoneType"), (5, "int"), ("text", "str"), (iter(x), "iterator")):
        with pytest.raises(DataError, match=f"X must have one row per sample, got a .*{kind}"):
            HierarchicalClassifier(CHEAP, TREE).fit(none, truth)
    with pytest.raises(DataError, match="collect it first"):
        HierarchicalClassifier(CHEAP, TREE).fit(pl.LazyFrame(x), truth)
    with pytest.raises(DataError, match="X has repeated columns"):
        HierarchicalClassifier(CHEAP, TREE).fit(pd.DataFrame(x, columns=list("aabcde")), truth)
    with pytest.raises(DataError, match="fewer than 2"):
        HierarchicalClassifier(CHEAP, TREE).fit(x[:0], truth[:0])
    with pytest.raises(DataError, match="numbers or categories"):
        HierarchicalClassifier(CHEAP, TREE).fit(x.astype("datetime64[s]"), truth)
    for scale in (1e300, 1e-300):  # no warning, no NaN
        proba = HierarchicalClassifier(CHEAP, TREE).fit(x * scale, truth).predict_proba(x * scale)
        assert np.isfinite(proba).all()
    model = HierarchicalClassifier(CHEAP, TREE).fit(x, truth)
    assert model.predict(x[:0]).shape == (0, 5)
    with pytest.raises(DataError, match="X has 2 features, but FirstStage is expecting 6"):
        model.predict(x[:, :2])


# -- scikit-learn's own checks -----------------------------------------------------------------


def _two_labels(y):
    """One target, as the checks give it, as a label and its opposite."""
    if y is None:
        return None
    target = np.asarray(y).reshape(len(y), -1)[:, 0]
    held = target == target[0]
    return np.column_stack([held, ~held])


class TwoLabels:
    def fit(self, X, y=None):
        return super().fit(X, _two_labels(y))


class CheckedStage(TwoLabels, FirstStage):
    def __init__(self, *, members=("forest", "kernel"), n_trees=10, n_networks=2, random_state=0):
        super().__init__(
            members=members, n_trees=n_trees, n_networks=n_networks, random_state=random_state
        )


class CheckedClassifier(TwoLabels, HierarchicalClassifier):
    def __init__(self, estimator="auto", *, joint=False, random_state=0):
        super().__init__(estimator, joint=joint, random_state=random_state)

    def _check_params(self):
        super()._check_params()
        return FirstStage(members=["kernel"])

    def score(self, X, y=None):
        return super().score(X, _two_labels(y))


COLUMNS = (
    "the check expects one column from predict and one per class from predict_proba, not per label"
)
SPARSE = {"check_estimator_sparse_array": COLUMNS, "check_estimator_sparse_matrix": COLUMNS}


@parametrize_with_checks(
    [CheckedStage(), CheckedStage(members=("networks",)), CheckedClassifier()],
    expected_failed_checks=lambda estimator: SPARSE,
)
def test_scikit_learn_estimator_checks(estimator, check, small_networks):
    check(estimator)
