"""``hierlpr inspect`` and ``discover``: files in and out, and what they refuse."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shellrun import refused, run, succeeded

from hierlpr import discover, read_hierarchy

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
    np.testing.assert_allclose(found["level"], expected["level"])
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
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_bytes(content.encode())
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fdr", "0"), "fdr must lie strictly between 0 and 1"),
        (("--fdr", "1.5"), "fdr"),
        (("--fdr", "x"), "'x' is not a valid float"),
        (("--dependence", "some"), "'some' is not one of"),
        (("--seed", "-1"), "not in the range"),
        (("--out", "found.xlsx"), "'.parquet', '.csv', '.tsv'"),
    ],
)
def test_bad_options(folder, options, message):
    assert message in refused(*command(folder, "-q", *options))


def test_outputs_never_overwrite_inputs(folder):
    said = refused(*command(folder, "-q", "--out", folder / "p.csv"))
    assert "p.csv" in said
    assert (folder / "p.csv").read_text() == TABLE
    assert "no such file" in refused(*command(folder, "-q", p="none.csv"))
