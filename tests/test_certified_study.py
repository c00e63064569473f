"""Certified cutoffs on resampled real data: the committed table, and a part of it run again."""

import csv
import importlib.util
import math
from pathlib import Path

import numpy as np

from hierlpr import Hierarchy, HierLPR

FOLDER = Path(__file__).resolve().parents[1] / "experiments" / "real"


def study():
    spec = importlib.util.spec_from_file_location("real_certified", FOLDER / "certified.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_row_is_short_more_often_than_allowed():
    module = study()
    with (FOLDER / "certified.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["set"] for row in rows} == set(module.SETS)
    for row in rows:
        draws = int(row["draws"])
        assert draws >= 200
        noise = 3.0 * math.sqrt(0.1 * 0.9 / draws)
        assert int(row["short"]) / draws <= 1.0 - module.CONFIDENCE + noise
    page = (FOLDER.parents[1] / "docs" / "first-stage.md").read_text()
    for row in rows:
        counted = f"{row['certified']} of {row['draws']} | {row['short']}"
        assert f"| {row['set']} | {row['target']} | {row['samples']} | {counted} |" in page
    assert any(int(row["certified"]) > 0.9 * int(row["draws"]) for row in rows)


def test_the_study_counts_what_falls_short():
    # A population whose scores say more than is true: a cautious cutoff must see through it.
    module = study()
    rng = np.random.default_rng(0)
    h = Hierarchy([("A", "B")], labels=["A", "B"])
    p = np.sort(rng.uniform(0.05, 1.0, size=(300, 2)), axis=1)[:, ::-1]
    truth = h.close_upward(rng.random((300, 2)) < p * 0.95)
    model = HierLPR(h, lpr="probability", joint=False).fit(p, truth)
    rows = module.study("made up", model, np.ascontiguousarray(p), truth, draws=12, sizes=(150,))
    assert [row["target"] for row in rows] == list(module.TARGETS)
    assert all(row["draws"] == 12 and row["short"] <= 4 for row in rows)
    assert rows[0]["certified"] > 6
