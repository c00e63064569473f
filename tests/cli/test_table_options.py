"""Tables that people have: semicolons and decimal commas; whole and in parts alike."""

import json

import numpy as np
import pytest
from shellrun import refused, run

from hierlpr import HierLPR, read_hierarchy
from hierlpr.io import read_scores, read_truth

TREE = "parent,child\nA,B\nA,C\n"
OPTIONS = ("--sep", ";", "--decimal", ",")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Plain tables, and the same as a hospital exports them."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    plain = ["sample,A,B,C"]
    truth = ["sample,A,B,C"]
    odd = ["sample;A;B;C"]
    odd_truth = ["sample;A;B;C"]
    long = ["sample;label;score"]
    for i in range(240):
        held = rng.random(3) < (0.6, 0.4, 0.3)
        held[0] |= held[1:].any()
        a, b, c = (f"{x:.3f}" for x in rng.normal(held, 0.7))
        plain.append(f"p{i},{a},{b},{c}")
        truth.append(f"p{i},{','.join(str(int(x)) for x in held)}")
        odd.append(f"p{i};{a};{b};{c}".replace(".", ","))
        odd_truth.append(f"p{i};{';'.join(str(int(x)) for x in held)}")
        long += [f"p{i};{x};{y}".replace(".", ",") for x, y in zip("ABC", (a, b, c), strict=True)]
    for name, lines in (("scores", plain), ("truth", truth), ("odd", odd),
                        ("odd_truth", odd_truth), ("long", long)):  # fmt: skip
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "tree.csv").write_text(TREE)
    (folder / "tree2.csv").write_text(TREE.replace(",", ";"))
    return folder


def fit(folder, out, scores, truth, *more, tree="tree.csv"):
    args = ("fit", "--hierarchy", folder / tree, "--scores", folder / scores, "--truth",
            folder / truth, "--fdr", "0.3", "--out", out, *more)  # fmt: skip
    code, _, err = run(*args)
    assert code == 0, err
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
        code, _, err = run("rank", "--model", tmp_path / "m.hlpr", "--scores",
                           folder / f"{name}.csv", "--out", tmp_path / f"{name}_calls.csv",
                           *given)  # fmt: skip
        assert code == 0, err
        calls.append((tmp_path / f"{name}_calls.csv").read_bytes())
    assert calls[0] == calls[1]
    measured = []
    for truth, given in (("truth", ()), ("odd_truth", OPTIONS)):
        code, out, err = run("evaluate", "--hierarchy", folder / "tree.csv", "--ranking",
                             tmp_path / "odd_calls.csv", "--truth", folder / f"{truth}.csv",
                             *given)  # fmt: skip
        assert code == 0, err
        measured.append(out)
    assert measured[0] == measured[1]


def test_the_report_reads_them(folder, tmp_path):
    fit(folder, tmp_path / "m.hlpr", "scores.csv", "truth.csv")
    code, _, err = run("report", "--model", tmp_path / "m.hlpr", "--scores", folder / "odd.csv",
                       "--truth", folder / "odd_truth.csv", "--out", tmp_path / "r.html",
                       *OPTIONS)  # fmt: skip
    assert code == 0, err
    assert "160 of 240 samples were also used" in err


@pytest.mark.parametrize(
    ("scores", "given", "named"),
    [
        ("odd", (), "--sep ';'"),
        ("odd", OPTIONS[:2], "--decimal ,"),
    ],
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
    rows = [
        ",".join([f"p{i}", *("" if gap else str(x) for x, gap in zip(*row, strict=True))])
        for i, row in enumerate(zip(scores.tolist(), is_gap.tolist(), strict=True))
    ]
    held = [f"p{i},{','.join(map(str, row))}" for i, row in enumerate(truth.tolist())]
    for name, head, lines in (("s", "sample,A,B,C", rows), ("t", "sample,A,B,C", held)):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")
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
    code, _, err = run(*fit_gaps(gaps, "--missing-scores", "allow", "--fdr", 0.3))
    assert code == 0, err
    out = gaps / "calls.csv"
    code, _, err = run("rank", "--model", gaps / "m.hlpr", "--scores", gaps / "s.csv", "--out", out)
    assert code == 0, err
    assert out.read_bytes().count(b",p0,") == 3  # a sample without any score is ranked, too
    h = read_hierarchy(gaps / "h.csv")
    scores = read_scores(gaps / "s.csv", h, missing_scores="allow")
    code, out, err = run(*fit_gaps(gaps, "--missing-scores", "allow", "--json", "-"))
    assert code == 0, err
    assert json.loads(out)["samples_fitted"] == 120
    assert np.isnan(scores.table.values).sum() > 20
    truth = read_truth(gaps / "t.csv", h)
    HierLPR(h, missing="allow").fit(scores, truth).save(gaps / "p.hlpr")
    assert (gaps / "p.hlpr").read_bytes() == (gaps / "m.hlpr").read_bytes()


def test_infinite_scores_and_empty_truth_are_refused_all_the_same(gaps):
    (gaps / "s.csv").write_text("sample,A,B,C\np0,inf,,1\n")
    assert "infinite" in refused(*fit_gaps(gaps, "--missing-scores", "allow"))
