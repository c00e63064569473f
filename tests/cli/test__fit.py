"""The installed command, as a process of its own: from files to calls and a measure of them."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from shellrun import refused, run, succeeded

from cases import write_obo
from hierlpr import HierLPR, simulate
from hierlpr.data.tables import Table
from hierlpr.io import read_hierarchy, read_ranking, write_scores


def command(*args, **options):
    """Run ``python -m hierlpr`` and return the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "hierlpr", *map(str, args)],
        capture_output=True, text=True, timeout=240, check=False, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    succeeded("simulate", "--setting", "tree25", "--out", folder, "--samples", 600,
                       "--seed", 5)  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def fitted(example):
    done = command(
        "fit", "--hierarchy", example / "hierarchy.csv", "--scores", example / "scores.csv",
        "--truth", example / "truth.csv", "--fdr", "0.1", "--out", example / "m.hlpr",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "200 of 600 samples are kept for the cutoff (seed 0)" in done.stderr
    assert "25 labels, 400 samples fitted, 200 for calibration" in done.stderr
    assert "The joint posterior is used" in done.stderr
    assert "FDR" in done.stdout
    assert "\r" not in done.stderr  # no progress bar outside a terminal
    return example


def test_two_commands_from_files_to_calls(fitted):
    done = command("rank", "--model", fitted / "m.hlpr", "--scores", fitted / "test_scores.csv",
                   "--out", fitted / "r.csv")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "wrote" in done.stderr
    h = read_hierarchy(fitted / "hierarchy.csv")
    ranked = read_ranking(fitted / "r.csv", h)
    assert len(ranked) == 120 * 25
    assert (np.diff(ranked.score) <= 0).all()
    assert 0 < ranked.call.sum() < len(ranked)
    _, out, _ = run(
        "evaluate", "--hierarchy", fitted / "hierarchy.csv", "--ranking", fitted / "r.csv",
        "--truth", fitted / "test_truth.csv", "--json", "-",
    )  # fmt: skip
    found = json.loads(out)
    assert found["ranking"]["parents after a child"] == 0
    assert found["decisions"]["calls without a parent"] == 0
    assert found["decisions"]["FDR"] < 0.25


def test_an_interrupted_run_leaves_the_old_file(fitted, tmp_path):
    out = tmp_path / "r.csv"
    out.write_text("old")
    # A large input, so that the interruption hits reading, ranking or writing.
    text = (fitted / "scores.csv").read_text().splitlines()
    rows = [line.split(",", 1)[1] for line in text[1:]]
    big = tmp_path / "big.csv"
    big.write_text(text[0] + "\n" + "".join(f"b{i},{rows[i % 600]}\n" for i in range(60_000)))
    process = subprocess.Popen(
        [sys.executable, "-m", "hierlpr", "rank", "--model", fitted / "m.hlpr", "--scores", big,
         "--out", out], stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if any(tmp_path.glob(".hierlpr-*/*")):
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["big.csv", "r.csv"]
    assert "Traceback" not in err
    if process.returncode != 0:
        assert process.returncode == 130
        assert out.read_text() == "old"
    else:  # it was done before the signal came
        assert len(out.read_text().splitlines()) == 60_000 * 25 + 1


# -- in this process: every format and option -------------------------------------------------


def fit_files(folder, hierarchy, scores, truth, *more, by=succeeded):
    return by("fit", "--hierarchy", hierarchy, "--scores", scores, "--truth", truth,
               "--out", folder / "m.hlpr", *more)  # fmt: skip


def test_rank_options(fitted, tmp_path):
    base = ("rank", "--model", fitted / "m.hlpr", "--scores", fitted / "test_scores.csv")
    succeeded(*base, "--out", tmp_path / "all.parquet", "--json", tmp_path / "r.json")
    told = json.loads((tmp_path / "r.json").read_text())
    whole = read_ranking(tmp_path / "all.parquet")
    assert (told["rows"], told["calls"]) == (len(whole), int(whole.call.sum()))
    run(*base, "--out", tmp_path / "top.csv", "--top", 50)
    top = read_ranking(tmp_path / "top.csv")
    assert len(top) == 50
    np.testing.assert_allclose(top.score, whole.score[:50], atol=5e-7)  # six digits
    run(*base, "--out", tmp_path / "calls.csv", "--calls-only")
    calls = read_ranking(tmp_path / "calls.csv")
    assert len(calls) == told["calls"]
    assert calls.call.all()
    assert "ending" in refused(*base, "--out", tmp_path / "x.xlsx", "-q")


def test_fit_says_what_cannot_be_reached(fitted, tmp_path):
    out, err = fit_files(
        tmp_path, fitted / "hierarchy.csv", fitted / "scores.csv", fitted / "truth.csv",
        "--precision", "0.9999", "--confidence", "0.95", "--json", "-",
    )  # fmt: skip
    told = json.loads(out)
    assert told["cutoff"]["reachable"] is False
    assert "cannot certify this" in err
    assert told["samples_for_cutoff"] == 200
    scores = ("--model", tmp_path / "m.hlpr", "--scores", fitted / "test_scores.csv")
    for command, out in (("rank", "r.csv"), ("report", "r.html")):
        _, err = succeeded(command, *scores, "--out", tmp_path / out)
        assert "Nothing is called." in err
    assert not read_ranking(tmp_path / "r.csv").call.any()
    (tmp_path / "r.csv").write_text((fitted / "test_scores.csv").read_text().replace(",0.", ",7."))
    args = (*scores[:3], tmp_path / "r.csv", "--out", tmp_path / "r.html")
    assert "are they on the same scale?" in succeeded("report", *args)[1]


def test_calibration_files_and_lenient(fitted, tmp_path):
    extra = tmp_path / "s.csv"
    extra.write_text((fitted / "scores.csv").read_text() + "broken,1\n")
    base = (fitted / "hierarchy.csv", extra, fitted / "truth.csv", "--fdr", "0.2",
            "--calibration-scores", fitted / "test_scores.csv",
            "--calibration-truth", fitted / "test_truth.csv")  # fmt: skip
    assert "s.csv, line 602" in fit_files(tmp_path, *base, by=refused)
    _, err = fit_files(tmp_path, *base, "--lenient")
    assert "skipped" in err
    assert "600 samples fitted, 120 for calibration" in err
    assert "are kept for" not in err
    assert "exclude" in fit_files(tmp_path, *base, "--calibration-share", ".4", by=refused)
    base = (fitted / "hierarchy.csv", fitted / "scores.csv", fitted / "truth.csv", "--fdr", "0.2")
    _, err = fit_files(tmp_path, *base, "--calibration-share", "0.4")
    assert "240 of 600 samples are kept for the cutoff" in err


@pytest.mark.parametrize("kind", ["limit", "groups"])
def test_calls_in_files_keep_the_limit_of_calls(tmp_path, kind):
    """Limits are part of the certificate: all instances, only calls, and the first ones."""
    h = simulate.random_forest(8, n_trees=3, rng=1)
    drawn = simulate.random_model(h, rng=1).draw(240, 2)
    scores, names = np.round(drawn.scores, 1), tuple(f"s{i}" for i in range(240))
    model = HierLPR(h, lpr="isotonic", joint=False).fit(scores[:120], drawn.truth[:120])
    if kind == "limit":
        model.calibrate(scores[120:], drawn.truth[120:], maximize="f1")
        model.cutoff_ = replace(model.cutoff_, level=0.05, max_calls=2)
    else:
        model.calibrate(scores[120:], drawn.truth[120:], maximize="f1", groups="tree")
        limited = {name: replace(part, level=0.05, max_calls=1 + i % 2)
                   for i, (name, part) in enumerate(model.cutoff_.groups.items())}  # fmt: skip
        model.cutoff_ = replace(model.cutoff_, groups=limited)
    model.save(tmp_path / "m.hlpr")
    write_scores(tmp_path / "s.parquet", Table(scores, h.labels, names))
    called = np.asarray(model.predict(scores))
    assert called.sum() < (model.predict_proba(scores) >= 0.05).sum()
    wanted = {(names[i], h.labels[j]) for i, j in zip(*np.nonzero(called), strict=True)}
    for more in ([], ["--calls-only"], ["--top", 60]):
        succeeded("rank", "-q", "--model", tmp_path / "m.hlpr", "--scores",
                           tmp_path / "s.parquet", "--out", tmp_path / "r.csv", *more)  # fmt: skip
        with (tmp_path / "r.csv").open() as file:
            rows = [(r["sample"], r["label"], r["call"] == "1") for r in csv.DictReader(file)]
        listed = {row[:2] for row in rows}
        assert {row[:2] for row in rows if row[2]} == wanted & listed
        if "--top" not in more:
            assert wanted <= listed
        if "--calls-only" in more:
            assert all(row[2] for row in rows)


def test_other_names_of_labels_are_understood(example, tmp_path):
    h = read_hierarchy(example / "hierarchy.csv")
    write_obo(tmp_path / "h.obo", h)
    text = (tmp_path / "h.obo").read_text()
    (tmp_path / "h.obo").write_text(text.replace("id: A\n", "id: A\nalt_id: old:1\n", 1))
    for name in ("scores.csv", "truth.csv"):
        text = (example / name).read_text()
        (tmp_path / name).write_text(text.replace("sample,A,", "sample,old:1,", 1))
    fit_files(tmp_path, tmp_path / "h.obo", tmp_path / "scores.csv",
                             tmp_path / "truth.csv")  # fmt: skip
    base = ("rank", "--model", tmp_path / "m.hlpr", "--scores", tmp_path / "scores.csv",
            "--out", tmp_path / "r.csv", "-q")  # fmt: skip
    assert "label 'old:1' is not in the hierarchy" in refused(*base)
    succeeded(*base, "--hierarchy", tmp_path / "h.obo")


def test_clusters_from_a_column_or_a_file(tmp_path):
    """Three visits of each of 200 patients: from tables to calls, clusters kept whole."""
    data = simulate.disease(n_samples=200, rng=0)
    labels = list(data.hierarchy.labels)
    rows = np.repeat(np.arange(200), 3)
    noise = 0.01 * np.random.default_rng(1).random((600, len(labels)))
    frame = pd.DataFrame(data.scores[rows] + noise, columns=labels)
    truth = pd.DataFrame(data.truth[rows].astype(int), columns=labels)
    for table in (frame, truth):
        table.insert(0, "sample", [f"s{i:04d}" for i in range(600)])
    truth.to_csv(tmp_path / "truth.csv", index=False)
    write_obo(tmp_path / "h.obo", data.hierarchy)
    frame.to_csv(tmp_path / "plain.csv", index=False)
    ids = pd.DataFrame({"sample": frame["sample"], "patient": [f"p{i}" for i in rows]})
    ids.to_csv(tmp_path / "ids.csv", index=False)
    frame.insert(1, "patient", ids["patient"])
    frame.to_csv(tmp_path / "scores.csv", index=False)
    frame.to_parquet(tmp_path / "scores.parquet", index=False)
    goal = ("--precision", 0.8, "--confidence", 0.9, "--error", 0.2)
    texts = []
    for scores, clusters in (
        ("scores.csv", "patient"), ("scores.parquet", "patient"),
        ("plain.csv", tmp_path / "ids.csv"),
    ):  # fmt: skip
        out, _ = succeeded(
            "fit", "--hierarchy", tmp_path / "h.obo", "--scores", tmp_path / scores, "--truth",
            tmp_path / "truth.csv", *goal, "--clusters", clusters, "--out", tmp_path / "m.hlpr",
        )  # fmt: skip
        texts.append(out)
        assert "300 calibration samples in 100 clusters" in out
        succeeded(
            "rank", "--model", tmp_path / "m.hlpr", "--scores", tmp_path / scores, "--clusters",
            clusters, "--out", tmp_path / "calls.csv",
        )  # fmt: skip
    used = ("--model", tmp_path / "m.hlpr", "--clusters", tmp_path / "ids.csv")
    for scores in ("plain.csv", "scores.parquet"):
        given = (*used[:3], "patient" if scores == "scores.parquet" else used[3])
        given = (*given, "--scores", tmp_path / scores)
        succeeded("sets", *given, "--out", tmp_path / "sets.csv")
        succeeded("check", *given)
        succeeded("report", *given, "--truth", tmp_path / "truth.csv", "--out", tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text()
        assert "600 samples in 200 clusters" in page
        assert "samples of new clusters like those of the calibration samples" in page
        succeeded("report", *given, "--out", tmp_path / "r.html")
    out, _ = succeeded(
        "evaluate", "--hierarchy", tmp_path / "h.obo", "--ranking", tmp_path / "calls.csv",
        "--truth", tmp_path / "truth.csv", *used[2:],
    )  # fmt: skip
    assert re.search(r"samples +600\n(.*\n)* +clusters +200\n", out)
    assert texts[0] == texts[1] == texts[2]
    fit = ("fit", "--hierarchy", tmp_path / "h.obo", "--truth", tmp_path / "truth.csv", *goal,
           "--out", tmp_path / "m.hlpr")  # fmt: skip
    message = refused(*fit, "--scores", tmp_path / "plain.csv", "--clusters", "patient")
    assert "neither a file nor a column" in message
    frame.loc[3, "patient"] = None
    frame.to_csv(tmp_path / "scores.csv", index=False)
    message = refused(*fit, "--scores", tmp_path / "scores.csv", "--clusters", "patient")
    assert "sample 's0003' has no cluster" in message
    ids.assign(patient="one").to_csv(tmp_path / "one.csv", index=False)
    message = refused(*fit, "--scores", tmp_path / "plain.csv", "--clusters", tmp_path / "one.csv")
    assert "all 600 samples are of one cluster" in message
    (tmp_path / "one.csv").write_text("sample,cluster\n")
    message = refused(*fit, "--scores", tmp_path / "plain.csv", "--clusters", tmp_path / "one.csv")
    assert "no sample has a cluster" in message
    ids.assign(patient=rows // 20).to_csv(tmp_path / "ten.csv", index=False)
    _, message = succeeded(
        *fit, "--scores", tmp_path / "plain.csv", "--clusters", tmp_path / "ten.csv"
    )
    assert "5 clusters cannot certify this; about 15 are needed (11 if all calls" in message
    ids[:300].to_csv(tmp_path / "ids.csv", index=False)
    message = refused(*fit, "--scores", tmp_path / "plain.csv", "--clusters", tmp_path / "ids.csv")
    assert "300 of 600 ids are missing, the first of sample 's0300'" in message
