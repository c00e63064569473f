"""Options of tables: semicolons, decimal commas, gaps."""

import json

import numpy as np
import pandas as pd
import pytest
from shellrun import refused, succeeded

from hierlpr import Hierarchy, HierLPR, read_hierarchy
from hierlpr.io import read_scores, read_truth

TREE = "parent,child\nA,B\nA,C\n"
OPTIONS = ("--sep", ";", "--decimal", ",")
H = Hierarchy([("A", "B"), ("A", "C")])


def frame_of(values):
    names = pd.Index([f"p{i}" for i in range(len(values))], name="sample")
    return pd.DataFrame(values, columns=H.labels, index=names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Plain tables, and the same as a hospital exports them."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    held = H.close_upward(rng.random((240, 3)) < (0.2, 0.4, 0.3))
    truth = frame_of(held.astype(int))
    scores = frame_of(rng.normal(held, 0.7).round(3))
    odd = {"sep": ";", "decimal": ","}
    for table, name in ((scores, "scores.csv"), (truth, "truth.csv")):
        table.to_csv(folder / name)
    for table, name in ((scores, "odd.csv"), (truth, "odd_truth.csv")):
        table.to_csv(folder / name, **odd)
    scores.rename_axis("label", axis=1).stack().rename("score").to_csv(folder / "long.csv", **odd)
    (folder / "tree.csv").write_text(TREE)
    (folder / "tree2.csv").write_text(TREE.replace(",", ";"))
    return folder


def fit(folder, out, scores, truth, *more, tree="tree.csv"):
    args = ("fit", "--hierarchy", folder / tree, "--scores", folder / scores, "--truth",
            folder / truth, "--fdr", "0.3", "--out", out, *more)  # fmt: skip
    _, err = succeeded(*args)
    return out.read_bytes(), err


def test_every_command_reads_them(folder, tmp_path):
    model, _ = fit(folder, tmp_path / "m.hlpr", "scores.csv", "truth.csv")
    odd, _ = fit(folder, tmp_path / "o.hlpr", "odd.csv", "odd_truth.csv", *OPTIONS,
                   tree="tree2.csv")  # fmt: skip
    assert odd == model
    listed, _ = fit(folder, tmp_path / "l.hlpr", "long.csv", "truth.csv", *OPTIONS)
    assert len(listed) > 0
    calls = []
    for name, given in (("scores", ()), ("odd", OPTIONS)):
        succeeded("rank", "--model", tmp_path / "m.hlpr", "--scores",
                           folder / f"{name}.csv", "--out", tmp_path / f"{name}_calls.csv",
                           *given)  # fmt: skip
        calls.append((tmp_path / f"{name}_calls.csv").read_bytes())
    assert calls[0] == calls[1]
    measured = []
    for truth, given in (("truth", ()), ("odd_truth", OPTIONS)):
        out, _ = succeeded("evaluate", "--hierarchy", folder / "tree.csv", "--ranking",
                             tmp_path / "odd_calls.csv", "--truth", folder / f"{truth}.csv",
                             *given)  # fmt: skip
        measured.append(out)
    assert measured[0] == measured[1]


@pytest.mark.parametrize(
    ("scores", "given", "named"), [("odd", (), "--decimal ,"), ("odd", OPTIONS[:2], "--decimal ,")]
)
def test_the_message_names_the_option(folder, tmp_path, scores, given, named):
    args = ("fit", "-q", "--hierarchy", folder / "tree.csv", "--scores", folder / f"{scores}.csv",
            "--truth", folder / "truth.csv", "--out", tmp_path / "m.hlpr", *given)  # fmt: skip
    said = refused(*args)
    assert named in said


# -- empty cells of a wide table of scores -------------------------------------------------------


@pytest.fixture
def gaps(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([[1, 1, 0], [1, 0, 1], [1, 0, 0], [0, 0, 0]], 30, axis=0)
    scores = (truth + rng.normal(size=truth.shape)).round(3)
    is_gap = rng.random(scores.shape) < 0.1
    is_gap[0] = True  # nothing is known of this sample
    frame_of(scores).mask(is_gap).to_csv(tmp_path / "s.csv")
    frame_of(truth).to_csv(tmp_path / "t.csv")
    (tmp_path / "h.csv").write_text(TREE)
    return tmp_path


def fit_gaps(gaps, *more):
    return ("fit", "--hierarchy", gaps / "h.csv", "--scores", gaps / "s.csv", "--truth",
            gaps / "t.csv", "--out", gaps / "m.hlpr", *more)  # fmt: skip


def test_without_the_option_the_message_names_it(gaps):
    message = refused(*fit_gaps(gaps))
    assert "line 2, column 'A': the value is missing" in message
    assert "--missing-scores allow" in message
    assert not (gaps / "m.hlpr").exists()


def test_the_model_is_that_of_python_and_takes_gaps_ever_after(gaps):
    succeeded(*fit_gaps(gaps, "--missing-scores", "allow", "--fdr", 0.3))
    out = gaps / "calls.csv"
    succeeded("rank", "--model", gaps / "m.hlpr", "--scores", gaps / "s.csv", "--out", out)
    assert out.read_bytes().count(b",p0,") == 3  # a sample without any score is ranked, too
    h = read_hierarchy(gaps / "h.csv")
    scores = read_scores(gaps / "s.csv", h, missing_scores="allow")
    out, _ = succeeded(*fit_gaps(gaps, "--missing-scores", "allow", "--json", "-"))
    assert json.loads(out)["samples_fitted"] == 120
    assert np.isnan(scores.table.values).sum() > 20
    truth = read_truth(gaps / "t.csv", h)
    HierLPR(h, missing_scores="allow").fit(scores, truth).save(gaps / "p.hlpr")
    assert (gaps / "p.hlpr").read_bytes() == (gaps / "m.hlpr").read_bytes()
