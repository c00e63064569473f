"""Rows are matched by name or position; truth beside sparse scores stays sparse."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from cases import hierarchy_of, random_forest
from hierlpr import Hierarchy, HierLPR
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.instances import list_instances
from hierlpr.data.folds import draw_samples, sample_limit
from hierlpr.data.tables import align, match_rows, truth_table
from hierlpr.data.truth import align_truth
from hierlpr.exceptions import DataError, FileError, HierlprWarning
from hierlpr.io import read_scores

pytestmark = pytest.mark.filterwarnings("ignore:3 labelled sample")
H = Hierarchy([("A", "B")])
TRUTH = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])


def frame(values, index=None):
    return pd.DataFrame(values, columns=H.labels, index=index)


def matched(scores, truth):
    scores, truth = align(scores, H, name="scores"), truth_table(truth, H)[0]
    return match_rows(truth, scores).values.tolist()


def test_one_index_without_its_like_warns_and_rows_go_by_position():
    scores = frame(np.zeros((3, 2)), [5, 6, 7])
    with pytest.warns(HierlprWarning, match="matched by position"):
        assert matched(scores, frame(TRUTH)) == TRUTH.tolist()
    # Arrays, lists and frames without an index have no names to differ.
    assert matched(scores, TRUTH) == TRUTH.tolist()
    assert matched(scores, pl.DataFrame(TRUTH, schema=list(H.labels))) == TRUTH.tolist()


def test_numbers_as_column_names_are_labels():
    table = align(pd.DataFrame(TRUTH), ["1", "0"], name="scores")
    assert table.values.tolist() == TRUTH[:, ::-1].tolist()
    assert HierLPR().fit(pd.DataFrame(TRUTH + 0.5), TRUTH).hierarchy_.labels == ("0", "1")
    with pytest.raises(DataError, match="repeated columns: '1'"):
        align(pd.DataFrame(TRUTH, columns=[1, "1"]), ["1", "0"], name="scores")


@pytest.mark.parametrize("index", [None, ["a", "b", "c"]])
def test_weights_with_an_index_go_by_name(index):
    scores, weight = frame(TRUTH + 0.5, index), pd.Series([4.0, 1.0, 1.0], index)
    expected = HierLPR(H).fit(scores, TRUTH, weight.tolist()).lpr_.report.base_rate
    found = HierLPR(H).fit(scores, TRUTH, weight[::-1])
    np.testing.assert_array_equal(found.lpr_.report.base_rate, expected)
    assert found.score(scores, TRUTH, weight[::-1]) == found.score(scores, TRUTH, weight.tolist())


def test_different_names_are_refused():
    scores = frame(np.zeros((3, 2)), ["a", "b", "c"])
    for index in (["a", "b", "d"], ["a", "a", "b"]):
        with pytest.raises(DataError, match="same samples"):
            matched(scores, frame(TRUTH, index))


NAMED = Hierarchy([("A", "B"), ("A", "C")], names={"A": "animal", "B": "bird", "C": "cat"})


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (pd.DataFrame({"s1": [0.1, 0.2, 0.3]}, index=["A", "B", "C"]), "transposed"),
        (pd.DataFrame({"animal": [0.1], "bird": [0.2], "cat": [0.3]}), "'A' for 'animal'"),
        (pd.DataFrame({"1": [0.1], "2": [0.2], "3": [0.3]}), "as in the hierarchy"),
        (pd.DataFrame({"Unnamed: 0": [0], "A": [0.1], "B": [0.2], "C": [0.3]}), "an index"),
        (pd.DataFrame({"PatientID": [0], "A": [0.1], "B": [0.2], "C": [0.3]}), "give it as clus"),
    ],
)
def test_columns_that_are_not_labels_are_explained(frame, match, tmp_path):
    with pytest.raises(DataError, match=match):
        align(frame, NAMED, name="scores")
    frame.index.name = "sample"
    frame.to_csv(tmp_path / "s.csv")
    with pytest.raises(FileError, match=match):
        read_scores(tmp_path / "s.csv", NAMED)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    forest = hierarchy_of(random_forest(rng, 9))
    edges = dict.fromkeys([*forest.edges, ("L0", "L8"), ("L1", "L8")])
    h = Hierarchy(edges, labels=forest.labels)
    truth = h.close_upward(rng.random((300, 9)) < 0.1)
    scores = np.round(np.abs(rng.normal(size=truth.shape) + truth), 1)
    scores *= rng.random(scores.shape) < 0.5
    return h, scores, truth


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.HierlprWarning")  # out of reach
@pytest.mark.parametrize("joint", [False, True, "auto"])
def test_dense_and_sparse_truth_give_the_same_model(data, joint, tmp_path):
    h, scores, truth = data
    files = []
    for held in (truth, sparse.csr_array(truth)):
        model = HierLPR(h, lpr="isotonic", joint=joint).fit(
            sparse.csr_array(scores[:200]), held[:200]
        )
        model.calibrate(sparse.csr_array(scores[200:]), held[200:], fdr=0.7, confidence=0.6)
        model.save(tmp_path / "model.hlpr")
        files.append((tmp_path / "model.hlpr").read_bytes())
    assert files[0] == files[1]
    assert 0.0 < model.score(sparse.csr_array(scores), sparse.csr_array(truth)) <= 1.0


def test_sparse_truth_is_never_made_dense(data, monkeypatch):
    h, scores, truth = data
    for kind in (sparse.csr_array, sparse.csc_array):

        def toarray(self, *args, whole=kind.toarray, **options):
            assert self.dtype != bool
            return whole(self, *args, **options)

        monkeypatch.setattr(kind, "toarray", toarray)
    model = HierLPR(h, lpr="isotonic", joint="auto")
    model.fit(sparse.csr_array(scores[:200]), sparse.csr_array(truth[:200]))
    model.calibrate(sparse.csr_array(scores[200:]), sparse.csr_array(truth[200:]), maximize="f1")
    assert model.cutoff_.result.n_samples == 100


def test_breaches_are_counted_and_named_alike(data):
    h, scores, truth = data
    broken = truth.copy()
    parent, child = (h.index(x) for x in h.edges[0])
    broken[[7, 40], child], broken[[7, 40], parent] = True, False
    with pytest.raises(DataError) as dense:
        align_truth(broken, h)
    with pytest.raises(DataError) as kept:
        align_truth(sparse.csr_array(broken), h)
    assert str(dense.value) == str(kept.value)
    with pytest.raises(DataError, match="other than 0 and 1"):
        align_truth(sparse.csr_array(truth * 2.0), h, allow_unknown=False)
    with pytest.warns(HierlprWarning, match="missing ancestors were added"):
        HierLPR(h, lpr="isotonic", propagate_truth=True).fit(
            sparse.csr_array(scores), sparse.csr_array(broken)
        )


def test_a_profile_of_many_samples_is_one_of_some(data, monkeypatch):
    h, scores, truth = data
    monkeypatch.setattr("hierlpr.data.folds.MOST_INSTANCES", 9 * 50)
    model = HierLPR(h, lpr="isotonic").fit(scores, truth)
    assert model.profile_.n_samples == 50
    drawn = draw_samples(300, 50, rng=0)
    wanted = LevelProfile.of(list_instances(model.predict_proba(scores[drawn]), truth[drawn]))
    assert np.array_equal(model.profile_.calls, wanted.calls)
    assert sample_limit(300, h, n_stored=300) == 9 * 50 // (1 + min(8, 1 + int(h.levels.mean())))


def test_sparse_matrices_with_indices_out_of_range_are_refused():
    bad = sparse.csr_array(np.eye(3))
    bad.indices[1] = 7
    with pytest.raises(DataError, match="scores is not a valid sparse matrix"):
        HierLPR({"b": "a", "c": "a"}).fit(bad, np.eye(3))


def test_columns_of_several_parts_are_refused_with_the_remedy():
    columns = pd.MultiIndex.from_tuples([("svm", "A"), ("svm", "B")])
    frame = pd.DataFrame([[0.1, 0.2]], columns=columns)
    with pytest.raises(DataError, match=r"such as \('svm', 'A'\)(.|\n)*get_level_values\(-1\)"):
        align(frame, Hierarchy([("A", "B")]), name="scores")
    frame.columns = frame.columns.get_level_values(-1)
    assert align(frame, Hierarchy([("A", "B")]), name="scores").labels == ("A", "B")
