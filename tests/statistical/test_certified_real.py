"""Certified cutoffs on resampled real data, on a small population."""

import importlib.util
from pathlib import Path

import numpy as np

from hierlpr import Hierarchy, HierLPR

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "real"


def study():
    spec = importlib.util.spec_from_file_location("real_certified", FOLDER / "certified.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
