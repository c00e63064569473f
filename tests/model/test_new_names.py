"""Labels that a model has not seen have the curve of their depth, and change no others."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, HierlprWarning, load_model
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.lpr import fit_lpr
from hierlpr.model.new_names import extend

LABELS = ["top", *(f"g{i}" for i in range(6)), *(f"g{i}s" for i in range(6))]
EDGES = [*(("top", f"g{i}") for i in range(6)), *((f"g{i}", f"g{i}s") for i in range(6))]
MORE = [("top", "x"), ("x", "xs"), ("g1", "g1t"), ("g1t", "deeper")]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    group, n = rng.integers(0, 6, 400), 400
    columns = np.stack([np.zeros(n, int), 1 + group, 7 + group], axis=1).ravel()
    chance = np.cumprod(rng.choice([0.5, 0.8, 1.0], (n, 3)), axis=1)
    is_right = (rng.random((n, 1)) < chance).ravel()
    ptr = np.arange(0, 3 * n + 1, 3)
    scores = sparse.csr_array((chance.ravel(), columns, ptr), shape=(n, 13))
    truth = sparse.csr_array((is_right.astype(float), columns, ptr), shape=(n, 13))
    model = HierLPR(Hierarchy(EDGES, labels=LABELS)).fit(Table(scores, tuple(LABELS)), truth)
    return model, scores, truth


def test_new_labels_have_the_curve_of_their_depth(case, tmp_path):
    model, scores, truth = case
    added = ["x", "xs", "g1t", "deeper"]
    grown = extend(model, Hierarchy([*EDGES, *MORE], labels=[*LABELS, *added]), {})
    shared = model.lpr_.shared
    assert shared.scale == "score"
    grid = np.linspace(0.0, 1.0, 9)
    values = sparse.csr_array(np.tile(grid[:, None], (1, 17)))
    lpr = grown.lpr_.curves.evaluate(values).toarray()
    for k, depth in zip(range(13, 17), (2, 3, 3, 4), strict=True):
        expected = shared.curves.evaluate_each(
            shared.curve_of(np.full(9, depth)).astype(np.int32), grid, n_jobs=1
        )
        np.testing.assert_array_equal(lpr[1:, k], expected[1:])  # a score of 0 is stored as well
    before = model.block_scores(Table(scores, model.hierarchy_.labels)).toarray()
    wide = sparse.csr_array((scores.data, scores.indices, scores.indptr), shape=(400, 17))
    after = grown.block_scores(Table(wide, grown.hierarchy_.labels)).toarray()
    np.testing.assert_array_equal(after[:, :13], before)
    table = Table(wide, grown.hierarchy_.labels)
    with pytest.warns(HierlprWarning, match="400 of 400 calibration samples were also fitted on"):
        grown.calibrate_sets(table, truth_of(truth, 17), one_path=True)
    grown.save(tmp_path / "grown.hlpr")
    again = load_model(tmp_path / "grown.hlpr")
    assert again.hierarchy_ == grown.hierarchy_
    assert grown.lpr_.report.fallback[-1].startswith("not in the fit: the curve of scores")
    assert model.hierarchy_.n_labels == 13  # the model itself has not changed


def truth_of(truth, n_labels):
    shape = (truth.shape[0], n_labels)
    return sparse.csr_array((truth.data, truth.indices, truth.indptr), shape=shape)


def test_without_shared_curves_there_are_no_new_labels():
    fitted = fit_lpr(np.arange(8.0), np.arange(8) > 3, method="isotonic")
    with pytest.raises(DataError, match="need curves that labels share"):
        fitted.with_new(np.array([1]))
