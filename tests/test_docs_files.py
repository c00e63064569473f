"""Every snippet of the page on files is read by the reader it is about."""

import re

import pytest

from hierlpr.io import load_hierarchy, read_hierarchy, read_ranking, read_scores, read_truth
from hierlpr.io.auxiliary_tables import read_weights
from realdata import ROOT

PAGE = (ROOT / "docs/files.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL))
HIERARCHIES = ["tree.csv", "terms.obo", "parents.json", "labels.paths", "tree.arff", "dag.arff"]


@pytest.fixture
def folder(tmp_path):
    for name, text in SNIPPETS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_hierarchy_snippets(folder):
    sizes = {name: read_hierarchy(folder / name).n_labels for name in HIERARCHIES}
    assert sizes == dict(zip(HIERARCHIES, [5, 2, 5, 5, 4, 3], strict=True))
    assert load_hierarchy(folder / "terms.obo").aliases == {
        "GO:0000004": "GO:0008150", "GO:0044763": "GO:0009987"
    }  # fmt: skip


def test_table_snippets(folder):
    h = read_hierarchy(folder / "tree.csv")
    for name in ("scores.csv", "scores_long.csv", "predictions.tsv"):
        assert read_scores(folder / name, h).table.n_samples == 2
    odd = read_scores(folder / "odd.csv", h, sep=";", decimal=",")
    plain = read_scores(folder / "scores.csv", h).table
    assert (odd.table.values == plain.values).all()
    for name in ("truth.csv", "truth_long.csv", "truth.tsv"):
        assert read_truth(folder / name, h).table.n_samples == 2
    for name, n_unknown in (("truth_unknown.csv", 4), ("truth_unknown_long.csv", 2)):
        assert read_truth(folder / name, h).report.counts["unknown pairs"] == n_unknown
    assert read_weights(folder / "weights.csv").of == {"p1": 1.0, "p2": 2.5}
    for name in ("ranking.csv", "ranking.tsv"):
        assert len(read_ranking(folder / name, h)) == 4


def test_codes(folder):
    assert load_hierarchy(folder / "icd.csv", prefixes=True).hierarchy.edges == (("A00", "A00.0"),)


def test_no_snippet_is_left_out(folder):
    known = {*HIERARCHIES, "scores.csv", "scores_long.csv", "predictions.tsv",
             "truth.csv", "truth_long.csv", "truth.tsv", "ranking.csv", "ranking.tsv",
             "truth_unknown.csv", "truth_unknown_long.csv", "weights.csv", "odd.csv",
             "icd.csv"}  # fmt: skip
    assert set(SNIPPETS) == known
