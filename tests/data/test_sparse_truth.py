"""Truth beside sparse scores stays sparse, and nothing that is learned depends on it."""

import numpy as np
import pytest
import scipy.sparse as sparse

from cases import hierarchy_of, random_forest
from hierlpr import Hierarchy, HierLPR
from hierlpr.cutoff.instances import list_instances
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.data.tables import align_truth, align_truth_to, draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.joint import fit_prior


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
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    monkeypatch.setattr(sparse.csc_array, "toarray", None)
    model = HierLPR(h, lpr="isotonic", joint="auto")
    model.fit(sparse.csr_array(scores[:200]), sparse.csr_array(truth[:200]))
    model.calibrate(sparse.csr_array(scores[200:]), sparse.csr_array(truth[200:]), maximize="f1")
    assert model.cutoff_.n_samples == 100


def test_the_prior_of_sparse_truth_is_that_of_dense(data):
    h, _, truth = data
    found, wanted = fit_prior(sparse.csr_array(truth), h), fit_prior(truth, h)
    assert np.array_equal(found.conditional, wanted.conditional)
    k = h.index("L8")
    parents = [h.index(p) for p in h.parents("L8")]
    both = truth[:, parents].all(axis=1).sum()
    assert len(parents) > 1
    assert abs(found.conditional[k] - truth[:, k].sum() / both) < 0.2


def test_breaches_are_counted_and_named_alike(data):
    h, scores, truth = data
    broken = truth.copy()
    parent, child = (h.index(x) for x in h.edges[0])
    broken[[7, 40], child], broken[[7, 40], parent] = True, False
    with pytest.raises(DataError) as dense:
        align_truth(broken, h)
    csr = sparse.csr_array(scores)
    with pytest.raises(DataError) as kept:
        align_truth_to(csr, sparse.csr_array(broken), h)
    assert str(dense.value) == str(kept.value)
    with pytest.raises(DataError, match="other than 0 and 1"):
        align_truth_to(csr, sparse.csr_array(truth * 2.0), h)
    with pytest.warns(HierlprWarning, match="missing ancestors were added"):
        HierLPR(h, lpr="isotonic", close_truth=True).fit(csr, sparse.csr_array(broken))


def test_collect_looks_entries_up(data):
    _, scores, truth = data
    csr = sparse.csr_array(scores)
    found, wanted = list_instances(csr, sparse.csr_array(truth)), list_instances(csr, truth)
    assert np.array_equal(found.truth, wanted.truth)
    assert found.n_positives == wanted.n_positives == truth.sum()
    assert not list_instances(csr, sparse.csr_array(truth.shape, dtype=bool)).truth.any()


def test_a_profile_of_many_samples_is_one_of_some(data, monkeypatch):
    h, scores, truth = data
    monkeypatch.setattr("hierlpr.data.tables.MOST_INSTANCES", 9 * 50)
    model = HierLPR(h, lpr="isotonic").fit(scores, truth)
    assert model.profile_.n_samples == 50
    drawn = draw_samples(300, 50, rng=0)
    wanted = LevelProfile.of(model.predict_proba(scores[drawn]), truth[drawn])
    assert np.array_equal(model.profile_.calls, wanted.calls)
    assert sample_limit(300, h, n_stored=300) == 9 * 50 // (1 + min(8, 1 + int(h.levels.mean())))
