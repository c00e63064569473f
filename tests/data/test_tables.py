"""Rows of scores and truth are matched by name or by position."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from hierlpr import Hierarchy
from hierlpr.data.tables import align, align_labels, match_rows
from hierlpr.exceptions import DataError, FileError, HierlprWarning
from hierlpr.io import read_scores

H = Hierarchy([("A", "B")])
TRUTH = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])


def frame(values, index=None):
    return pd.DataFrame(values, columns=H.labels, index=index)


def matched(scores, truth):
    scores, truth = align(scores, H, name="scores"), align_labels(truth, H, name="truth")
    return match_rows(truth, scores).values.tolist()


@pytest.mark.parametrize("index", [[2, 0, 1], ["c", "a", "b"], [12, 10, 11]])
def test_frames_with_the_same_index_in_another_order_are_aligned(index):
    scores = frame(np.zeros((3, 2)), index)
    assert matched(scores, frame(TRUTH, sorted(index))) == TRUTH[[2, 0, 1]].tolist()
    if index == [2, 0, 1]:
        assert matched(scores, frame(TRUTH)) == TRUTH[[2, 0, 1]].tolist()
        assert matched(frame(np.zeros((3, 2))), frame(TRUTH, index)) == TRUTH[[1, 2, 0]].tolist()


def test_one_index_without_its_like_warns_and_rows_go_by_position():
    scores = frame(np.zeros((3, 2)), [5, 6, 7])
    with pytest.warns(HierlprWarning, match="matched by position"):
        assert matched(scores, frame(TRUTH)) == TRUTH.tolist()
    # Arrays, lists and frames without an index have no names to differ.
    assert matched(scores, TRUTH) == TRUTH.tolist()
    assert matched(scores, pl.DataFrame(TRUTH, schema=list(H.labels))) == TRUTH.tolist()


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
        (pd.DataFrame({"Unnamed: 0": [0], "A": [0.1], "B": [0.2], "C": [0.3]}), "an index"),
    ],
)
def test_columns_that_are_not_labels_are_explained(frame, match, tmp_path):
    with pytest.raises(DataError, match=match):
        align(frame, NAMED, name="scores")
    frame.index.name = "sample"
    frame.to_csv(tmp_path / "s.csv")
    with pytest.raises(FileError, match=match):
        read_scores(tmp_path / "s.csv", NAMED)
