"""The committed study of discover(), a reduced run of it, and (slow) the whole of it."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "discover"
OURS = ("positive", "arbitrary", "independent")


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("discover_study", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def committed(name):
    with (FOLDER / name).open() as file:
        return list(csv.DictReader(file))


def kept(row):
    """Whether the FDR of a cell is at most its level within three standard errors."""
    return float(row["fdr"]) <= float(row["level"]) + 3 * float(row["fdr_se"])


def test_a_reduced_run_keeps_the_promises(study):
    config = study.read_config() | {"replications": 12}
    chosen = ("no signal", "permutation p-values", "adversarial at 0.15, no signal")
    config["cell"] = [cell for cell in config["cell"] if cell["name"] in chosen]
    for row in study.study(config):
        if row["holds"]:
            # The FDP lies in [0, 1], so its mean over 12 is off by more with probability 1e-3.
            assert row["fdr"] <= row["level"] + np.sqrt(np.log(1e3) / 24), row
        if row["procedure"] in OURS:
            assert row["violations"] == 0.0


def test_p_values_of_the_adversary_are_uniform(study):
    rng = np.random.default_rng(1)
    p = np.concatenate([study.least_favourable(40, 0.15, rng) for _ in range(4_000)])
    share = [(p <= t).mean() for t in (0.00375, 0.0375, 0.1, 0.15, 0.5)]
    np.testing.assert_allclose(share, [0.00375, 0.0375, 0.1, 0.15, 0.5], atol=0.006)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_study_is_what_was_committed(study):
    config = study.read_config()
    rows = study.study(config)
    assert [row for row in rows if row["holds"] and not kept(row)] == []
    for row, old in zip(rows, committed("fdr.csv"), strict=True):
        assert (row["cell"], row["procedure"]) == (old["cell"], old["procedure"])
        assert row["fdr"] == pytest.approx(float(old["fdr"]), abs=0.02)
    for row, old in zip(study.run_power(config), committed("power.csv"), strict=True):
        assert row["power"] == pytest.approx(float(old["power"]), abs=0.02)
