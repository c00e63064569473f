"""The committed table of the real-data study, and a part of it run again."""

import csv
import importlib.util
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from realdata import needs_data

FOLDER = Path(__file__).resolve().parents[1] / "experiments" / "real"
CONSISTENT = ("max_propagation", "top_down", "HierLPR", "ClusHMC")


def results():
    with (FOLDER / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {(row["set"], row["model"], row["method"]): row for row in rows}


def study():
    spec = importlib.util.spec_from_file_location("real_study", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, tomllib.loads((FOLDER / "config.toml").read_text())


def test_hierlpr_is_above_the_simple_remedies_on_most_sets():
    table = results()
    cases = [(name, model) for name, model, method in table if method == "HierLPR"]
    assert len(cases) >= 8
    wins = 0
    for case in cases:
        ours = float(table[*case, "HierLPR"]["au_prc"])
        others = ("raw_scores", "max_propagation", "top_down")
        wins += all(ours > float(table[*case, other]["au_prc"]) for other in others)
    assert wins > len(cases) / 2


def test_consistent_methods_have_no_violation():
    for (_, _, method), row in results().items():
        assert (int(row["violations"]) == 0) == (method in CONSISTENT)


@pytest.mark.parametrize("name", ["cellcycle_FUN", "eisen_FUN", "gasch1_FUN"])
def test_clus_reaches_the_published_ensemble(name):
    row = results()[name, "-", "ClusHMC"]
    assert float(row["au_prc"]) == pytest.approx(float(row["CLUS-ENS"]), abs=0.01)


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_table_can_be_made_again():
    module, config = study()
    for row in module.run_set("enron", config, ["logistic"]):
        stored = results()["enron", "logistic", row["method"]]
        assert row["au_prc"] == pytest.approx(float(stored["au_prc"]), abs=0.003)
    (row,) = module.run_set("eisen_FUN", config, ["clus"])
    stored = results()["eisen_FUN", "-", "ClusHMC"]
    assert row["au_prc"] == pytest.approx(float(stored["au_prc"]), abs=0.003)


@pytest.mark.parametrize(
    ("script", "maker", "file"),
    [
        ("real/default.py", "tables", "default.csv"),
        ("small/run.py", "table", "results.csv"),
    ],
)
def test_the_page_of_the_default_says_what_its_files_say(script, maker, file):
    path = FOLDER.parent / script
    spec = importlib.util.spec_from_file_location("study_of_the_default", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (FOLDER.parents[1] / "docs" / "evidence-first-stage.md").read_text()
    for line in getattr(module, maker)(path.with_name(file)).splitlines():
        assert line in page


def test_the_default_against_published_results():
    with (FOLDER / "default.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(int(row["violations"]) == 0 for row in rows)
    means = {
        name: np.mean([float(row["default"]) for row in rows if row["set"] == name])
        for name in dict.fromkeys(row["set"] for row in rows)
    }
    for row in rows:
        assert means[row["set"]] > float(row["CLUS-ENS"] or 0.0)
    # The page says that the default is above the network everywhere: a set where it is not must
    # stay in the file, and change the page and this line.
    loses = {row["set"] for row in rows if means[row["set"]] <= float(row["C-HMCNN"])}
    assert loses == set()
    assert len(means) == 6
