"""`rank` through pipes and with names of labels; `evaluate`, also against a CAFA evaluator."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from shellrun import run, succeeded

from hierlpr import Hierarchy, HierLPR
from hierlpr.cli import main
from realdata import DATA, needs_data

H = Hierarchy([("A", "B"), ("A", "C")], names={"B": 'a "bird", <b>', "C": "cat"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(0)
    truth = rng.random((60, 3)) < 0.5
    truth[:, 0] |= truth[:, 1:].any(axis=1)
    scores = np.round(rng.normal(truth, 0.7), 3)
    HierLPR(H, joint=False).fit(scores, truth).save(folder / "m.hlpr")
    bare = Hierarchy(H.edges, labels=H.labels)
    HierLPR(bare, joint=False).fit(scores, truth).save(folder / "bare.hlpr")
    rows = [f"p{i}," + ",".join(map(str, row)) for i, row in enumerate(scores)]
    (folder / "s.csv").write_text("sample,A,B,C\n" + "\n".join(rows) + "\n")
    return folder


def piped(*args, stdin=b""):
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_scores_come_from_stdin_and_calls_go_to_stdout(folder, tmp_path):
    assert run("rank", "--model", folder / "m.hlpr", "--scores", folder / "s.csv", "--out",
               tmp_path / "c.csv")[0] == 0  # fmt: skip
    given = (folder / "s.csv").read_bytes()
    args = ("rank", "--model", folder / "m.hlpr", "--scores", "-", "--out", "-")
    code, out, err = piped(*args, stdin=given)
    assert code == 0, err
    assert out == (tmp_path / "c.csv").read_text()
    assert err.startswith("stdin: ")
    assert "wrote stdout" in err
    assert "hierlpr-" not in err
    assert piped(*args, "--format", "tsv", stdin=given)[1].splitlines()[0].count("\t") == 2
    code, out, err = piped(*args, stdin=b"sample,A,B,C\nx,1,2,z\n")
    assert (code, out) == (2, "")
    assert "Error: stdin, line 2, column 'C': 'z' is not a number" in err
    assert "stdin: the file is empty" in piped(*args)[2]
    assert "cannot both go to stdout" in piped(*args, "--json", "-", stdin=given)[2]


@pytest.mark.skipif(os.name != "posix", reason="needs a shell with process substitution")
def test_pipes_and_closed_streams_leave_no_traceback(folder, tmp_path):
    base = f"{sys.executable} -m hierlpr rank --model {folder}/m.hlpr"
    scores = f"--scores {folder}/s.csv"
    out = tmp_path / "c.csv"
    lines = {
        f"{base} --scores <(cat {folder}/s.csv) --out {out} >&- 2>&-": 0,
        f"{base} --scores - --out {out} <&-": 2,
        f"{base} {scores} --out - >/dev/full": 1,
    }
    for line, code in lines.items():
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == code, (line, done.stderr)
        assert "Traceback" not in done.stderr


def test_one_file_comes_from_stdin(folder, tmp_path):
    code, _, err = piped("report", "--model", folder / "m.hlpr", "--scores", "-", "--truth", "-",
                         "--out", tmp_path / "r.html", stdin=b"x")  # fmt: skip
    assert code == 2
    assert "only one file can come from stdin" in err


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_names_are_a_last_column_on_request(folder, tmp_path, end):
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    out = tmp_path / f"c.{end}"
    succeeded(
        "rank",
        *("--model", folder / "m.hlpr", "--scores", folder / "s.csv", "--out", out),
        "--with-names",
    )
    table = pq.read_table(out) if end == "parquet" else pacsv.read_csv(out)
    assert table.column_names == ["rank", "sample", "label", "lpr", "score", "call", "name"]
    pairs = set(zip(table["label"].to_pylist(), table["name"].to_pylist(), strict=True))
    assert pairs == {("A", ""), ("B", 'a "bird", <b>'), ("C", "cat")}


def test_names_that_cannot_be_written(folder, tmp_path):
    args = ("rank", "--scores", folder / "s.csv", "--with-names", "--model")
    code, _, err = run(*args, folder / "bare.hlpr", "--out", tmp_path / "c.csv")
    assert (code, "has no names" in err) == (2, True)
    code, _, err = run(*args, folder / "m.hlpr", "--out", tmp_path / "c.tsv")
    assert (code, "no column for names" in err) == (2, True)


TREE = "parent,child\nA,B\nA,C\n"
RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n3,s2,A,0.1,0.1,0\n"
TRUTH = "sample,A,B,C\ns1,1,1,0\ns2,0,0,0\n"


@pytest.fixture
def files(tmp_path):
    for name, text in (("tree.csv", TREE), ("r.csv", RANKING), ("t.csv", TRUTH)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_evaluate(files):
    out_file = files / "m.json"
    out, err = succeeded(
        "evaluate", "--hierarchy", files / "tree.csv", "--ranking", files / "r.csv",
        "--truth", files / "t.csv", "--json", out_file,
    )  # fmt: skip
    assert "normalized hit area" in out
    assert "evaluated 3 of 6 instances, 2 of them positive" in err
    found = json.loads(out_file.read_text())
    assert found["sizes"] == {"samples": 2, "labels": 3, "instances": 6, "positives": 2,
                              "listed": 3, "called": 2}  # fmt: skip
    assert found["ranking"]["normalized hit area"] == 1.0
    assert found["decisions"]["precision"] == 1.0
    assert found["decisions"]["recall"] == 1.0
    assert found["ranking"]["parents after a child"] == 0
    _code, out, _ = run(
        "evaluate", "--hierarchy", files / "tree.csv", "--ranking", files / "r.csv",
        "--truth", files / "t.csv", "--json", "-", "-q",
    )  # fmt: skip
    assert json.loads(out) == found


def test_evaluate_samples_without_truth_and_without_ranking(files):
    (files / "l.csv").write_text("sample,label\ns1,A\ns9,A\ns9,C\n")
    base = ("evaluate", "--hierarchy", files / "tree.csv", "--ranking", files / "r.csv",
            "--truth", files / "l.csv", "--json", "-")  # fmt: skip
    out, err = succeeded(*base)
    sizes = json.loads(out)["sizes"]
    assert (sizes["samples"], sizes["positives"], sizes["listed"]) == (3, 3, 3)
    assert "taken to have no positive label: 's2'" in err
    assert "1 samples with truth are not in the ranking" in err
    _code, out, err = run(*base, "--missing-truth", "skip")
    assert json.loads(out)["sizes"]["listed"] == 2
    assert "left out: 's2'" in err


def test_evaluate_cafa_files_of_a_hierarchy_with_other_names(files):
    (files / "p.tsv").write_text("s1\tA\t0.9\ns1\tB\t0.9\ns2\told\t0.3\n")
    (files / "g.tsv").write_text("s1\tB\ns2\tA\n")
    obo = "format-version: 1.2\n[Term]\nid: A\n[Term]\nid: B\nalt_id: old\nis_a: A\n"
    (files / "h.obo").write_text(obo)
    out, _ = succeeded("evaluate", "--hierarchy", files / "h.obo", "--ranking", files / "p.tsv",
                         "--truth", files / "g.tsv", "--json", "-")  # fmt: skip
    found = json.loads(out)
    assert found["decisions"] == {}
    assert found["ranking"]["F-max, CAFA"] == pytest.approx(6 / 7)  # precision .75, recall 1


def their_f_max(obo, ranking, truth):
    evaluation = pytest.importorskip("cafaeval.evaluation")
    folder = ranking.parent / "predictions"
    folder.mkdir()
    (folder / ranking.name).write_bytes(ranking.read_bytes())
    _, best = evaluation.cafa_eval(str(obo), str(folder), str(truth))
    return float(best["f"]["f"].iloc[0])


def our_f_max(obo, ranking, truth):
    out, _ = succeeded(
        "evaluate", "--hierarchy", obo, "--ranking", ranking, "--truth", truth, "--json", "-"
    )
    return json.loads(out)["ranking"]["F-max, CAFA"]


@needs_data
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(1, 6))
def test_f_max_of_real_predictions(tmp_path, number):
    obo, truth = DATA / "cafa/IDPO_disorder_function.obo", DATA / "cafa/ground_truth.tsv"
    ranking = tmp_path / "p.tsv"
    ranking.write_bytes((DATA / f"cafa/predictions/pred_{number}.tsv").read_bytes())
    assert our_f_max(obo, ranking, truth) == pytest.approx(
        their_f_max(obo, ranking, truth), abs=1e-12
    )
