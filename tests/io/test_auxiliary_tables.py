"""Weights of samples and p-values of labels."""

import pytest

from cases import write
from hierlpr import Hierarchy
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import read_p_values, read_weights

H = Hierarchy([("A", "B"), ("A", "C")])


def test_weights(tmp_path):
    found = read_weights(write(tmp_path / "w.csv", "age,sample,weight\n7,a,2\n8,b,0\n"))
    assert found.match(["b", "a"], "scores.csv").tolist() == [0.0, 2.0]
    with pytest.raises(DataError, match="have no weight: 'c'"):
        found.match(["a", "c"], "scores.csv")
    for text in ("sample,mass\na,1\n", "sample,weight\na,-1\n", "sample,weight\na,1e200\n",
                 "sample,weight\na,1\na,2\n", "sample,weight\na,\n"):  # fmt: skip
        with pytest.raises(FileError, match=r"w\.csv"):
            read_weights(write(tmp_path / "w.csv", text))


def test_p_values(tmp_path):
    path = write(tmp_path / "p.csv", "label,p_value,x\nB,0.5,1\nold,1e-3,2\n")
    p, _ = read_p_values(path, H, aliases={"old": "A"})
    assert p[:2].tolist() == [0.001, 0.5]
    assert p[2] != p[2]
    bad = ("label,p\nB,1.5\n", "label,p\nB,x\n", "label,p\nB,1\nB,1\n", "label,p\nQ,1\n", "p\n1\n")
    for text in bad:
        with pytest.raises(FileError, match="line"):
            read_p_values(write(path, text), H)
