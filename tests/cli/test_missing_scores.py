"""Empty cells of a wide table of scores: refused with the option that allows them, then allowed."""

import json

import numpy as np
import pytest
from shellrun import refused, run

from hierlpr import HierLPR, read_hierarchy
from hierlpr.io import read_scores, read_truth

H = "parent,child\nA,B\nA,C\n"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([[1, 1, 0], [1, 0, 1], [1, 0, 0], [0, 0, 0]], 30, axis=0)
    scores = (truth + rng.normal(size=truth.shape)).round(3)
    gaps = rng.random(scores.shape) < 0.1
    gaps[0] = True  # nothing is known of this sample
    rows = [
        ",".join([f"p{i}", *("" if gap else str(x) for x, gap in zip(*row, strict=True))])
        for i, row in enumerate(zip(scores.tolist(), gaps.tolist(), strict=True))
    ]
    held = [f"p{i},{','.join(map(str, row))}" for i, row in enumerate(truth.tolist())]
    for name, head, lines in (("s", "sample,A,B,C", rows), ("t", "sample,A,B,C", held)):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "h.csv").write_text(H)
    return tmp_path


def fit(folder, *more):
    return ("fit", "--hierarchy", folder / "h.csv", "--scores", folder / "s.csv", "--truth",
            folder / "t.csv", "--out", folder / "m.hlpr", *more)  # fmt: skip


def test_without_the_option_the_message_names_it(folder):
    message = refused(*fit(folder))
    assert "line 2, column 'A': the value is missing" in message
    assert "--missing-scores allow" in message
    assert not (folder / "m.hlpr").exists()


def test_the_model_is_that_of_python_and_takes_gaps_ever_after(folder):
    code, _, err = run(*fit(folder, "--missing-scores", "allow", "--fdr", 0.3))
    assert code == 0, err
    out = folder / "calls.csv"
    code, _, err = run(
        "rank", "--model", folder / "m.hlpr", "--scores", folder / "s.csv", "--out", out
    )
    assert code == 0, err
    assert out.read_bytes().count(b",p0,") == 3  # a sample without any score is ranked, too
    h = read_hierarchy(folder / "h.csv")
    scores = read_scores(folder / "s.csv", h, missing_scores="allow")
    code, out, err = run(*fit(folder, "--missing-scores", "allow", "--json", "-"))
    assert code == 0, err
    assert json.loads(out)["samples_fitted"] == 120
    assert np.isnan(scores.table.values).sum() > 20
    truth = read_truth(folder / "t.csv", h)
    HierLPR(h, missing="allow").fit(scores, truth).save(folder / "p.hlpr")
    assert (folder / "p.hlpr").read_bytes() == (folder / "m.hlpr").read_bytes()


def test_infinite_scores_and_empty_truth_are_refused_all_the_same(folder):
    (folder / "s.csv").write_text("sample,A,B,C\np0,inf,,1\n")
    assert "infinite" in refused(*fit(folder, "--missing-scores", "allow"))
