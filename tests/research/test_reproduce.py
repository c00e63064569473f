"""The paper's claims on seeded replications, and the files that `reproduce` writes."""

import csv

import numpy as np
import pytest

from hierlpr.exceptions import DataError
from hierlpr.research.reproduce import (
    CLAIMS,
    RECALL_GRID,
    TABLE2,
    TARGETS,
    Options,
    check_claims,
    difference,
    precision_on_grid,
    replicate,
    reproduce,
    summarize_table2,
)

SMALL = Options(n_train=1500, n_test=500, n_trees=15, stopping=None)


def run(study, settings, n, options):
    return [row for s in settings for r in range(n) for row in replicate(study, s, r, options)]


def test_the_claims_on_a_few_replications():
    rows = run("curves", "1234", 5, SMALL)
    for setting in "123":
        assert difference(rows, setting, "hit_area", "HierLPR", "LPR")[0] > 0.01
    # Without a hierarchy the two are the same.
    assert difference(rows, "4", "hit_area", "HierLPR", "LPR") == (0.0, 0.0)
    # In setting 3 LPR alone starts better and then drops.
    assert difference(rows, "3", "start", "LPR", "HierLPR")[0] > 0
    assert difference(rows, "3", "middle", "HierLPR", "LPR")[0] > 0
    # Precision to recall 0.5: ClusHMC is ahead in setting 3 and behind in 4.
    assert difference(rows, "3", "early", "ClusHMC", "HierLPR")[0] > 0
    assert difference(rows, "4", "early", "HierLPR", "ClusHMC")[0] > 0
    # Nothing beats the true posterior.
    for setting in "1234":
        for method in ("LPR", "HierLPR", "ClusHMC"):
            gap, error = difference(rows, setting, "hit_area", "oracle", method)
            assert gap > -3 * error - 1e-3


@pytest.mark.slow
def test_the_claims_at_full_size(tmp_path):
    rows = reproduce("curves", out=tmp_path, replications=40, n_jobs=2)["curves"]
    found = {(row["text"], row["setting"]): row for row in check_claims(rows)}
    for claim in CLAIMS:
        if claim.setting == "disease":
            continue
        row = found[claim.text, claim.setting]
        if claim.equal:
            assert row["difference"] == 0.0
        elif claim.measure == "early" and claim.setting in ("1", "2"):
            # Not confirmed: with scores as features, bagged trees are level or a little ahead.
            assert row["holds"] in ("no", "undecided")
        else:
            assert row["difference"] > 2 * row["error"], claim


def test_table2_differences_are_target_minus_achieved():
    rows = run("table2", "4", 3, Options(n_train=2000, n_test=500))
    assert [row["target"] for row in rows] == list(TARGETS) * 3
    summary = {row["target"]: row for row in summarize_table2(rows)}
    assert summary["0.80"]["paper_mean"] == TABLE2["4"][1][0]
    assert summary["max F"]["reachable"] == 1.0
    assert summary["max F"]["mean_if_reachable"] >= 0.0  # no cutoff beats the best one
    assert abs(summary["0.80"]["mean_if_reachable"]) < 8.0


def test_disease_study_prefers_hierlpr():
    rows = run("curves", ["disease"], 2, Options(n_trees=5, n_folds=3))
    assert difference(rows, "disease", "early", "HierLPR", "LPR")[0] > 0
    assert difference(rows, "disease", "au_prc", "HierLPR", "ClusHMC")[0] > 0


def test_precision_on_the_grid():
    # Recall 1/2 after the first call, 1 after the third.
    on_grid = precision_on_grid(np.array([True, False, True]))
    assert on_grid[0] == 1.0
    assert on_grid[np.searchsorted(RECALL_GRID, 0.5 - 1e-9)] == 1.0
    assert on_grid[-1] == pytest.approx(2 / 3)


def test_reproduce_writes_everything(tmp_path):
    seen = []
    small = Options(n_train=600, n_test=200, n_trees=3, stopping=None, n_folds=2)
    tell = lambda *place: seen.append(place)  # noqa: E731
    results = reproduce("all", out=tmp_path, replications=2, on_progress=tell, options=small)
    assert seen[-1] == (18, 18)
    assert set(results) == {"curves", "table2", "claims"}
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    with (tmp_path / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 2 * 4
    assert "curve" not in rows[0]
    with (tmp_path / "claims.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(CLAIMS)


def test_bad_input_is_named(tmp_path):
    with pytest.raises(DataError, match="'table2', 'curves'"):
        reproduce("figure7", out=tmp_path)
    with pytest.raises(DataError, match="at least 2"):
        reproduce("curves", out=tmp_path, replications=1)
