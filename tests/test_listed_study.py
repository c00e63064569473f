"""The committed table of listed predictions, and a part of it run again."""

import csv
import importlib.util
import tomllib
from pathlib import Path

import pytest

from realdata import needs_data

FOLDER = Path(__file__).resolve().parents[1] / "experiments" / "listed"


def results():
    with (FOLDER / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {(row["file"], row["way"]): row for row in rows}


def test_a_list_as_it_is_is_as_good_as_one_propagated_beforehand():
    table = results()
    files = sorted({name for name, _ in table})
    assert len(files) == 5
    for name in files:
        as_is, before = table[name, "as it is"], table[name, "propagated"]
        noise = max(float(as_is["au_prc_sd"]), float(before["au_prc_sd"]))
        assert float(as_is["au_prc"]) >= float(before["au_prc"]) - max(noise, 0.001)
        assert float(as_is["calibration_error"]) < 0.02
    # What used to be done.
    gains = [float(table[name, "as it is"]["au_prc"])
             - float(table[name, "implied as 0"]["au_prc"]) for name in files]  # fmt: skip
    assert sorted(gains)[1] > 0.05


@needs_data
def test_the_table_can_be_made_again():
    spec = importlib.util.spec_from_file_location("listed_study", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = tomllib.loads((FOLDER / "config.toml").read_text())
    for row in module.rows({**config, "predictions": ["pred_1"]}):
        stored = results()["pred_1", row["way"]]
        for name in ("au_prc", "calibration_error"):
            assert float(row[name]) == pytest.approx(float(stored[name]), abs=0.002)
