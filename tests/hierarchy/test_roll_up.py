"""Scores of leaves in any container become those of all labels, in Python and from files."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from cases import random_dag
from hierlpr import Hierarchy, HierLPR, load_model, read_hierarchy, workflows
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy.roll_up import roll_up_columns
from hierlpr.outofcore.resources import RunOptions

TREE = Hierarchy([(a, f"{a}{b}") for a in "ABC" for b in "012"])
LEAVES, N = TREE.leaves, 90


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("how", ["sum", "max"])
def test_dense_and_listed_scores_equal_a_walk_over_all_labels(seed, how):
    rng = np.random.default_rng(seed)
    h = random_dag(rng, int(rng.integers(1, 9)))
    labels = [x for x in h.labels if not h.children(x) or rng.random() < 0.3]
    values = rng.random((5, len(labels)))
    listed = sparse.csr_array(np.where(rng.random(values.shape) < 0.6, values, 0.0))
    holes = np.where(listed.toarray() == 0.0, np.nan, values)
    found = [roll_up_columns(h, x, labels, how)[0] for x in (values, listed, holes)]
    for k, label in enumerate(h.labels):
        below = [label] if label in labels else [x for x in h.descendants(label) if x in labels]
        if how == "sum":  # each leaf once, and what is below a column with that column
            below = [x for x in below if not any(x in h.descendants(y) for y in below)]
        columns = [labels.index(x) for x in below]
        for rolled, given in zip(found, (values, listed.toarray(), holes), strict=True):
            rolled = rolled.toarray() if sparse.issparse(rolled) else rolled
            frame = pd.DataFrame(given[:, columns])
            expected = frame.sum(axis=1, min_count=1) if how == "sum" else frame.max(axis=1)
            np.testing.assert_allclose(rolled[:, k], expected)


def test_containers_are_kept_and_rows_that_add_up_to_one_are_added():
    h = Hierarchy([("pet", "cat"), ("pet", "dog")], labels=["car"])
    frame = pd.DataFrame({"dog": [0.25], "sample": ["s"], "cat": [0.5], "car": [0.25]}, index=["x"])
    rolled = h.roll_up(frame)
    assert list(rolled.columns) == ["sample", *h.labels]
    assert rolled.index.tolist() == ["x"]
    assert h.roll_up(pl.from_pandas(frame))["pet"].to_list() == rolled["pet"].tolist() == [0.75]
    assert h.roll_up(frame, "max")["pet"].tolist() == [0.5]
    assert h.roll_up([[0.25, 0.5, 0.5]]).tolist() == [[0.25, 0.5, 0.5, 0.5]]
    assert h.roll_up(sparse.csr_array([[0.25, 0.5, 0.25]])).toarray()[0, 1] == 0.75
    with pytest.raises(DataError, match=r"2 label\(s\) have no column.*'pet', 'dog'"):
        h.roll_up(frame.drop(columns="dog"))
    with pytest.raises(DataError, match=r"expected \(n_samples, 3\): one column per leaf"):
        h.roll_up(np.ones((2, 2)))
    with pytest.raises(DataError, match="how must be one of 'auto', 'sum', 'max'"):
        h.roll_up(frame, "mean")


def probabilities(n_samples, seed):
    """Return probabilities of exclusive leaves, and the leaf of each sample."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, len(LEAVES), n_samples)
    logit = rng.normal(size=(n_samples, len(LEAVES))) + 3.0 * np.eye(len(LEAVES))[leaf]
    p = np.exp(logit)
    return p / p.sum(axis=1, keepdims=True), np.array(LEAVES)[leaf]


P, NAMES = probabilities(N, 0)
IDS = [f"s{i}" for i in range(N)]
WIDE = pd.DataFrame(P, columns=LEAVES, index=IDS)
LONG = WIDE.rename_axis("sample").reset_index().melt("sample", var_name="label", value_name="p")
BY_NAME = pd.Series(NAMES, index=IDS)


@pytest.mark.parametrize(
    ("scores", "truth"),
    [
        (P, NAMES),
        (WIDE[list(LEAVES)[::-1]], BY_NAME[::-1]),
        (LONG, BY_NAME),
        (pl.from_pandas(LONG), dict(zip(IDS, NAMES, strict=True))),
        (WIDE.to_dict("records"), [[x] for x in NAMES]),
        (WIDE.to_dict("index"), pd.get_dummies(BY_NAME)),
    ],
    ids=["array", "frame", "long", "long Polars", "list of mappings", "mapping of mappings"],
)
def test_fit_rolls_up_scores_and_truth_of_leaves_with_one_note_each(scores, truth):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = HierLPR(TREE, joint=False).fit(scores, truth)
        model.calibrate(scores, truth, maximize="f1")
        proba = model.predict_proba(scores)
    notes = [str(x.message) for x in caught if "were also fitted on" not in str(x.message)]
    assert len(notes) == 2
    assert notes[0].startswith("The scores have 9 of 12 labels; each other label gets the sum")
    assert ("in the order of hierarchy.leaves" in notes[0]) == isinstance(scores, np.ndarray)
    assert "90 ancestors were added" in notes[1]
    assert (model.leaves_, model.kind_) == ("sum", "complete")
    if hasattr(scores, "columns"):
        proba = proba[list(TREE.labels)].to_numpy()
    expected = HierLPR(TREE, joint=False).fit(TREE.roll_up(P), TREE.close_upward(
        np.array([[x in (name, name[0]) for x in TREE.labels] for name in NAMES])))  # fmt: skip
    np.testing.assert_allclose(proba, expected.predict_proba(TREE.roll_up(P)))


@pytest.mark.parametrize("how", ["sum", "max"])
def test_a_chosen_roll_up_of_named_columns_needs_no_note(how):
    truth = TREE.close_upward(TREE.roll_up(P) > 0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HierLPR(TREE, joint=False, leaves=how).fit(WIDE, truth)
    with pytest.warns(HierlprWarning, match="in the order of hierarchy.leaves"):
        HierLPR(TREE, joint=False, leaves=how).fit(P, truth)


@pytest.mark.filterwarnings("ignore:The (scores|truth)")
def test_a_model_remembers_how_leaves_were_rolled_up(tmp_path):
    model = HierLPR(TREE, joint=False, leaves="max").fit(WIDE, NAMES)
    model.save(tmp_path / "m.hlpr")
    again = load_model(tmp_path / "m.hlpr")
    assert again.leaves_ == "max"
    np.testing.assert_array_equal(again.transform(WIDE), model.transform(TREE.roll_up(P, "max")))
    of_all = HierLPR(TREE, joint=False).fit(TREE.roll_up(P), NAMES)
    with pytest.raises(DataError, match=r"no column for 3 label\(s\): 'A', 'B' and.*|.*roll_up"):
        of_all.predict(WIDE)
    with pytest.raises(DataError, match=r"1 label\(s\) have no column: 'A0'|'A', 'A0'"):
        HierLPR(TREE).fit(WIDE.drop(columns="A0"), NAMES)


@pytest.mark.filterwarnings("ignore:The truth")
def test_lists_of_the_best_labels_are_listed_scores():
    best = [dict(sorted(x.items(), key=lambda y: -y[1])[:3]) for x in WIDE.to_dict("records")]
    with pytest.warns(HierlprWarning, match="The scores list 3.0 of 12 labels per sample"):
        model = HierLPR(TREE, joint=False).fit(best, NAMES)
    assert (model.leaves_, model.kind_) == (None, "listed")
    long = pd.DataFrame([(s, *x) for s, row in zip(IDS, best, strict=True) for x in row.items()],
                        columns=["sample", "label", "score"])  # fmt: skip
    assert (model.predict_proba(long) != model.predict_proba(best)).nnz == 0
    with pytest.raises(DataError, match=r"most scores are missing(.|\n)*give these as lists"):
        HierLPR(TREE).fit(pd.DataFrame(best, columns=LEAVES), NAMES)
    with pytest.warns(HierlprWarning, match="largest score below|most scores are missing"):
        HierLPR(TREE, missing_scores="allow").fit(pd.DataFrame(best, columns=LEAVES), NAMES)
    softmax = sparse.csr_array(np.where(P < 0.001, 0.0, P))
    with pytest.warns(HierlprWarning, match="the sum of the scores"):
        summed = HierLPR(TREE, joint=False).fit(softmax, NAMES)
    assert (summed.leaves_, summed.kind_) == ("sum", "listed")


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.HierlprWarning")
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_files_with_scores_and_truth_of_leaves(tmp_path, layout, monkeypatch):
    paths = [tmp_path / name for name in ("h.csv", "scores.csv", "truth.csv", "m.hlpr")]
    pd.DataFrame(TREE.edges, columns=["parent", "child"]).to_csv(paths[0], index=False)
    wide = WIDE.rename_axis("sample").reset_index()
    (wide if layout == "wide" else LONG).rename(columns={"p": "score"}).to_csv(
        paths[1], index=False
    )
    truth = pd.DataFrame({"sample": IDS, "label": NAMES})
    if layout == "wide":
        truth = pd.get_dummies(BY_NAME, dtype=int).rename_axis("sample").reset_index()
    truth.to_csv(paths[2], index=False)
    fitted = workflows.fit_file(*paths, joint=False)
    assert fitted.model.leaves_ == "sum"
    assert fitted.reports[1].counts["ancestors added"] == N
    expected = HierLPR(read_hierarchy(paths[0]), joint=False).fit(WIDE, BY_NAME)
    for is_whole in (True, False):
        monkeypatch.setattr(RunOptions, "fits", lambda self, n_bytes, x=is_whole: x)
        monkeypatch.setattr(RunOptions, "batch_instances", 300)
        workflows.rank_file(paths[3], paths[1], tmp_path / "r.csv")
        ranked = pd.read_csv(tmp_path / "r.csv")
        frame = expected.rank(WIDE).to_frame()
        assert ranked["label"].tolist() == frame["label"].tolist()
        np.testing.assert_allclose(ranked["score"], frame["score"], atol=1e-6)
    assert workflows.fit_file(*paths, joint=False, leaves="max").model.leaves_ == "max"
