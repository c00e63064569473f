"""The committed study of yeast genes on the Gene Ontology: its claims, and a reduced run."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from realdata import DATA, needs_data

STUDY = Path(__file__).parents[1] / "experiments" / "go_yeast"


def rows(name):
    with (STUDY / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_hierlpr_is_best_among_ours_and_breaks_nothing():
    ours = [row for row in rows("comparison") if "published" not in row["method"]]
    best = max(ours, key=lambda row: float(row["au_prc"]))
    assert best["method"] == "HierLPR"
    assert best["violated_edges"] == "0"
    assert all(row["edges_broken"] == row["not_certified"] == "0" for row in rows("ranking"))


def test_cutoffs_keep_their_targets_on_the_test_genes():
    for row in rows("cutoffs"):
        assert row["calls_without_a_parent"] == "0"
        if row["goal"].startswith("FDR"):
            assert 1.0 - float(row["precision_on_test"]) <= float(row["goal"].split()[1])


@needs_data
@pytest.mark.slow
def test_a_reduced_run_works():
    environment = {**os.environ, "HIERLPR_DATA": str(DATA.resolve())}
    command = [sys.executable, str(STUDY / "run.py"), "--labels", "60"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "'edges_broken': 0" in done.stdout
