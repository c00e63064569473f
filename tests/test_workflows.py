"""From files to files: in memory, streamed, and on a random subset."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hierlpr import HierarchicalClassifier, Hierarchy, HierlprError, load_model, simulate, workflows
from hierlpr.data.tables import Table
from hierlpr.io import read_hierarchy, write_hierarchy, write_scores, write_truth

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
    fit = (folder / "tree.csv", folder / "scores.csv", folder / "truth.csv", folder / "m.hlpr")
    workflows.fit_file(*fit, goal={"fdr": 0.3}, **FAST)
    return folder


@pytest.fixture
def no_memory(monkeypatch):
    """Make every instance so large that a hundred samples fill the memory."""
    monkeypatch.setattr("hierlpr.outofcore.batches.FIT_BYTES", 10**9 // (100 * 15))
    size = property(lambda self: 300)
    monkeypatch.setattr("hierlpr.outofcore.resources.RunOptions.batch_instances", size)


def test_a_model_is_that_of_the_estimator(files, tmp_path):
    done = workflows.fit_file(
        read_hierarchy(files / "tree.csv"),
        files / "scores.csv",
        files / "truth.csv",
        tmp_path / "m.hlpr",
        goal={"fdr": 0.3},
        **FAST,
    )
    assert (done.n_fitted, done.n_calibration) == (150, 150)
    assert not done.notes
    read = load_model(tmp_path / "m.hlpr")
    assert read.cutoff_.to_dict() == done.model.cutoff_.to_dict()
    ranked = workflows.rank_file(tmp_path / "m.hlpr", files / "scores.csv", tmp_path / "r.csv")
    assert ranked.cutoff.to_dict() == read.cutoff_.to_dict()
    found = workflows.evaluate_file(tmp_path / "r.csv", files / "truth.csv", files / "tree.csv")
    assert found.evaluation.sizes["called"] == ranked.n_calls
    assert found.evaluation.ranking["parents after a child"] == 0


def test_fit_check_and_report_use_a_random_subset(files, tmp_path, no_memory):
    given = (files / "tree.csv", files / "scores.csv", files / "truth.csv", tmp_path / "m.hlpr")
    done = workflows.fit_file(*given, goal={"fdr": 0.3}, **FAST)
    n = done.n_fitted + done.n_calibration
    assert 50 < n < 200
    assert f"{n} of 300 samples are used, drawn at random" in done.notes[0]
    again = workflows.fit_file(*given, goal={"fdr": 0.3}, **FAST)
    assert again.model.cutoff_.to_dict() == done.model.cutoff_.to_dict()
    other = workflows.fit_file(*given, goal={"fdr": 0.3}, seed=1, **FAST)
    assert (other.model.lpr_.curves.knot_score != done.model.lpr_.curves.knot_score[:1]).any()
    drift, _, notes = workflows.check_file(files / "m.hlpr", files / "test_scores.csv")
    assert f"{drift.n_samples} of 300 samples" in notes[0]
    page = workflows.report_file(
        files / "m.hlpr", files / "test_scores.csv", files / "test_truth.csv", tmp_path / "p.html"
    )
    assert f"{page.report.answer.n_samples} of 300 samples" in page.notes[0]


def test_what_cannot_be_used_is_refused_before_any_work(files, tmp_path):
    h = Hierarchy([("A", "B")])
    with pytest.raises(HierlprError, match="no such file"):
        workflows.fit_file(h, tmp_path / "none.csv", files / "truth.csv", tmp_path / "m.hlpr")
    pair = (files / "scores.csv", files / "truth.csv")
    with pytest.raises(HierlprError, match="no goal"):
        workflows.fit_file(files / "tree.csv", *pair, tmp_path / "m", calibration=pair)
    with pytest.raises(HierlprError, match="the ending of the output"):
        workflows.rank_file(files / "m.hlpr", files / "scores.csv", tmp_path / "r.xyz")
    with pytest.raises(HierlprError, match="sure and possible"):
        workflows.sets_file(files / "m.hlpr", files / "scores.csv", tmp_path / "r.csv")
    truth = np.tile([[1, 1], [1, 0], [0, 0]], (20, 1))
    features = truth + np.random.default_rng(0).normal(size=truth.shape)
    classifier = HierarchicalClassifier(LogisticRegression(), h, cv=2, joint=False)
    classifier.fit(features, truth).save(tmp_path / "c.hlpr")
    with pytest.raises(HierlprError, match="takes features"):
        workflows.rank_file(tmp_path / "c.hlpr", files / "scores.csv", tmp_path / "r.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"c.hlpr"}


@pytest.mark.filterwarnings("ignore:.*too few to learn from")
def test_too_few_samples_and_other_scores_are_said(files, tmp_path):
    for name in ("scores", "truth"):
        lines = (files / f"{name}.csv").read_text().splitlines()[:9]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    given = (files / "tree.csv", tmp_path / "scores.csv", tmp_path / "truth.csv")
    done = workflows.fit_file(*given, tmp_path / "m.hlpr", goal={"fdr": 0.3}, **FAST)
    assert "4 calibration samples are too few; about 40 are needed" in done.notes
    header, *rows = (files / "test_scores.csv").read_text().splitlines()
    scaled = [",".join([row.split(",")[0], *(f"{100 * float(x)}" for x in row.split(",")[1:])])
              for row in rows]  # fmt: skip
    (tmp_path / "scaled.csv").write_text("\n".join([header, *scaled]) + "\n")
    for scores, is_noted in ((files / "test_scores.csv", False), (tmp_path / "scaled.csv", True)):
        ranked = workflows.rank_file(files / "m.hlpr", scores, tmp_path / "r.csv")
        assert any("outside the range" in note for note in ranked.notes) is is_noted
