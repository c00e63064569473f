"""The study of sure and possible labels, reduced, and what its committed table must show."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[1] / "experiments" / "sets"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("sets_study", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_errors_are_within_three_standard_errors():
    with (HERE / "errors.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 3 * 2
    for row in rows:
        for kind in ("sure", "possible"):
            allowed = float(row["limit"]) + 3 * float(row[f"{kind}_se"])
            assert float(row[f"{kind}_short"]) <= allowed, row


@pytest.mark.parametrize("name", ["few", "dependent"])
def test_a_reduced_run_keeps_the_promise(study, name):
    config = study.read_config() | {"calibration_samples": [50], "pool_samples": 4000}
    for row in study.error_rates(name, config, 100):
        for kind in ("sure", "possible"):
            spread = max(float(row[f"{kind}_se"]), 0.3 / np.sqrt(100))
            assert float(row[f"{kind}_short"]) <= float(row["limit"]) + 3 * spread


def test_the_error_allowed_is_used_up_where_samples_differ():
    """With 2,000 samples, but where samples are of four kinds and cannot be told apart."""
    with (HERE / "errors.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["samples"] == "2000"]
    for row in rows:
        if row["confidence"] == "" and row["population"] != "few":
            for kind in ("sure", "possible"):
                assert abs(float(row[f"{kind}_error"]) - 0.1) < 0.005, row


def test_sure_sets_are_larger_than_those_of_both_other_rules():
    with (HERE / "sizes.csv").open() as file:
        rows = {(row["data"], row["method"]): row for row in csv.DictReader(file)}
    for data in ("taxonomy", "imclef07a"):
        ours = rows[data, "hierlpr, one path"]
        assert abs(float(ours["error"]) - 0.1) < 0.005
        assert float(ours["more_than_climb"]) > 3 * float(ours["se"])
        others = [name for kind, name in rows if kind == data and name.startswith(("climb", "top"))]
        assert len(others) == 7
        for other in others:
            assert float(ours["sure_labels"]) > float(rows[data, other]["sure_labels"]), other
