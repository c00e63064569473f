"""Frames in, frames out; scikit-learn's own doors: set_output, routing, cross_val_predict."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict

from hierlpr import HierarchicalClassifier, Hierarchy, HierLPR

TREE = Hierarchy([("root", "left"), ("root", "right"), ("left", "deep")])
METHODS = ("transform", "predict_proba", "predict")


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    truth = TREE.close_upward(rng.random((90, 4)) < [0.3, 0.2, 0.2, 0.3])
    scores = truth + rng.normal(size=truth.shape)
    return HierLPR(TREE, joint=False).fit(scores, truth), scores, truth


def test_pandas_keeps_its_index_whatever_it_is(case):
    model, scores, _ = case
    names = TREE.labels[::-1]
    index = pd.MultiIndex.from_product([["a", "b", "c"], range(30)], names=["site", "number"])
    for given in (index, pd.RangeIndex(5, 95), [f"p{i}" for i in range(90)], None):
        frame = pd.DataFrame(scores[:, ::-1], columns=names, index=given)
        for method in METHODS:
            out = getattr(model, method)(frame)
            assert isinstance(out, pd.DataFrame)
            assert out.index.equals(frame.index)
            assert tuple(out.columns) == TREE.labels
            np.testing.assert_array_equal(out.to_numpy(), getattr(model, method)(scores))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, pl.LazyFrame])
def test_a_column_of_samples_comes_back_first(case, kind):
    model, scores, truth = case
    names = [f"p{i}" for i in range(len(scores))]
    columns = {label: scores[:, TREE.index(label)] for label in ("deep", "left", "right", "root")}
    for with_samples in (True, False):
        given = kind({**columns, **({"sample": names} if with_samples else {})})
        out = model.predict(given)
        assert isinstance(out, {pa.table: pa.Table, pl.LazyFrame: pl.DataFrame}.get(kind, kind))
        frame = out.to_pandas() if hasattr(out, "to_pandas") else out
        assert list(frame.columns) == [*(["sample"] * with_samples), *TREE.labels]
        if with_samples:
            assert list(frame["sample"]) == names
        found = frame[list(TREE.labels)].to_numpy()
        assert found.dtype == bool
        np.testing.assert_array_equal(found, model.predict(scores))
        fitted = HierLPR(TREE, joint=False).fit(given, truth)
        np.testing.assert_array_equal(fitted.predict(scores), found)


def test_arrays_lists_and_sparse_stay_what_they_are(case):
    model, scores, truth = case
    assert isinstance(model.predict(scores.tolist()), np.ndarray)
    listed = HierLPR(TREE, joint=False).fit(sparse.csr_array(scores), truth)
    for method in METHODS:
        assert isinstance(getattr(model, method)(scores), np.ndarray)
        assert sparse.issparse(getattr(listed, method)(sparse.csr_array(scores)))


def test_set_output_has_the_last_word(case):
    _, scores, truth = case
    frame = pd.DataFrame(scores, columns=TREE.labels, index=[f"p{i}" for i in range(90)])
    for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        model = HierLPR(TREE, joint=False).set_output(transform=library).fit(scores, truth)
        for given in (scores, frame):
            out = model.transform(given)
            assert isinstance(out, kind)
            assert tuple(out.columns) == TREE.labels
        assert model.get_feature_names_out().tolist() == list(TREE.labels)
    pandas = HierLPR(TREE, joint=False).set_output(transform="pandas").fit(frame, truth)
    assert pandas.transform(frame).index.equals(frame.index)
    with sklearn.config_context(transform_output="polars"):
        assert isinstance(pandas.set_output(transform="polars").transform(frame), pl.DataFrame)


def test_cross_val_predict_knows_the_classes(case):
    model, scores, truth = case
    assert model.classes_.tolist() == list(TREE.labels)
    for method in METHODS[1:]:
        out = cross_val_predict(HierLPR(TREE, joint=False), scores, truth, cv=3, method=method)
        assert out.shape == truth.shape
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, cv=2, joint=False)
    proba = cross_val_predict(classifier, scores, truth, cv=2, method="predict_proba")
    assert not TREE.violations(proba)


def test_only_weights_and_clusters_are_metadata(case):
    _, scores, truth = case
    for model in (HierLPR(), HierarchicalClassifier(LogisticRegression())):
        for method in ("fit", "score"):
            requests = set(getattr(model.get_metadata_routing(), method).requests)
            assert requests - {"clusters"} == {"sample_weight"}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(HierLPR(TREE, joint=False), {"lpr": ["isotonic", "auto"]}, cv=3)
        assert search.fit(scores, truth).best_score_ > 0.5


def test_the_classifier_gives_frames_for_frames(case):
    _, scores, truth = case
    frame = pd.DataFrame(scores, columns=list("wxyz"), index=[f"p{i}" for i in range(90)])
    one = HierarchicalClassifier(LogisticRegression(), TREE, cv=2, joint=False).fit(frame, truth)
    assert one.classes_.tolist() == list(TREE.labels)
    for method in ("predict", "predict_proba"):
        out = getattr(one, method)(frame)
        assert tuple(out.columns) == TREE.labels
        assert out.index.equals(frame.index)
    assert isinstance(one.explain(frame, "p3").why("deep"), str)
    assert one.rank(frame).samples == tuple(frame.index)
    assert one.model_.set_cutoff(0.7).cutoff_.level == 0.7
    plain = HierarchicalClassifier(LogisticRegression(), TREE, cv=2, joint=False).fit(scores, truth)
    assert isinstance(plain.predict(scores), np.ndarray)
