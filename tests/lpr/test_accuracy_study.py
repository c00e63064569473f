"""The committed accuracy study: what it claims, and that a reduced run reproduces it."""

import csv
import importlib.util
import tomllib
from pathlib import Path

import numpy as np
import pytest

STUDY = Path(__file__).parents[2] / "experiments" / "lpr_accuracy"


@pytest.fixture(scope="module")
def config():
    return tomllib.loads((STUDY / "config.toml").read_text())


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("lpr_accuracy_run", STUDY / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(name):
    with (STUDY / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def accuracy_table():
    return {
        (r["family"], r["quality"], float(r["prevalence"]), r["estimator"]): r
        for r in rows("accuracy")
    }


def test_auto_is_near_the_best_and_beats_the_published_estimator_in_every_cell(config):
    table = {key: float(row["rmse"]) for key, row in accuracy_table().items()}
    part = config["accuracy"]
    for quality, best in part["best"].items():
        for prevalence, reference in zip(part["prevalences"], best, strict=True):
            assert table["beta", quality, prevalence, "auto"] <= part["allowance"] * reference
    cells = [key[:3] for key in table if key[3] == "auto"]
    assert len(cells) == 27
    for cell in cells:
        assert table[(*cell, "auto")] < table[(*cell, "published")]


def test_calibration_study_matches_every_bin():
    table = rows("calibration")
    assert {row["positives"] for row in table} == {"15", "250"}
    assert all(row["matches"] == "True" for row in table)


def test_shared_curves_help_rare_labels():
    nats = {
        (r["scales"], float(r["expected_positives"]), r["curves"]): float(r["nats"])
        for r in rows("rare")
    }
    for scales in ("one", "own"):
        for expected in (0.5, 1, 2, 4, 8, 12, 20, 40):
            assert nats[scales, expected, "auto"] < nats[scales, expected, "own"]


def test_a_reduced_run_reproduces_the_committed_numbers(study, config):
    estimators = ("auto", "p-spline", "density-ratio", "isotonic")
    reduced = config | {"accuracy": config["accuracy"] | {"prevalences": [0.003, 0.05]}}
    reduced["accuracy"] |= {"families": ["beta", "two-humped"]}
    expected = accuracy_table()
    column = f"rmse_first_{study.REDUCED}"
    for row in study.accuracy(reduced, study.REDUCED, estimators):
        key = (row["family"], row["quality"], row["prevalence"], row["estimator"])
        assert row["rmse"] == pytest.approx(float(expected[key][column]), rel=0.01, abs=0.01)


def test_the_eighth_power_changes_no_rank_based_lpr(study):
    rng = np.random.default_rng(0)
    scores, truth, _ = study.draw(rng, "beta", 4.0, 0.05, 2000, exact=True)
    for method in ("auto", "published"):
        plain = study.estimate(method, scores[:, None], truth[:, None])
        assert np.array_equal(study.estimate(method, (scores**8)[:, None], truth[:, None]), plain)


@pytest.mark.slow
def test_the_whole_study_of_the_default_is_reproduced(study, config):
    expected = accuracy_table()
    for row in study.accuracy(config, config["accuracy"]["replications"], ("auto",)):
        key = (row["family"], row["quality"], row["prevalence"], row["estimator"])
        assert row["rmse"] == pytest.approx(float(expected[key]["rmse"]), rel=0.01, abs=0.01)
    committed = rows("calibration")
    again = list(study.calibration(config, config["calibration"]["labels"]))
    assert len(again) == len(committed)
    for new, old in zip(again, committed, strict=True):
        assert new["predicted"] == pytest.approx(float(old["predicted"]), rel=0.02)
        assert new["matches"]
