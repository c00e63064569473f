"""A reduced run of the study of sure and possible labels."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[2] / "experiments" / "sets"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("sets_study", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["few", "dependent"])
def test_a_reduced_run_keeps_the_promise(study, name):
    config = study.read_config() | {"calibration_samples": [50], "pool_samples": 4000}
    for row in study.error_rates(name, config, 100):
        for kind in ("sure", "possible"):
            spread = max(float(row[f"{kind}_se"]), 0.3 / np.sqrt(100))
            assert float(row[f"{kind}_short"]) <= float(row["limit"]) + 3 * spread
