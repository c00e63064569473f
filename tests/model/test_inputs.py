"""Hierarchies and truth as people hold them: files, dicts, graphs, lists, sets, paths, frames."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from hierlpr import (
    HierarchicalClassifier,
    Hierarchy,
    HierLPR,
    HierlprWarning,
    consistent_scores,
    discover,
    load_model,
    rank,
    simulate,
)
from hierlpr._utils.checks import nearest
from hierlpr.cutoff import choose
from hierlpr.data import frames
from hierlpr.exceptions import DataError, HierarchyError, UnreachableWarning
from hierlpr.io import as_hierarchy

# The root sorts last, and so do the columns of MultiLabelBinarizer.
EDGES = [("root", "left"), ("root", "right"), ("left", "deep")]
TREE = Hierarchy(EDGES)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    truth = TREE.close_upward(rng.random((120, 4)) < [0.3, 0.2, 0.2, 0.3])
    scores = truth + rng.normal(size=truth.shape)
    lists = [[TREE.labels[k] for k in np.flatnonzero(row)] for row in truth]
    return scores, truth, lists


# -- hierarchies ---------------------------------------------------------------------------------


def forms(tmp_path):
    import networkx as nx

    (tmp_path / "tree.csv").write_text("parent,child\n" + "\n".join(map(",".join, EDGES)) + "\n")
    frame = {"parent": [p for p, _ in EDGES], "child": [c for _, c in EDGES], "note": [1, 2, 3]}
    return {
        "hierarchy": TREE,
        "text path": str(tmp_path / "tree.csv"),
        "path": tmp_path / "tree.csv",
        "dict": {"root": None, "left": "root", "right": ["root"], "deep": "left"},
        "edges": EDGES,
        "lists of edges": [list(edge) for edge in EDGES],
        "any iterable": iter(EDGES),
        "graph": nx.DiGraph(EDGES),
        "pandas": pd.DataFrame(frame),
        "polars": pl.DataFrame(frame),
        "arrow": pa.table(frame),
    }


def test_a_hierarchy_in_any_form(tmp_path):
    for form, given in forms(tmp_path).items():
        assert set(as_hierarchy(given).edges) == set(EDGES), form
    assert as_hierarchy(["A/B", "A/C"]).edges == (("A", "A/B"), ("A", "A/C"))


def test_models_and_functions_take_any_form(tmp_path, case):
    scores, truth, _ = case
    lpr = 1.0 / (1.0 + np.exp(-scores))
    for form in ("edges", "path", "dict"):
        given = forms(tmp_path)[form]
        h = as_hierarchy(given)
        columns = [TREE.index(label) for label in h.labels]
        model = HierLPR(given, joint=False).fit(scores[:, columns], truth[:, columns])
        assert model.hierarchy is given  # as scikit-learn wants parameters
        assert model.hierarchy_ == h
        assert rank(lpr[:, columns], given).labels == h.labels
        assert consistent_scores(lpr[:, columns], given).shape == lpr.shape
        assert discover({"deep": 0.001}, given).hierarchy == h
        model.save(tmp_path / "model.hlpr")


@pytest.mark.parametrize(
    "given", [7, [("a", "b", "c")], ["a", ("a", "b")], pd.DataFrame({"x": [1]})]
)
def test_what_is_no_hierarchy_is_refused_with_the_forms(given):
    with pytest.raises(HierarchyError, match=r"Hierarchy, a path to a file, a dict"):
        as_hierarchy(given)
    with pytest.raises(HierarchyError, match="must be strings, got 3"):
        as_hierarchy({"a": 3, "b": "a"})


# -- truth ---------------------------------------------------------------------------------------


def test_unknown_labels_are_named_with_the_nearest(case):
    scores, _, lists = case
    wrong = [[*lists[0], "lefft"], *lists[1:]]
    with pytest.raises(DataError, match=r"1 label\(s\).*'lefft'; the first in sample 0") as error:
        HierLPR(TREE).fit(scores, wrong)
    assert "did you mean 'left'?" in str(error.value)
    assert nearest("mouse", ["house", "animal/mouse"]) == "did you mean 'animal/mouse'?"
    with pytest.raises(DataError, match="Or is the hierarchy reversed"):
        HierLPR({"root": "left", "x": "root"}).fit([[0.1, 0.2, 0.3]], [["root"]])
    with pytest.raises(DataError, match="read files with"):
        HierLPR(TREE).fit("s.csv", "t.csv")
    seven = (["root", 7], r"sample 1 .* label 7 \(int\), but labels are strings")
    for bad, text in ((None, "sample 1 has None"), (3.5, "sample 1 has 3.5"), seven):
        with pytest.raises(DataError, match=text):
            HierLPR(TREE).fit(scores, [lists[0] or ["root"], bad, *lists[2:]])


def test_closing_a_frame_goes_by_name(case):
    _, truth, _ = case
    leaves, names = truth & (TREE.levels > 1), TREE.labels[::-1]
    for kind in (pd.DataFrame, pl.DataFrame):
        frame = kind({k: leaves[:, TREE.index(k)] for k in names} | {"note": ["x"] * len(truth)})
        closed, expected = TREE.close_upward(frame), TREE.close_upward(leaves)
        assert isinstance(closed, kind)
        np.testing.assert_array_equal(closed[list(TREE.labels)].to_numpy(), expected)
        assert list(closed.columns) == [*names, "note"]
        assert TREE.violations(frame) == TREE.violations(leaves) != []
    numbers = pd.DataFrame([[1, 0]], columns=[2, 1])
    assert Hierarchy([("1", "2")]).close_upward(numbers).to_numpy().all()
    with pytest.raises(DataError, match=r"1 label\(s\) have no column: 'deep'"):
        TREE.close_upward(pd.DataFrame(truth[:, :3], columns=TREE.labels[:3]))
    with pytest.raises(DataError, match="propagate_truth=True"):
        TREE.close_upward([["left"], ["deep"]])


@pytest.mark.parametrize("named", [True, False], ids=["names", "numbers"])
@pytest.mark.parametrize("moved", ["scores", "truth"])
def test_rows_are_matched_by_index(case, named, moved):
    """A default index is an index: a classifier and series of lists used to go by position."""
    scores, truth, lists = case
    index = [f"p{i}" for i in range(len(truth))] if named else range(len(truth))
    order = np.random.default_rng(1).permutation(len(truth))
    in_order = pd.DataFrame(scores, columns=TREE.labels, index=index)
    rows = order if moved == "scores" else np.arange(len(truth))
    frame, scores, truth = in_order.iloc[rows], scores[rows], truth[rows]
    forms = [pd.DataFrame(case[1], columns=TREE.labels, index=index), pd.Series(lists, index=index)]
    plain = HierLPR(TREE, joint=False).fit(scores, truth)
    options = {"precision": 0.7}
    level = plain.calibrate(scores + 1e-3, truth, **options).cutoff_.level
    sure = plain.calibrate_sets(scores + 1e-3, truth, error=0.3).sets_.sure_level
    classifier = HierarchicalClassifier(LogisticRegression(), TREE, joint=False).fit(scores, truth)
    for form in forms:
        given = form.iloc[order] if moved == "truth" else form
        fitted = HierLPR(TREE, joint=False).fit(frame, given)
        np.testing.assert_allclose(fitted.predict_proba(scores), plain.predict_proba(scores))
        assert plain.score(frame, given) == plain.score(scores, truth)
        assert plain.calibrate(frame + 1e-3, given, **options).cutoff_.level == level
        assert plain.calibrate_sets(frame + 1e-3, given, error=0.3).sets_.sure_level == sure
        features = frame.set_axis(range(4), axis=1)
        own = clone(classifier).fit(features, given)
        np.testing.assert_allclose(own.oof_scores_, classifier.oof_scores_)
        assert classifier.score(features, given) == classifier.score(scores, truth)


def test_different_indexes_warn_or_are_refused(case):
    scores, truth, _ = case
    frame = pd.DataFrame(scores, columns=TREE.labels)
    known = pd.DataFrame(truth, columns=TREE.labels)
    # Parts of one frame that do not overlap are not taken for each other.
    with pytest.raises(DataError, match="do not name the same samples"):
        HierLPR(TREE).fit(frame[20:60], known[60:100])
    known.index += 5
    models = HierLPR(TREE, joint=False), HierarchicalClassifier(LogisticRegression(), TREE)
    for model in models:
        with pytest.warns(HierlprWarning, match="matched by position. Give both the same index"):
            model.fit(frame, known)
    shuffled = {f"p{i}": set(case[2][i]) for i in reversed(range(len(truth)))}
    frame.index = [f"p{i}" for i in range(len(truth))]
    model = HierLPR(TREE, joint=False).fit(frame, shuffled)
    assert model.score(scores, truth) == models[0].score(scores, truth)


def test_the_classifier_takes_lists_and_any_hierarchy(case):
    scores, truth, lists = case
    options = {"cv": 3, "joint": False}
    expected = HierarchicalClassifier(LogisticRegression(), TREE, **options).fit(scores, truth)
    for given in (EDGES, {"root": None, "left": "root", "right": "root", "deep": "left"}):
        one = HierarchicalClassifier(LogisticRegression(), given, **options).fit(scores, lists)
        np.testing.assert_allclose(one.predict_proba(scores), expected.predict_proba(scores))
    alone = HierarchicalClassifier(LogisticRegression(), **options).fit(scores, lists)
    assert alone.hierarchy_.labels == alone.rank(scores).labels == tuple(sorted(TREE.labels))
    deepest = [row[-1:] for row in lists]
    closing = HierarchicalClassifier(LogisticRegression(), EDGES, propagate_truth=True, **options)
    with pytest.warns(HierlprWarning, match="missing ancestors"):
        closing.fit(scores, deepest)


# -- cutoffs -------------------------------------------------------------------------------------


def test_a_cutoff_set_by_hand(case, tmp_path):
    scores, truth, _ = case
    model = HierLPR(TREE, joint=False).fit(scores, truth).set_cutoff(0.7)
    np.testing.assert_array_equal(model.predict(scores), model.predict_proba(scores) >= 0.7)
    assert "set by hand" in str(model.cutoff_)
    assert "0.7" in str(model.cutoff_)
    for level in (0, 1):
        model.set_cutoff(level)
    for level in (-0.1, 1.1, "x", None, np.nan, True):
        with pytest.raises(DataError, match="level"):
            model.set_cutoff(level)


# -- truth of other samples ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::hierlpr.HierlprWarning")
def test_a_certificate_never_takes_the_share_of_implied_negatives_from_its_own_truth(
    case, monkeypatch
):
    """It would let the truth decide which instances count."""
    scores, truth, _ = case
    partial = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, np.nan, truth)
    model = HierLPR(TREE, joint=False, propagate_truth=True).fit(scores, partial)
    profile, unknown = model.profile_, {}
    for share in (0.0, 1.0):  # of other samples: only the certificate may use it
        for confidence in (0.5, None):
            model.profile_ = replace(profile, implied_share=share)
            model.calibrate(scores + 0.1, partial, precision=0.7, confidence=confidence)
            unknown[share, confidence] = model.cutoff_.result.n_unknown
    assert unknown[0.0, 0.5] > unknown[1.0, 0.5]
    assert unknown[0.0, None] == unknown[1.0, None]
    rows = []

    def share_of(part, *others):
        rows.append(part.shape[0])
        return 0.0

    monkeypatch.setattr(choose, "implied_share", share_of)
    model.calibrate(scores + 0.1, partial, precision=0.7, confidence=0.5, groups="depth")
    assert rows == [40]  # the third that is split off
    assert model.cutoff_.result.n_samples == 80


def test_an_adapted_model_expects_the_new_prevalence_where_scores_are_missing():
    train, pool = simulate.train_test(1, n_train=6000, n_test=6000, rng=0)
    model = HierLPR(train.hierarchy, joint=False, missing_scores="allow")
    model.fit(train.scores, train.truth)
    label = int(np.argmin(train.truth.mean(axis=0)))
    has_label = pool.truth[:, label]
    drawn = np.concatenate([np.flatnonzero(has_label)] * 3 + [np.flatnonzero(~has_label)])
    adapted = model.adapt(pool.scores[drawn])
    nothing = np.full((1, len(model.classes_)), np.nan)
    before, after = (x.transform(nothing)[0, label] for x in (model, adapted))
    assert before == pytest.approx(train.truth[:, label].mean(), rel=0.05)
    assert after == pytest.approx(pool.truth[drawn, label].mean(), rel=0.3)
    assert after > 1.5 * before


def test_warnings_are_about_the_line_of_the_user(case):
    scores, truth, _ = case
    models = HierLPR(TREE, joint=False), HierarchicalClassifier(LogisticRegression(), TREE, cv=2)
    for model in models:
        model.fit(scores, truth)
        with pytest.warns(HierlprWarning, match="not calibrated") as caught:
            model.predict(scores)
        assert {x.filename for x in caught} == {__file__}
    with pytest.warns(HierlprWarning, match="The AUC of") as caught:
        models[0].fit(-scores, truth)
    assert {x.filename for x in caught} == {__file__}


# -- clusters -------------------------------------------------------------------------------------


def patients(rng, n_patients, rows):
    """Draw scores, truth and patients, whose samples share truth and most of the noise."""
    patient = np.repeat(np.arange(n_patients), rng.integers(1, 2 * rows, n_patients))
    truth = rng.random((n_patients, 3)) < [0.6, 0.5, 0.5]
    truth = (truth & truth[:, [0, 0, 0]])[patient]
    noise = rng.normal(size=(n_patients, 3))[patient] + 0.3 * rng.normal(size=truth.shape)
    return 2.5 * truth + noise, truth, patient


@pytest.mark.parametrize("groups", [None, "depth"])
def test_clusters_count_as_one_observation(groups):
    rng, h = np.random.default_rng(0), Hierarchy([("A", "B"), ("A", "C")])
    scores, truth, patient = patients(rng, 400, 3)
    model = HierLPR(h).fit(scores, truth, clusters=patient)
    scores, truth, patient = patients(rng, 400, 3)
    options = {"precision": 0.8, "confidence": 0.8, "groups": groups}
    with pytest.warns(HierlprWarning, match="samples of the fit were in clusters"):
        model.calibrate(scores, truth, **options)
    clusters = model.calibrate(scores, truth, clusters=1000 + patient, **options).cutoff_
    if groups is None:
        assert f"{patient.size:,} calibration samples in 400 clusters" in str(clusters)
    assert clusters.result.n_clusters == (400 if groups is None else 267)
    model.calibrate(scores, truth, clusters=1000 + patient, precision=0.8)
    weight = 1.0 / np.bincount(patient)[patient]
    called = model.predict(scores)
    hits = weight @ (called & truth).sum(axis=1)
    assert model.cutoff_.precision == pytest.approx(hits / (weight @ called.sum(axis=1)))
    sets = model.calibrate_sets(scores, truth, clusters=1000 + patient).sets_
    assert (sets.n_samples, sets.n_clusters) == (patient.size, 400)
    assert "a new cluster" in str(sets)


def test_clusters_of_one_sample_change_nothing():
    data = simulate.disease(n_samples=900, rng=1)
    fit, rest = slice(0, 500), slice(500, 900)
    levels = []
    for ids in (None, np.arange(900)):
        part = (None, None) if ids is None else (ids[fit], ids[rest])
        model = HierLPR(data.hierarchy).fit(data.scores[fit], data.truth[fit], clusters=part[0])
        for goal in ({"precision": 0.9, "confidence": 0.9}, {"fdr": 0.2}, {"maximize": "f1"}):
            model.calibrate(data.scores[rest], data.truth[rest], clusters=part[1], **goal)
            levels.append(model.cutoff_)
        model.calibrate_sets(data.scores[rest], data.truth[rest], clusters=part[1])
        levels.append(model.sets_)
    assert levels[:4] == levels[4:]


def test_few_clusters_say_how_many_are_needed():
    rng, h = np.random.default_rng(2), Hierarchy([("A", "B"), ("A", "C")])
    scores, truth, patient = patients(rng, 100, 5)
    model = HierLPR(h, joint=False).fit(scores, truth, clusters=patient)
    scores, truth, patient = patients(rng, 10, 20)
    with pytest.warns(
        UnreachableWarning, match="10 clusters cannot certify this; about 30 are needed"
    ):
        model.calibrate(scores, truth, precision=0.9, confidence=0.9, clusters=patient + 1000)
    with pytest.raises(DataError, match="of one cluster"):
        model.calibrate(scores, truth, precision=0.9, clusters=["p"] * len(scores))
    patient = patient + 1000
    with pytest.raises(DataError, match="clusters= does not support sample_weight="):
        model.calibrate(
            scores, truth, precision=0.9, clusters=patient, sample_weight=np.arange(len(scores)) + 1
        )


def test_patients_are_noticed_when_fitted_on_before_or_not_mentioned(tmp_path):
    rng, h = np.random.default_rng(3), Hierarchy([("A", "B"), ("A", "C")])
    scores, truth, patient = patients(rng, 100, 5)
    model = HierLPR(h, joint=False).fit(scores, truth, clusters=patient)
    model.save(tmp_path / "m.hlpr")
    model = load_model(tmp_path / "m.hlpr")
    scores, truth, patient = patients(rng, 100, 5)
    with pytest.warns(HierlprWarning, match="100 of 100 clusters .* were also fitted on"):
        model.calibrate(scores, truth, fdr=0.2, clusters=patient)
    names = [f"pt{p:03d}_visit{i}" for i, p in enumerate(patient)]
    frame = pd.DataFrame(scores, index=names, columns=list(h.labels))
    with pytest.warns(HierlprWarning, match=r"agree in their truth far more .* give clusters="):
        model.calibrate(frame, truth, fdr=0.2)
    with pytest.warns(HierlprWarning, match="samples of the fit were in clusters"):
        model.calibrate(scores, truth, fdr=0.2)
    ids = pd.Series(patient + 1000, index=names).sample(frac=1, random_state=0)
    model.calibrate(frame, truth, fdr=0.2, clusters=ids)
    assert model.cutoff_.result.n_clusters == 100


def test_patients_are_noticed_if_one_visit_of_each_was_fitted_on():
    rng, h = np.random.default_rng(4), Hierarchy([("A", "B"), ("A", "C")])
    scores, truth, patient = patients(rng, 200, 3)
    is_first = np.diff(patient, prepend=-1) > 0
    first, rest = ((scores[x], truth[x], None, patient[x]) for x in (is_first, ~is_first))
    model = HierLPR(h, joint=False).fit(*first)
    with pytest.warns(HierlprWarning, match=r"\d+ of \d+ clusters .* were also fitted on"):
        model.calibrate(*rest[:2], fdr=0.2, clusters=rest[3])
    # Nobody said so of the fit, or of the calibration samples: nothing to compare.
    model.calibrate(*rest[:2], fdr=0.2)


def test_two_clusters_are_fitted_without_held_out_ones():
    rng, h = np.random.default_rng(5), Hierarchy([("A", "B"), ("A", "C")])
    scores, truth, _ = patients(rng, 60, 2)
    model = HierLPR(h).fit(scores, truth, clusters=np.arange(len(scores)) % 2)
    assert model.joint_.tempering.use == "none"


def test_leaves_in_another_order_than_that_of_the_hierarchy_are_noticed():
    """predict_proba has its columns in the order of classes_, which is sorted."""
    h = Hierarchy([("cat", "lion"), ("cat", "leopard"), ("dog", "fox"), ("dog", "wolf")])
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    scores = rng.random((200, 4)) + (truth[:, None] == np.arange(4))
    names = [h.leaves[i] for i in truth]
    by_name = scores[:, np.argsort(h.leaves)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HierLPR(h).fit(by_name, names)
    assert any("better if their columns are the labels sorted" in str(x.message) for x in caught)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HierLPR(h).fit(scores, names)
        HierLPR(h).fit(pd.DataFrame(by_name, columns=sorted(h.leaves)), names)
    assert not any("sorted" in str(x.message) for x in caught)


def test_what_is_missing_among_columns_of_leaves_is_named():
    h = Hierarchy([("cat", "lion"), ("cat", "leopard"), ("dog", "fox"), ("dog", "wolf")])
    scores = pd.DataFrame(np.eye(3)[np.arange(60) % 3], columns=["lion", "leopard", "fox"])
    with pytest.raises(DataError, match=r"2 label.s. have no column: 'dog', 'wolf'") as caught:
        HierLPR(h).fit(scores, ["fox"] * 60)
    expression = str(caught.value).split("rolled up: ")[1].removesuffix(".")
    h = eval(expression, {"hierarchy": h, "scores": scores})
    assert h.labels == ("cat", "lion", "leopard", "dog", "fox")
    pairs = pd.DataFrame({"id": ["a"], "class": ["fox"], "probability": [1.0]})
    with pytest.raises(DataError, match="or sample, label and score if a row is a pair"):
        HierLPR(h).fit(pairs, ["fox"])


def test_results_of_pipelines_are_scores():
    items = [[{"label": "left", "score": 0.9}, {"label": "deep", "score": 0.2}]] * 2
    pairs = [{"left": 0.9, "deep": 0.2}] * 2
    assert frames.pair_values(items, TREE, name="scores")[0].toarray().tolist() == (
        frames.pair_values(pairs, TREE, name="scores")[0].toarray().tolist()
    )


def test_scores_that_say_nothing_are_not_taken_for_sorted_ones():
    h = Hierarchy([("z", "y"), ("z", "x"), ("b", "d"), ("b", "c")])
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = h.close_upward(rng.random((300, 6)) < 0.2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for scores in (rng.random((300, 6)), 1.0 - truth + rng.random((300, 6))):
                HierLPR(h, joint=False).fit(scores, truth)
        assert not any("sorted" in str(x.message) for x in caught)
