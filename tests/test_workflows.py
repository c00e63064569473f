"""Held at once or in parts: the same files, and the same words."""

import numpy as np
import pytest

from hierlpr import Hierarchy, HierlprError, simulate, workflows
from hierlpr.data.tables import Table
from hierlpr.io import read_hierarchy, write_hierarchy, write_scores, write_truth
from hierlpr.scale import fit_parts, rank_parts

FAST = {"lpr": "isotonic", "joint": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    h = simulate.random_dag(15, rng=rng)
    names = tuple(f"s{i}" for i in range(300))
    write_hierarchy(folder / "tree.csv", h)
    for prefix in ("", "test_"):
        truth = h.close_upward(rng.random((300, 15)) < 0.15)
        scores = np.round(rng.normal(size=truth.shape) + truth, 2)
        write_scores(folder / f"{prefix}scores.csv", Table(scores, h.labels, names))
        write_truth(folder / f"{prefix}truth.csv", Table(truth.astype(float), h.labels, names))
    return folder


PARTS = [{}, {"work": "work"}, {"partitions": 4}, {"resume": True}]


def test_all_the_way_in_any_parts(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for i, parts in enumerate(PARTS):
        model, calls = tmp_path / f"m{i}.hlpr", tmp_path / f"r{i}.csv"
        fitted = workflows.fit_file(
            files / "tree.csv", files / "scores.csv", files / "truth.csv", model,
            goal={"fdr": 0.3}, **FAST, **parts,
        )  # fmt: skip
        ranked = workflows.rank_file(model, files / "scores.csv", calls, **parts)
        judged = workflows.evaluate_file(calls, files / "truth.csv", files / "tree.csv", **parts)
        assert fitted.model.cutoff_.to_dict() == ranked.cutoff.to_dict()
        found.append((model.read_bytes(), calls.read_bytes(), judged.evaluation, fitted.notes,
                      fitted.n_fitted, fitted.n_calibration, fitted.n_calibration_given,
                      [report.lines() for report in fitted.reports],
                      (ranked.n_rows, ranked.n_calls, ranked.report.lines())))  # fmt: skip
    for other in found[1:]:
        assert other == found[0]
    assert {p.suffix for p in tmp_path.iterdir()} == {".hlpr", ".csv"}


def test_a_report_in_parts_is_that_of_the_whole(files, tmp_path):
    model = tmp_path / "m.hlpr"
    given = (model, files / "test_scores.csv", files / "test_truth.csv")
    h = read_hierarchy(files / "tree.csv")
    workflows.fit_file(h, files / "scores.csv", files / "truth.csv", model, **FAST)
    pages = []
    for parts in ({}, {"work": tmp_path / "work"}):
        done = workflows.report_file(*given, tmp_path / "page.html", title="A page", **parts)
        pages.append((tmp_path / "page.html").read_bytes())
        assert done.report.answer.n_samples == 300
        assert not done.notes
    assert pages[0] == pages[1]


def test_a_report_of_more_than_can_be_held_says_so(files, tmp_path, monkeypatch):
    model = tmp_path / "m.hlpr"
    given = (model, files / "test_scores.csv", files / "test_truth.csv")
    workflows.fit_file(files / "tree.csv", files / "scores.csv", files / "truth.csv", model, **FAST)
    monkeypatch.setattr(fit_parts.StoredSamples, "report_limit", lambda self: 100)
    monkeypatch.setattr("hierlpr.scale.budget.FIT_BYTES", 10**9)
    done = workflows.report_file(*given, tmp_path / "page.html", memory="70MB")
    assert done.report.answer.n_samples == 100
    assert done.notes == (
        "100 of 300 samples are looked at, drawn at random; more would not fit",
    )  # fmt: skip


def test_memory_decides(files, tmp_path, monkeypatch):
    seen = []

    class TakenError(Exception):
        pass

    def take(*args, **options):
        seen.append((args[-1].budget.memory, options["top"]))
        raise TakenError

    monkeypatch.setattr(rank_parts, "rank_in_parts", take)
    model = tmp_path / "m.hlpr"
    workflows.fit_file(files / "tree.csv", files / "scores.csv", files / "truth.csv", model, **FAST)
    workflows.rank_file(model, files / "scores.csv", tmp_path / "r.csv")
    assert not seen
    monkeypatch.setattr("hierlpr.scale.budget.WHOLE_BYTES", 10**9)
    with pytest.raises(TakenError):
        workflows.rank_file(model, files / "scores.csv", tmp_path / "r.csv", memory="70MB", top=3)
    with pytest.raises(TakenError):
        workflows.rank_file(model, files / "scores.csv", tmp_path / "folder")
    assert seen == [(70_000_000, 3), (10**9, None)]


def test_inputs_are_not_overwritten(files, tmp_path):
    before = (files / "tree.csv").read_bytes()
    with pytest.raises(HierlprError, match="the output is also the hierarchy"):
        workflows.fit_file(files / "tree.csv", files / "scores.csv", files / "truth.csv",
                           files / "tree.csv")  # fmt: skip
    with pytest.raises(HierlprError, match="no such file"):
        workflows.fit_file(Hierarchy([("A", "B")]), tmp_path / "none.csv", files / "truth.csv",
                           tmp_path / "m.hlpr")  # fmt: skip
    assert (files / "tree.csv").read_bytes() == before


def test_check_writes_over_no_input(files, tmp_path):
    model = tmp_path / "m.hlpr"
    workflows.fit_file(files / "tree.csv", files / "scores.csv", files / "truth.csv", model)
    (tmp_path / "again.csv").hardlink_to(files / "scores.csv")
    before = model.read_bytes(), (files / "scores.csv").read_bytes()
    for out in (model, files / "scores.csv", tmp_path / "again.csv"):
        with pytest.raises(HierlprError, match=r"the adapted model is also the (model|scores)"):
            workflows.check_file(model, files / "scores.csv", adapt=out)
    assert (model.read_bytes(), (files / "scores.csv").read_bytes()) == before
