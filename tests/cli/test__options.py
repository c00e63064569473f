"""Options of tables (semicolons, decimal commas, gaps), and outputs that meet other files."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from shellrun import refused, run, succeeded

from hierlpr import Hierarchy, HierLPR, read_hierarchy
from hierlpr.data.tables import Table
from hierlpr.io import read_scores, read_truth, write_hierarchy, write_scores, write_truth

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
    ("scores", "given", "named"), [("odd", (), "--sep ';'"), ("odd", OPTIONS[:2], "--decimal ,")]
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    truth = H.close_upward(rng.random((120, 3)) < 0.3)
    scores = np.round(rng.normal(size=truth.shape) + truth, 2)
    names = tuple(f"s{i}" for i in range(120))
    write_hierarchy(folder / "tree.csv", H)
    for ending in ("csv", "parquet"):
        write_scores(folder / f"scores.{ending}", Table(scores, H.labels, names))
        write_truth(folder / f"truth.{ending}", Table(truth.astype(float), H.labels, names))
    model = HierLPR(H, lpr="isotonic", joint=False).fit(scores[:60], truth[:60])
    model.calibrate(scores[60:], truth[60:], maximize="f1")
    model.save(folder / "model.hlpr")
    succeeded("rank", "--model", folder / "model.hlpr", "--scores",
                       folder / "scores.csv", "--out", folder / "ranked.csv")  # fmt: skip
    return folder


@pytest.fixture
def files(made, tmp_path):
    shutil.copytree(made, tmp_path / "in")
    return tmp_path / "in"


def command(name, folder, *more):
    f = {path.name: path for path in folder.iterdir()}
    args = {
        "fit": ["--hierarchy", f["tree.csv"], "--scores", f["scores.csv"], "--truth",
                f["truth.csv"], "--no-joint", "--lpr", "isotonic"],
        "rank": ["--model", f["model.hlpr"], "--scores", f["scores.csv"]],
        "check": ["--model", f["model.hlpr"], "--scores", f["scores.csv"]],
        "evaluate": ["--hierarchy", f["tree.csv"], "--ranking", f["ranked.csv"], "--truth",
                     f["truth.csv"]],
        "report": ["--model", f["model.hlpr"], "--scores", f["scores.csv"], "--truth",
                   f["truth.csv"]],
    }[name]  # fmt: skip
    return [name, *args, *more, "-q"]


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
            for p in folder.rglob("*")}  # fmt: skip


OUT = {"fit": "m2.hlpr", "rank": "calls.csv", "report": "page.html"}


@pytest.mark.parametrize("name", ["fit", "rank", "evaluate"])
def test_a_work_folder_keeps_what_is_in_it(files, tmp_path, name):
    work = tmp_path / "home"
    (work / "thesis").mkdir(parents=True)
    (work / "thesis" / "text.tex").write_text("years of work")
    (work / "plan.json").write_text("{}")
    (work / "lock").write_text("mine")
    (work / "work").mkdir()
    before = contents(work)
    out = ["--out", tmp_path / OUT[name]] if name in OUT else []
    succeeded(*command(name, files, *out, "--work", work))
    assert contents(work) == before
    bad = files / ("ranked.csv" if name == "evaluate" else "scores.csv")
    bad.write_text("sample,A,B,C\ns1,x,y,z\n")
    assert run(*command(name, files, *out, "--work", work))[0] == 2
    assert contents(work) == before


INPUTS = {"fit": ["tree.csv", "scores.csv", "truth.csv"], "rank": ["model.hlpr", "scores.csv"],
          "check": ["model.hlpr", "scores.csv"],
          "evaluate": ["tree.csv", "ranked.csv", "truth.csv"],
          "report": ["model.hlpr", "scores.csv", "truth.csv"]}  # fmt: skip


@pytest.mark.parametrize(("name", "source"), [(n, s) for n, all_ in INPUTS.items() for s in all_])
@pytest.mark.parametrize("way", ["same", "link", "hard link", "dots"])
def test_an_output_that_is_an_input_is_refused(files, name, source, way):
    out = files / source
    if way == "link":
        out = files / f"link-{source}"
        out.symlink_to(source)
    elif way == "hard link":
        out = files / f"hard-{source}"
        out.hardlink_to(files / source)
    elif way == "dots":
        out = files / ".." / "in" / source
    option = "--json" if name == "evaluate" else "--out"
    before = contents(files)
    err = refused(*command(name, files, option, out))
    assert "would be overwritten" in err
    assert contents(files) == before


def test_json_and_folders_that_meet_inputs_or_outputs_are_refused(files, tmp_path):
    before = contents(files)
    out = tmp_path / "calls.csv"
    for name in ("model.hlpr", "scores.csv"):
        refused(*command("rank", files, "--out", out, "--json", files / name))
    refused(*command("rank", files, "--out", out, "--json", out))
    assert contents(files) == before
    assert not out.exists()
    (tmp_path / "many").mkdir()
    shutil.copy(files / "scores.parquet", tmp_path / "many")
    many = ["rank", "--model", files / "model.hlpr", "--scores", tmp_path / "many"]
    for more in (["--out", tmp_path / "many" / "x.parquet"], ["--out", tmp_path / "many"]):
        refused(*many, *more)
    assert list(contents(tmp_path / "many")) == ["scores.parquet"]


@pytest.mark.parametrize("args", [["demo"], ["simulate", "--setting", "1", "--samples", "60"]])
def test_a_folder_of_results_keeps_files_of_the_users(tmp_path, args):
    file = tmp_path / "scores.csv"
    file.write_text("mine")
    assert f"{file.name} exists" in refused(*args, "--out", tmp_path)
    assert contents(tmp_path) == {file.name: b"mine"}
    if args[0] == "simulate":
        file.unlink()
        (tmp_path / "other.csv").write_text("mine")
        for _ in range(2):
            assert run(*args, "--out", tmp_path)[0] == 0
        listed = json.loads((tmp_path / "_hierlpr.json").read_text())["files"]
        assert "other.csv" not in listed
