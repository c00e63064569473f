"""`demo` goes the whole way through files; `simulate` and `reproduce` write theirs."""

import re

import numpy as np
import pytest
from shellrun import refused, run, succeeded

from hierlpr.io import read_hierarchy, read_scores, read_truth


@pytest.mark.parametrize(
    ("setting", "labels"), [("3", 3), ("tree25", 25), ("dag", 30), ("forest", 30)]
)
def test_simulate_writes_files_that_read_back(tmp_path, setting, labels):
    out, err = succeeded(
        "simulate", "--setting", setting, "--out", tmp_path / "x", "--samples", 300, "--labels", 30
    )
    assert len(out.splitlines()) == 6
    assert "wrote 300 + 60 samples" in err
    h = read_hierarchy(tmp_path / "x/hierarchy.csv")
    assert h.n_labels == labels
    scores = read_scores(tmp_path / "x/scores.csv", h).table
    assert scores.values.shape == (300, labels)
    assert read_truth(tmp_path / "x/test_truth.csv", h).table.n_samples == 60


def test_simulate_is_set_by_its_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("simulate", "--setting", "disease", "--out", tmp_path / name, "--seed", seed)
    a, b, c = (read_scores(tmp_path / x / "scores.csv").table.values for x in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_the_demo_runs_end_to_end(tmp_path):
    folder = tmp_path / "demo"
    out, err = succeeded("demo", "--out", folder)
    assert "196 samples x 110 labels" in out
    assert "90 % with 90 % confidence: kept." in out
    assert re.search(r"parents after a child +0\n", out)
    assert out.count("yes  ") + out.count("no   ") >= 12
    for command in ("fit", "rank", "evaluate", "report"):
        assert f"\n$ hierlpr {command} " in out
    assert f"The report: {folder / 'report.html'}" in out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "Neurological disorder" in page
    again = tmp_path / "again.html"
    base = ("report", "--model", folder / "model.hlpr", "--scores", folder / "test_scores.csv")
    code, out, err = run(*base, "--truth", folder / "test_truth.csv", "--out", again,
                         "--title", "A <b>title</b>", "--max-samples", "0")  # fmt: skip
    assert (code, out) == (0, ""), err
    assert "196 samples x 110 labels" in err
    bare = again.read_text(encoding="utf-8")
    assert "A &lt;b&gt;title&lt;/b&gt;" in bare
    assert '"t001"' in page
    assert '"t001"' not in bare


def test_reproduce_prints_its_folder(tmp_path):
    out, err = succeeded(
        "reproduce", "table2", "--out", tmp_path / "paper", "--replications", 2, "--jobs", 1
    )
    assert out.strip() == str(tmp_path / "paper")
    assert "2 replications" in err
    assert (tmp_path / "paper" / "table2.csv").exists()


def test_reproduce_refuses_nonsense(tmp_path):
    code, _, err = run("reproduce", "figure7", "--out", tmp_path)
    assert (code, "figure7" in err) == (2, True)
    (tmp_path / "file").write_text("")
    assert "cannot create this folder" in refused("reproduce", "--out", tmp_path / "file" / "x")
