import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from hierlpr import metrics
from hierlpr.exceptions import DataError


def test_truth_and_calls_may_be_sparse():
    truth, calls = np.array([[1, 0], [1, 1]]), np.array([[1, 1], [1, 0]])
    for of in (sparse.csr_array, sparse.coo_matrix, sparse.dok_array):
        assert metrics.f_score(of(truth), of(calls)) == metrics.f_score(truth, calls)
        assert metrics.au_prc_score(of(truth), calls) == metrics.au_prc_score(truth, calls)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_two_frames_are_matched_by_their_column_names(make):
    truth = make({"A": [1, 1, 1, 0], "B": [0, 0, 1, 0]})
    scores = make({"B": [0.1, 0.2, 0.7, 0.1], "A": [0.9, 0.8, 0.6, 0.3]})
    calls = make({"B": [0, 0, 1, 0], "A": [1, 1, 1, 0]})
    assert metrics.precision_score(truth, calls) == 1.0
    assert metrics.au_prc_score(truth, scores) == 1.0
    assert metrics.label_au_prc_scores(truth, scores).tolist() == [1.0, 1.0]
    assert metrics.brier_error(truth, scores) == pytest.approx(0.05625)
    with pytest.raises(DataError, match="only one has 'B', 'C'"):
        metrics.recall_score(truth, make({"C": [0, 0, 1, 0], "A": [1, 1, 1, 0]}))
