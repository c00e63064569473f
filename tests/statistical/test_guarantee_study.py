"""Reduced runs of the studies of certificates, and (slow) the whole attack."""

import csv
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "guarantee"
# Populations that are cheap to draw from; the first four broke the former test.
REDUCED = ("two_kinds", "saturated", "six_groups", "truth_follows_the_hash", "unlucky_tie",
           "heavy_tail", "setting_4")  # fmt: skip


def _load(name):
    spec = importlib.util.spec_from_file_location(f"guarantee_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study():
    path = list(sys.path)
    yield _load("run")
    sys.path[:] = path


def committed(name):
    with (FOLDER / name).open() as file:
        return list(csv.DictReader(file))


def cell_of(row):
    return (row["population"], int(row["samples"]), float(row["target"]), row["method"])


def test_a_reduced_attack_agrees_with_the_committed_one(study):
    config = {**study.read_config(), "runs": 20, "plans": 5, "samples": [50, 200]}
    expected = {cell_of(row): row for row in committed("violations.csv")}
    for row in study.study(config, list(REDUCED)):
        whole = expected[cell_of(row)]
        for column in ("rate", "certified", "recall"):
            mean = float(whole[column])
            # Of values between 0 and 1 with this mean, none vary more than coins.
            error = math.sqrt(max(mean * (1 - mean), 0.02) / config["runs"])
            assert row[column] == pytest.approx(mean, abs=4 * error), (column, row)
        if row["method"] == "certified":
            assert row["rate"] <= 0.1 + 4 * math.sqrt(0.09 / config["runs"]), row


def test_the_study_counts_calls_as_decided(study):
    """A limit of calls a sample changes the calls, and so the precision that is counted."""
    from hierlpr.cutoff.outcome import Cutoff

    victim = study.POPULATIONS["heavy_tail"](0.9)
    free, _ = victim.achieved(None, Cutoff(0.5, "precision"))
    limited, recall = victim.achieved(None, Cutoff(0.5, "precision", max_calls=2))
    assert free < 0.8 < 0.95 < limited
    assert recall == pytest.approx(1.0, abs=0.01)
    precision, recall = victim.achieved(None, Cutoff(math.inf, "precision"))
    assert np.isnan(precision)
    assert recall == 0.0


@pytest.mark.parametrize("name", ["tree ties high", "dag ties high"])
def test_groups_and_several_targets_are_rarely_below_target(name):
    for row in _load("groups").study(name, 20, FOLDER, (300,)):
        assert row["rate"] <= 0.1 + 4 * math.sqrt(0.09 / 20), row


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_attack_is_what_was_committed(study):
    expected = {cell_of(row): row for row in committed("violations.csv")}
    for row in study.study(study.read_config()):
        if row["method"] == "certified":
            assert row["rate"] <= row["limit"], row
        for column in ("rate", "certified", "recall"):
            assert row[column] == pytest.approx(float(expected[cell_of(row)][column]), abs=0.03)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_comparison_of_recall_is_what_was_committed(study):
    rows, expected = study.recall_study(study.read_config()), committed("recall.csv")
    for row, whole in zip(rows, expected, strict=True):
        assert [str(row[c]) for c in ("case", "samples", "target", "method")] == [
            whole[c] for c in ("case", "samples", "target", "method")
        ]
        for column in ("rate", "certified", "recall"):
            assert row[column] == pytest.approx(float(whole[column]), abs=0.03)
