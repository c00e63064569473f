"""The claims of docs/evidence-objective.md: hit area is affine in AUC; the surrogate is exact."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from hierlpr import metrics

STUDY = Path(__file__).resolve().parents[2] / "experiments" / "objective" / "run.py"


def study():
    spec = importlib.util.spec_from_file_location("objective_study", STUDY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(5))
def test_the_hit_area_is_affine_in_the_pooled_auc(seed):
    rng = np.random.default_rng(seed)
    truth = rng.random(60) < 0.3
    scores = rng.permutation(60) / 60.0
    order = np.argsort(-scores)
    area = sum((60 - j) * truth[i] for j, i in enumerate(order))
    p, n = int(truth.sum()), int((~truth).sum())
    auc = roc_auc_score(truth, scores)
    assert area == pytest.approx(p * (p + 1) / 2 + p * n * auc)
    tied = rng.integers(0, 4, size=60) / 4.0  # ties share their place in both
    for values in (scores, tied):
        found = metrics.normalized_hit_area_score(truth, values)
        assert found == pytest.approx(2.0 * roc_auc_score(truth, values) - 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_pairwise_surrogate_pair_by_pair(seed):
    rng = np.random.default_rng(seed)
    scores, held = rng.integers(-6, 6, size=(12, 3)) / 2.0, rng.random((12, 3)) < 0.3
    loss, slope = study().hinge(scores, held)
    gaps = 1.0 - (scores[held][:, None] - scores[~held][None, :])
    assert loss == pytest.approx(np.maximum(gaps, 0.0).mean())
    expected = np.zeros_like(scores)
    active = gaps > 0
    expected[held] = -active.sum(axis=1) / gaps.size
    expected[~held] = active.sum(axis=0) / gaps.size
    np.testing.assert_allclose(slope, expected)


def test_the_page_gives_the_figures_of_the_study():
    with (STUDY.parent / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    page = (STUDY.parents[2] / "docs" / "evidence-objective.md").read_text()
    for maps in ("as it is", "log-loss", "pairwise"):
        mine = [row for row in rows if row["maps"] == maps]
        cells = [f"{float(r['hit_area']):.4f} / {float(r['au_prc']):.4f}" for r in mine]
        assert f"| {' | '.join(cells)} |" in page
