"""Bad input of every kind ends with exit code 2 and one message that names the place.

Tables are read whole and in parts: the message must be the same.
"""

import io
import json

import numpy as np
import pytest
from badfiles import (
    HIERARCHIES,
    RANKING,
    RANKINGS,
    SCORE_FILES,
    SCORES,
    TREE,
    TRUTH,
    TRUTH_FILES,
)
from shellrun import refused

from hierlpr import HierLPR, read_hierarchy


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    for name, text in (("tree.csv", TREE), ("scores.csv", SCORES), ("truth.csv", TRUTH),
                       ("ranking.csv", RANKING)):  # fmt: skip
        (folder / name).write_text(text)
    return folder


def given(content, path):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cases(listed):
    ids = [f"{i}-{end}" for i, (end, _, _) in enumerate(listed)]
    return pytest.mark.parametrize(("end", "content", "message"), listed, ids=ids)


def names(said, path, message):
    return str(path) in said


def test_there_are_enough():
    assert len(HIERARCHIES) + len(SCORE_FILES) + len(TRUTH_FILES) + len(RANKINGS) >= 77 + 55 + 60


@cases(HIERARCHIES)
def test_hierarchies(tmp_path, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    said = refused("inspect", path)
    assert names(said, path, message), said


@cases(SCORE_FILES)
def test_scores(tmp_path, good, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    args = ["fit", "-q", "--hierarchy", good / "tree.csv", "--scores", path, "--truth",
            good / "truth.csv", "--out", tmp_path / "m.hlpr"]  # fmt: skip
    said = refused(*args)
    assert names(said, path, message), said
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@cases(TRUTH_FILES)
def test_truth(tmp_path, good, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    args = ["fit", "-q", "--hierarchy", good / "tree.csv", "--scores", good / "scores.csv",
            "--truth", path, "--out", tmp_path / "m.hlpr"]  # fmt: skip
    said = refused(*args)
    assert names(said, path, message), said


@cases(RANKINGS)
def test_rankings(tmp_path, good, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    args = ["evaluate", "-q", "--hierarchy", good / "tree.csv", "--ranking", path, "--truth",
            good / "truth.csv"]  # fmt: skip
    said = refused(*args)
    assert names(said, path, message), said


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_folders_of_parquet_files(tmp_path, good, end):
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / f"a.{end}").write_bytes(SCORES.encode())
    args = ["fit", "-q", "--hierarchy", good / "tree.csv", "--scores", folder, "--truth",
            good / "truth.csv", "--out", tmp_path / "m.hlpr"]  # fmt: skip
    said = refused(*args)
    assert {"csv": "many: the folder holds no .parquet file",
            "parquet": "a.parquet: this is not a readable Parquet file"}[end] in said  # fmt: skip


@pytest.fixture(scope="module")
def model_parts(good):
    """Arrays of a model file."""
    h = read_hierarchy(good / "tree.csv")
    truth = np.array([[1, i % 2, 0] for i in range(9)])
    HierLPR(h, joint=False).fit(np.arange(27.0).reshape(9, 3), truth).save(good / "m.hlpr")
    with np.load(good / "m.hlpr") as held:
        return dict(held)


def changed_model(parts, name, value):
    sink = io.BytesIO()
    arrays = {**parts, name: value} if value is not None else {
        key: array for key, array in parts.items() if key != name
    }  # fmt: skip
    np.savez(sink, **arrays)
    return sink.getvalue()


@pytest.mark.parametrize("bad", [
    "cut", "no meta", "no knots", "meta is text", "meta is pickled", "later format", "other knots",
    "a list",
])  # fmt: skip
def test_changed_models(tmp_path, good, model_parts, bad):
    whole = (good / "m.hlpr").read_bytes()
    meta = json.loads(bytes(model_parts["meta"]).decode()) if bad == "later format" else {}
    content = {
        "cut": lambda: whole[: len(whole) // 2],
        "no meta": lambda: changed_model(model_parts, "meta", None),
        "no knots": lambda: changed_model(model_parts, "lpr_.curves.knot_lpr", None),
        "meta is text": lambda: changed_model(model_parts, "meta", np.frombuffer(b"{oh", np.uint8)),
        "meta is pickled": lambda: changed_model(model_parts, "meta", np.array([{}], object)),
        "later format": lambda: changed_model(
            model_parts, "meta",
            np.frombuffer(json.dumps({**meta, "format": [99, 0]}).encode(), np.uint8),
        ),
        "other knots": lambda: changed_model(model_parts, "lpr_.curves.knot_lpr", np.zeros(3)),
        "a list": lambda: b"[1, 2]",
    }[bad]()  # fmt: skip
    path = given(content, tmp_path / "bad.hlpr")
    said = refused("rank", "--model", path, "--scores", good / "scores.csv", "--out",
                   tmp_path / "r.csv")  # fmt: skip
    assert "bad.hlpr" in said
    assert [p.name for p in tmp_path.iterdir()] == ["bad.hlpr"]


@pytest.mark.parametrize(
    "content", [b"", b"not a model", TREE.encode(), b"PK\x03\x04junk"], ids=range(4)
)
def test_models(tmp_path, good, content):
    path = given(content, tmp_path / "bad.hlpr")
    said = refused("rank", "--model", path, "--scores", good / "scores.csv", "--out",
                   tmp_path / "r.csv")  # fmt: skip
    assert "bad.hlpr" in said
    assert [p.name for p in tmp_path.iterdir()] == ["bad.hlpr"]


def fit_args(good, *more):
    return ("fit", "-q", "--hierarchy", good / "tree.csv", "--scores", good / "scores.csv",
            "--truth", good / "truth.csv", *more)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fdr", "1.5"], "--fdr must lie strictly between 0 and 1"),
        (["--fdr", "10"], "Hint: 10 % is 0.1."),
        (["--fdr", "ten"], "'ten' is not a valid float"),
        (["--fdr", "0.1", "--max-f"], "--fdr and --max-f exclude each other"),
        (["--confidence", "0.9"], "--confidence needs --fdr or --precision"),
        (["--max-f", "--beta", "-1"], "--beta must be a number from 1e-100 to 1e100"),
        (["--max-f", "--beta", "1e308"], "--beta must be a number from 1e-100 to 1e100"),
        (["--max-f", "--beta", "nan"], "--beta must be a number from 1e-100 to 1e100"),
        (["--lpr", "magic"], "'magic' is not one of"),
        (["--calibration-scores", "x"], "give both --calibration-scores"),
        (["--fdr", "0.1", "--calibration-scores", "no.csv", "--calibration-truth", "no.csv"],
         "no.csv: there is no such file"),
        (["--max-weight", "2"], "--max-weight needs --weights and a target with --confidence"),
        (["--fdr", "0.1", "--weights", "w.csv", "--max-weight", "2"], "--max-weight needs"),
        (["--fdr", "0.1", "--confidence", "0.9", "--weights", "w.csv"], "needs --max-weight"),
        *((["--fdr", "0.1", "--confidence", "0.9", "--weights", "w.csv", "--max-weight", bound],
           "--max-weight must be a positive number") for bound in ("0", "-1", "inf", "nan")),
    ],
)  # fmt: skip
def test_options(tmp_path, good, options, message):
    assert message in refused(*fit_args(good, "--out", tmp_path / "m.hlpr", *options))


def test_an_empty_separator(tmp_path):
    said = refused("inspect", given("A/B\n", tmp_path / "p.txt"), "--path-sep", "")
    assert "separator of a path list must not be empty" in said


def test_places_that_cannot_be_written_or_read(tmp_path, good):
    nowhere = tmp_path / "none" / "m.hlpr"
    assert str(nowhere) in refused(*fit_args(good, "--out", nowhere))
    assert "no such file" in refused("inspect", tmp_path / "none.obo")
    assert str(tmp_path) in refused("inspect", tmp_path)


def test_too_few_samples_to_split(tmp_path, good):
    few = given("sample,A,B,C\ns1,1,1,1\ns2,0,0,0\n", tmp_path / "few.csv")
    said = refused(
        "fit", "-q", "--hierarchy", good / "tree.csv", "--scores", few, "--truth",
        good / "truth.csv", "--fdr", "0.1", "--missing-truth", "skip", "--out", tmp_path / "m.hlpr",
    )  # fmt: skip
    assert "few.csv: 2 sample(s) cannot be split" in said
