"""Clus ARFF: small files written here, and the real sets where they are at hand."""

import gzip

import numpy as np
import pytest

from hierlpr.exceptions import FileError
from hierlpr.io import read_arff
from realdata import DATA, needs_data

TREE = """% made by hand
@RELATION 'small'
@ATTRIBUTE 'the length' numeric
@ATTRIBUTE colour {red, 'dark blue', green}
@ATTRIBUTE name string
@ATTRIBUTE class hierarchical 1,1/1,1/2,2/3

@DATA
0.5,red,first,1/1@2/3
?,'dark blue',second,1/2
% a comment between rows
-1e3,green,third,?
7,?,fourth,
"""

DAG = """@RELATION dag
@ATTRIBUTE x REAL
@ATTRIBUTE class hierarchical root/a,root/b,a/c,b/c,c/d
@DATA
1,d
2,b@a
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_tree_features_and_labels(tmp_path):
    data = read_arff(write(tmp_path / "t.arff", TREE))
    assert data.feature_names == ("the length", "colour")
    assert data.categories == {"colour": ("red", "dark blue", "green")}
    np.testing.assert_array_equal(data.features, [[0.5, 0], [np.nan, 1], [-1000, 2], [7, np.nan]])
    assert data.samples == ("first", "second", "third", "fourth")
    assert data.hierarchy.labels == ("1", "1/1", "1/2", "2", "2/3")
    assert data.truth.astype(int).tolist() == [
        [1, 1, 0, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]
    ]  # fmt: skip
    assert data.labelled.tolist() == [True, True, False, True]
    assert data.report.counts["comments"] == 2
    assert data.report.counts["missing values"] == 2
    assert data.report.counts["unlabelled samples"] == 1


def test_dag_header_drops_the_artificial_top(tmp_path):
    data = read_arff(write(tmp_path / "d.arff", DAG))
    assert data.hierarchy.labels == ("a", "b", "c", "d")
    assert data.hierarchy.parents("c") == ("a", "b")
    assert data.truth.tolist() == [[True] * 4, [True, True, False, False]]
    assert data.samples == ("1", "2")
    assert "DAG" in data.report.format


def test_tree_of_pairs_with_repeated_names_is_no_dag(tmp_path):
    text = DAG.replace("root/a,root/b,a/c,b/c,c/d", "1/1,1/2,2/1").replace("1,d\n2,b@a", "1,2/1")
    data = read_arff(write(tmp_path / "p.arff", text))
    assert data.hierarchy.labels == ("1", "1/1", "1/2", "2", "2/1")


def test_gzip_and_another_hierarchy(tmp_path):
    path = tmp_path / "s.arff.gz"
    path.write_bytes(gzip.compress(DAG.encode()))
    first = read_arff(path)
    assert first.truth.sum() == 6
    again = read_arff(path, hierarchy=first.hierarchy)
    assert again.hierarchy is first.hierarchy


BAD_ROWS = [
    ("1,d,3\n", "line 5.*has 3 values, but there are 2 attributes"),
    ("one,d\n", "line 5, column 'x': 'one' is not a number"),
    ("1,nothing\n", "line 5: label 'nothing' is not in the hierarchy"),
    ("1,'d\n", "line 5: the quotes do not match"),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
def test_bad_rows(tmp_path, row, message):
    with pytest.raises(FileError, match=message):
        read_arff(write(tmp_path / "b.arff", DAG.replace("1,d\n", row)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@RELATION x\n@ATTRIBUTE a numeric\n@DATA\n1\n", "0 attributes of type hierarchical"),
        ("hello\n", "line 1: 'hello' is not"),
        ("@ATTRIBUTE a\n", "line 1: .*not a declaration"),
        ("@ATTRIBUTE a matrix\n", "'matrix' is unknown"),
        ("@ATTRIBUTE a hierarchical\n@DATA\n", "lists no labels"),
        ("@ATTRIBUTE a hierarchical x//y\n@DATA\n", "empty segment"),
        ("@ATTRIBUTE a hierarchical x,x/y\n", "no @DATA line"),
    ],
)
def test_bad_headers(tmp_path, text, message):
    with pytest.raises(FileError, match=message):
        read_arff(write(tmp_path / "h.arff", text))


@needs_data
@pytest.mark.parametrize(
    ("name", "samples", "labels", "forest"),
    [
        ("funcat/cellcycle_FUN.train", 1628, 499, True),
        ("funcat/eisen_FUN.test", 837, 461, True),
        ("go_yeast/cellcycle_GO.valid", 848, 4125, False),
        ("imclef07a/ImCLEF07A_Test", 1006, 96, True),
        ("enron/Enron_corr_test", 660, 56, True),
    ],
)
def test_real_sets(name, samples, labels, forest):
    data = read_arff(DATA / f"{name}.arff.gz")
    assert data.truth.shape == (samples, labels)
    assert data.hierarchy.is_forest is forest
    assert data.labelled.all()
    assert data.truth.any(axis=1).all()
    assert len(data.hierarchy.violations(data.truth)) == 0
