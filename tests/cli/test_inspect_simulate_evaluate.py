"""inspect, simulate and evaluate, with everything they print."""

import json

import numpy as np
import pytest
from shellrun import refused, run

from hierlpr.io import read_hierarchy, read_scores, read_truth

TREE = "parent,child\nA,B\nA,C\n"
RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n3,s2,A,0.1,0.1,0\n"
TRUTH = "sample,A,B,C\ns1,1,1,0\ns2,0,0,0\n"


@pytest.fixture
def files(tmp_path):
    for name, text in (("tree.csv", TREE), ("r.csv", RANKING), ("t.csv", TRUTH)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_inspect_text_json_and_quiet(files):
    code, out, err = run("inspect", files / "tree.csv")
    assert code == 0
    assert "kind          forest" in out
    assert "roots         1: A" in out
    assert "problems      none" in out
    assert "read 3 labels and 2 edges (" in err
    code, out, err = run("inspect", files / "tree.csv", "--json", "--quiet")
    facts = json.loads(out)
    assert (facts["labels"], facts["depth"], facts["multi_parent"]) == (3, 2, 0)
    assert err == ""


def test_terminal_escapes_in_names_are_shown_as_text(files):
    (files / "evil.json").write_text(json.dumps({"B": "\x1b[2JA", "C": "\x1b[2JA"}))
    code, out, err = run("inspect", files / "evil.json")
    assert code == 0, err
    assert "\x1b" not in out
    assert r"\x1b[2JA" in out


def test_inspect_lists_what_lenient_reading_passed_over(files):
    (files / "bad.csv").write_text(TREE + "B,B\nA,B,C\n")
    assert "bad.csv, line " in refused("inspect", files / "bad.csv")
    code, out, _ = run("inspect", files / "bad.csv", "--lenient")
    assert code == 0
    assert "problem       line 4: label 'B' is its own parent." in out
    assert "problem       the row has 3 columns" in out


@pytest.mark.parametrize(
    ("setting", "labels"), [("3", 3), ("tree25", 25), ("dag", 30), ("forest", 30)]
)
def test_simulate_writes_files_that_read_back(tmp_path, setting, labels):
    code, out, err = run(
        "simulate", "--setting", setting, "--out", tmp_path / "x", "--samples", 300, "--labels", 30
    )
    assert code == 0
    assert len(out.splitlines()) == 6
    assert "wrote 300 + 60 samples" in err
    h = read_hierarchy(tmp_path / "x/hierarchy.csv")
    assert h.n_labels == labels
    scores = read_scores(tmp_path / "x/scores.csv", h).table
    assert scores.values.shape == (300, labels)
    assert read_truth(tmp_path / "x/test_truth.csv", h).table.n_samples == 60


def test_simulate_is_set_by_its_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("simulate", "--setting", "disease", "--out", tmp_path / name, "--seed", seed,
            "--format", "parquet")  # fmt: skip
    a, b, c = (read_scores(tmp_path / x / "scores.parquet").table.values for x in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_evaluate(files):
    out_file = files / "m.json"
    code, out, err = run(
        "evaluate", "--hierarchy", files / "tree.csv", "--ranking", files / "r.csv",
        "--truth", files / "t.csv", "--json", out_file,
    )  # fmt: skip
    assert code == 0, err
    assert "normalized hit area" in out
    assert "evaluated 3 of 6 instances, 2 of them positive" in err
    found = json.loads(out_file.read_text())
    assert found["sizes"] == {"samples": 2, "labels": 3, "instances": 6, "positives": 2,
                              "listed": 3, "called": 2}  # fmt: skip
    assert found["ranking"]["normalized hit area"] == 1.0
    assert found["decisions"]["precision"] == 1.0
    assert found["decisions"]["recall"] == 1.0
    assert found["ranking"]["parents after a child"] == 0
    code, out, _ = run(
        "evaluate", "--hierarchy", files / "tree.csv", "--ranking", files / "r.csv",
        "--truth", files / "t.csv", "--json", "-", "-q",
    )  # fmt: skip
    assert json.loads(out) == found


def test_evaluate_samples_without_truth_and_without_ranking(files):
    (files / "l.csv").write_text("sample,label\ns1,A\ns9,A\ns9,C\n")
    base = ("evaluate", "--hierarchy", files / "tree.csv", "--ranking", files / "r.csv",
            "--truth", files / "l.csv", "--json", "-")  # fmt: skip
    code, out, err = run(*base)
    assert code == 0, err
    sizes = json.loads(out)["sizes"]
    assert (sizes["samples"], sizes["positives"], sizes["listed"]) == (3, 3, 3)
    assert "taken to have no positive label: 's2'" in err
    assert "1 samples with truth are not in the ranking" in err
    code, out, err = run(*base, "--missing-truth", "skip")
    assert json.loads(out)["sizes"]["listed"] == 2
    assert "left out: 's2'" in err


def test_evaluate_cafa_files_of_a_hierarchy_with_other_names(files):
    (files / "p.tsv").write_text("s1\tA\t0.9\ns1\tB\t0.9\ns2\told\t0.3\n")
    (files / "g.tsv").write_text("s1\tB\ns2\tA\n")
    obo = "format-version: 1.2\n[Term]\nid: A\n[Term]\nid: B\nalt_id: old\nis_a: A\n"
    (files / "h.obo").write_text(obo)
    code, out, err = run("evaluate", "--hierarchy", files / "h.obo", "--ranking", files / "p.tsv",
                         "--truth", files / "g.tsv", "--json", "-")  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert found["decisions"] == {}
    assert found["ranking"]["F-max, CAFA"] == pytest.approx(6 / 7)  # precision .75, recall 1


def test_disk_full_is_exit_code_1_and_internal_errors_do_not_spill(files, monkeypatch):
    import hierlpr.io.hierarchies as module

    def broken(*_, **__):
        raise RuntimeError("inside")

    monkeypatch.setattr(module, "parse_edge_list", broken)
    code, out, err = run("inspect", files / "tree.csv")
    assert (code, out) == (1, "")
    assert "unexpected RuntimeError: inside" in err
    assert "Traceback" not in err

    def full(*_, **__):
        raise OSError(28, "No space left on device", "x.csv")

    monkeypatch.setattr(module, "parse_edge_list", full)
    code, _, err = run("inspect", files / "tree.csv")
    assert code == 1
    assert "x.csv: No space left on device" in err
    monkeypatch.setattr(module, "parse_edge_list", broken)
    monkeypatch.setenv("HIERLPR_DEBUG", "1")
    with pytest.raises(RuntimeError, match="inside"):
        run("inspect", files / "tree.csv")
