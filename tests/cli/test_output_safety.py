"""No command clears, replaces or removes what hierlpr did not make."""

import json
import shutil

import numpy as np
import pytest
from shellrun import refused, run

from hierlpr import Hierarchy, HierLPR
from hierlpr.data.tables import Table
from hierlpr.io import write_hierarchy, write_scores, write_truth

H = Hierarchy([("A", "B"), ("A", "C")])


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
    code, _, err = run("rank", "--model", folder / "model.hlpr", "--scores",
                       folder / "scores.csv", "--out", folder / "ranked.csv")  # fmt: skip
    assert code == 0, err
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
    code, _, err = run(*command(name, files, *out, "--work", work))
    assert code == 0, err
    assert contents(work) == before
    bad = files / ("ranked.csv" if name == "evaluate" else "scores.csv")
    bad.write_text("sample,A,B,C\ns1,x,y,z\n")
    assert run(*command(name, files, *out, "--work", work))[0] == 2
    assert contents(work) == before


INPUTS = {"fit": ["tree.csv", "scores.csv", "truth.csv"], "rank": ["model.hlpr", "scores.csv"],
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
