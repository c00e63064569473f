"""The study of other populations, reduced."""

import csv
import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[2] / "experiments" / "shift"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("shift_study", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(name):
    with (HERE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_shares_recovered_have_standard_errors(study):
    """The jackknife of a ratio is that of the delta method; no clear gap, no share."""
    rng = np.random.default_rng(0)
    gap = rng.normal(1.0, 0.2, 400)
    gain = 0.9 * gap + rng.normal(0.0, 0.3, 400)
    share, error = map(float, study.recovered(gap, gain))
    ratio = gain.mean() / gap.mean()
    assert share == pytest.approx(ratio, abs=0.0051)
    residual = (gain - ratio * gap).std() / gap.mean() / 20.0
    assert error == pytest.approx(residual, abs=0.0051)
    assert study.recovered(gap - gap.mean(), gain) == ("", "")
    assert study.recovered(gap[:1], gain[:1]) == ("", "")


def test_a_reduced_run_recovers_a_large_shift(study, monkeypatch):
    monkeypatch.setattr(study, "FACTORS", (1.0, 5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same, shifted = study.shift_rows("1", False, range(2))
    assert set(same) == set(rows_of("recovered.csv")[0])
    assert abs(float(same["gain"])) < 0.002
    # Two runs show no clear gap, so that no share is given.
    assert float(shifted["gain"]) > 0.8 * float(shifted["gap"])
    assert float(shifted["ece_gain"]) > 0.7 * float(shifted["ece_gap"])


def test_a_reduced_run_notices_other_scores(study, monkeypatch):
    monkeypatch.setattr(study, "OTHERS", ("half replaced", "other scale"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = {row["scores"]: row["silent"] for row in study.other_rows("1", 2)}
    assert rows == {"half replaced": 0, "other scale": 0, "the same": 2, "other prevalences": 2}
