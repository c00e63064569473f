"""The paper's claims on seeded replications, and the machinery that checks them."""

import csv

import numpy as np
import pytest

from hierlpr.exceptions import DataError
from hierlpr.research import reproduce as run
from hierlpr.research.reproduce import Options, reproduce, studies
from hierlpr.research.reproduce.studies import CLAIMS, TABLE2, TARGETS

SMALL = Options(n_train=1500, n_test=500, n_trees=15, stopping=None)


def test_the_claims_on_a_few_replications():
    curves = run.Curves.of(
        run.run_study(studies.curves_replication, ["1", "2", "3", "4"], 5, SMALL)
    )
    for setting in ("1", "2", "3"):
        assert curves.difference(setting, "hit_area", "HierLPR", "LPR")[0] > 0.01
    # Without a hierarchy the two are the same.
    assert curves.difference("4", "hit_area", "HierLPR", "LPR") == (0.0, 0.0)
    # In setting 3 LPR alone starts better and then drops.
    assert curves.difference("3", "start", "LPR", "HierLPR")[0] > 0
    assert curves.difference("3", "middle", "HierLPR", "LPR")[0] > 0
    # Precision to recall 0.5: ClusHMC is ahead in setting 3 and behind in 4.
    assert curves.difference("3", "early", "ClusHMC", "HierLPR")[0] > 0
    assert curves.difference("4", "early", "HierLPR", "ClusHMC")[0] > 0
    # Nothing beats the true posterior.
    for setting in curves.settings:
        for method in ("LPR", "HierLPR", "ClusHMC"):
            gap, error = curves.difference(setting, "hit_area", "oracle", method)
            assert gap > -3 * error - 1e-3


@pytest.mark.slow
def test_the_claims_at_full_size():
    curves = run.Curves.of(
        run.run_study(studies.curves_replication, ["1", "2", "3", "4"], 40, Options(), n_jobs=2)
    )
    found = {(v.words, v.setting): v for v in run.check_claims(curves)}
    for claim in CLAIMS:
        if claim.setting == "disease":
            continue
        verdict = found[claim.words, claim.setting]
        if claim.sign == 0:
            assert verdict.difference == 0.0
        elif claim.measure == "early" and claim.setting in ("1", "2"):
            # Not borne out: with scores as features, bagged trees are level or a little ahead.
            assert verdict.holds in ("no", "undecided")
        else:
            assert verdict.difference > 2 * verdict.error, claim


def test_table2_differences_are_target_minus_achieved():
    rows = run.run_study(studies.table2_replication, ["4"], 3, Options(n_train=2000, n_test=500))
    assert [row["target"] for row in rows] == list(TARGETS) * 3
    summary = {row["target"]: row for row in run.summarize_table2(rows)}
    assert summary["0.80"]["paper_mean"] == TABLE2["4"]["0.80"][0]
    assert summary["max F"]["reachable"] == 1.0
    assert summary["max F"]["mean_all"] >= 0.0  # no cutoff beats the best one
    assert abs(summary["0.80"]["mean_if_reachable"]) < 8.0


def test_disease_study_prefers_hierlpr():
    curves = run.Curves.of(
        run.run_study(studies.disease_replication, ["disease"], 2, Options(n_trees=5, n_folds=3))
    )
    assert curves.difference("disease", "early", "HierLPR", "LPR")[0] > 0
    assert curves.difference("disease", "au_prc", "HierLPR", "ClusHMC")[0] > 0
    violations = {m: curves.mean("disease", m, "violations")[0] for m in curves.methods}
    assert violations["HierLPR"] == violations["ClusHMC"] == violations["corrected calls"] == 0
    assert violations["LPR"] > 1000
    assert violations["first-stage calls"] > 0


def test_replications_do_not_depend_on_company():
    first = studies.curves_replication("2", 3, SMALL)
    again = studies.curves_replication("2", 3, SMALL)
    other = studies.curves_replication("2", 4, SMALL)
    assert first[1]["hit_area"] == again[1]["hit_area"] != other[1]["hit_area"]


def test_precision_on_the_grid():
    # Recall 1/2 after the first call, 1 after the third.
    on_grid = studies._on_grid(np.array([True, False, True]))
    assert on_grid[0] == 1.0
    assert on_grid[np.searchsorted(studies.RECALL_GRID, 0.5 - 1e-9)] == 1.0
    assert on_grid[-1] == pytest.approx(2 / 3)


def test_reproduce_writes_everything(tmp_path):
    seen = []
    results = reproduce(
        "all", out=tmp_path, replications=2, on_progress=lambda *place: seen.append(place),
        options=Options(n_train=600, n_test=200, n_trees=3, stopping=None, n_folds=2),
    )  # fmt: skip
    assert seen[-1] == (18, 18)
    assert set(results) == {"curves", "verdicts", "disease", "n_disease", "table2"}
    stems = ("curves_half", "curves_full", "areas", "disease", "table2")
    for name in [f"{s}.{e}" for s in stems for e in ("svg", "png")]:
        assert (tmp_path / name).stat().st_size > 2000, name
    with (tmp_path / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 2 * 4
    assert "curve" not in rows[0]
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 5
    assert "http://www.w3.org" in page
    assert "src=" not in page  # nothing is fetched
    assert not list(tmp_path.glob(".hierlpr-*"))


def test_bad_input_is_named(tmp_path):
    with pytest.raises(DataError, match="'table2', 'curves'"):
        reproduce("figure7", out=tmp_path)
    with pytest.raises(DataError, match="at least 2"):
        reproduce("curves", out=tmp_path, replications=1)
