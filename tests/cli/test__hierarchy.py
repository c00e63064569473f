"""``hierlpr inspect``, ``evaluate`` (also against a CAFA evaluator) and ``discover``."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shellrun import refused, run, succeeded

from hierlpr import discover, read_hierarchy
from realdata import DATA, needs_data

SMALL = "parent,child\nA,B\nA,C\n"


@pytest.fixture
def small(tmp_path):
    (tmp_path / "tree.csv").write_text(SMALL)
    return tmp_path


def test_inspect_text_json_and_quiet(small):
    out, err = succeeded("inspect", small / "tree.csv")
    assert "kind          forest" in out
    assert "roots         1: A" in out
    assert "problems      none" in out
    assert "read 3 labels and 2 edges (" in err
    _code, out, err = run("inspect", small / "tree.csv", "--json", "--quiet")
    facts = json.loads(out)
    assert (facts["labels"], facts["depth"], facts["multi_parent"]) == (3, 2, 0)
    assert err == ""


def test_terminal_escapes_in_names_are_shown_as_text(small):
    (small / "evil.json").write_text(json.dumps({"B": "\x1b[2JA", "C": "\x1b[2JA"}))
    out, _ = succeeded("inspect", small / "evil.json")
    assert "\x1b" not in out
    assert r"\x1b[2JA" in out


def test_inspect_lists_what_lenient_reading_passed_over(small):
    (small / "bad.csv").write_text(SMALL + "B,B\nA,B,C\n")
    assert "bad.csv, line " in refused("inspect", small / "bad.csv")
    out, _ = succeeded("inspect", small / "bad.csv", "--lenient")
    assert "problem       line 4: label 'B' is its own parent." in out
    assert "problem       the row has 3 columns" in out


TREE = 'parent,child\nA,B\nA,"C, d"\n"C, d",E\n'
TABLE = 'label,p\nA,0.2\nB,0.5\n"C, d",0.001\nE,1e-4\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tree.csv").write_text(TREE)
    (tmp_path / "p.csv").write_text(TABLE)
    return tmp_path


def command(folder, *more, p="p.csv"):
    return ("discover", "--hierarchy", folder / "tree.csv", "--p-values", folder / p, *more)


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet"])
@pytest.mark.parametrize("dependence", ["positive", "independent", "arbitrary"])
def test_the_table_is_that_of_the_library(folder, ending, dependence):
    out = folder / f"found.{ending}"
    said, _ = succeeded(*command(folder, "--out", out, "--dependence", dependence))
    assert "Holds:" in said
    h = read_hierarchy(folder / "tree.csv")
    expected = discover(
        {"A": 0.2, "B": 0.5, "C, d": 0.001, "E": 1e-4}, h, dependence=dependence
    ).to_frame()
    if ending == "parquet":
        found = pd.read_parquet(out)
    else:
        found = pd.read_csv(out, sep="\t" if ending == "tsv" else ",")
    assert list(found.columns) == ["rank", "label", "p", "lpr", "level", "rejected"]
    assert found["label"].tolist() == expected["label"].tolist()
    digits = 12 if ending == "parquet" else 6
    np.testing.assert_allclose(found["level"], expected["level"], atol=0.6 * 10.0**-digits)
    np.testing.assert_array_equal(found["rejected"].astype(bool), expected["rejected"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.tsv", TABLE.replace('"C, d"', "C, d").replace(",0", "\t0").replace(",1e", "\t1e")
         .replace("label,p", "label\tp")),
        ("p.csv.gz", gzip.compress(TABLE.encode(), mtime=0)),
        ("other.csv", "# made by hand\nnote,pvalue,Label\r\n,0.2,A\r\nx,0.5,B\r\n"
         ',0.001,"C, d"\r\n,0.0001,E\r\n'),
        ("p.parquet", None),
    ],
    ids=["tsv", "gz", "other", "parquet"],
)  # fmt: skip
def test_tables_of_every_kind_give_the_same(folder, name, content):
    path = folder / name
    if content is None:
        columns = {"label": ["E", "C, d", "B", "A"], "p": [1e-4, 0.001, 0.5, 0.2]}
        pq.write_table(pa.table(columns), path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for given in ("p.csv", name):
        succeeded(*command(folder, "--json", folder / f"{given}.json", p=given))
    first, second = (json.loads((folder / f"{g}.json").read_text()) for g in ("p.csv", name))
    assert first == second
    assert first["rejected"] == ["A", "C, d", "E"]


def test_missing_p_values_and_json_on_stdout(folder):
    (folder / "p.csv").write_text('label,p\nB,NA\n"C, d",\nE,1e-4\n')
    out, err = succeeded(*command(folder, "--json", "-"))
    assert json.loads(out)["n_p_values"] == 1
    assert "3 labels without one" in err


def test_bayes_and_seed(folder):
    out, _ = succeeded(*command(folder, "--bayes", "--fdr", "0.3"))
    assert "model-based" in out
    assert run(*command(folder, "--dependence", "independent", "--seed", "3"))[0] == 0


def test_outputs_never_overwrite_inputs(folder):
    said = refused(*command(folder, "-q", "--out", folder / "p.csv"))
    assert "p.csv" in said
    assert (folder / "p.csv").read_text() == TABLE
    assert "no such file" in refused(*command(folder, "-q", p="none.csv"))


RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n3,s2,A,0.1,0.1,0\n"
TRUTH = "sample,A,B,C\ns1,1,1,0\ns2,0,0,0\n"


@pytest.fixture
def files(small):
    (small / "r.csv").write_text(RANKING)
    (small / "t.csv").write_text(TRUTH)
    return small


def evaluation(files, *more, tree="tree.csv", ranking="r.csv", truth="t.csv"):
    given = {"--hierarchy": tree, "--ranking": ranking, "--truth": truth}
    return ("evaluate", *(x for name, file in given.items() for x in (name, files / file)), *more)


def test_evaluate(files):
    out_file = files / "m.json"
    out, err = succeeded(*evaluation(files, "--json", out_file))
    assert "normalized hit area" in out
    assert "evaluated 3 of 6 instances, 2 of them positive" in err
    found = json.loads(out_file.read_text())
    assert found["sizes"] == {"samples": 2, "labels": 3, "instances": 6, "positives": 2,
                              "listed": 3, "called": 2}  # fmt: skip
    assert found["ranking"]["normalized hit area"] == 1.0
    assert found["decisions"]["precision"] == 1.0
    assert found["decisions"]["recall"] == 1.0
    assert found["ranking"]["parents after a child"] == 0
    assert json.loads(run(*evaluation(files, "--json", "-", "-q"))[1]) == found


def test_evaluate_samples_without_truth_and_without_ranking(files):
    (files / "l.csv").write_text("sample,label\ns1,A\ns9,A\ns9,C\n")
    base = evaluation(files, "--json", "-", truth="l.csv")
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
    given = {"tree": "h.obo", "ranking": "p.tsv", "truth": "g.tsv"}
    found = json.loads(succeeded(*evaluation(files, "--json", "-", **given))[0])
    assert found["decisions"] == {}
    assert found["ranking"]["F-max, CAFA"] == pytest.approx(6 / 7)  # precision .75, recall 1


def their_f_max(obo, ranking, truth):
    evaluation = pytest.importorskip("cafaeval.evaluation")
    folder = ranking.parent / "predictions"
    folder.mkdir()
    (folder / ranking.name).write_bytes(ranking.read_bytes())
    _, best = evaluation.cafa_eval(str(obo), str(folder), str(truth))
    return float(best["f"]["f"].iloc[0])


@needs_data
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(1, 6))
def test_f_max_of_real_predictions(tmp_path, number):
    obo, truth = DATA / "cafa/IDPO_disorder_function.obo", DATA / "cafa/ground_truth.tsv"
    ranking = tmp_path / "p.tsv"
    ranking.write_bytes((DATA / f"cafa/predictions/pred_{number}.tsv").read_bytes())
    given = {"tree": obo, "ranking": ranking, "truth": truth}
    ours = json.loads(succeeded(*evaluation(tmp_path, "--json", "-", **given))[0])
    theirs = their_f_max(obo, ranking, truth)
    assert ours["ranking"]["F-max, CAFA"] == pytest.approx(theirs, abs=1e-12)
