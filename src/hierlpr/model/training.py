"""Fit what a `HierLPR` consists of: curves, checks of them, and the profile of block scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import Matrix
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.instances import list_instances
from hierlpr.data.listed import kind_of
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.data.truth import Truth, implied_share
from hierlpr.exceptions import warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import learn_depth_weights
from hierlpr.lpr import ImpliedLPR, LPRModel, fit_known, fit_listed, own_lpr

Float = NDArray[np.float64]
# Weights of depths are learned from this many instances, but at least this many samples.
PATH_INSTANCES = 2**19
PATH_SAMPLES = 500
FEW_SAMPLES = 10


def fit_curves(
    table: Table, truth: Truth, hierarchy: Hierarchy, **options: Any
) -> tuple[LPRModel, ImpliedLPR | None]:
    """Return the curves of the labels and, for listed scores, those of implied labels."""
    if kind_of(table) == "complete":
        return fit_known(table.values, truth, hierarchy, **options), None
    return fit_listed(table.values, truth, hierarchy, **options)


def warn_of_mistakes(lpr: LPRModel) -> None:
    """Warn of few samples, no positives, or most AUCs more than 3 standard errors below 0.5."""
    n1, n0 = lpr.report.positives, lpr.report.negatives
    n_samples = int((n1 + n0).max(initial=0))
    if n_samples < FEW_SAMPLES:
        warn(
            f"{n_samples} labelled sample(s) are too few to learn from: most labels get their "
            "prevalence. A few hundred are a good start."
        )
    if not n1.any():
        warn("No sample has a label, so nothing can be learned; is the truth complete?")
    z = (lpr.report.auc - 0.5) * np.sqrt(12.0 * n1 * n0 / (n1 + n0 + 1.0))
    n_below = int(np.count_nonzero(z < -3.0))
    if 2 * n_below > lpr.n_labels:
        warn(
            f"The AUC of {n_below:,} of {lpr.n_labels:,} labels is below 0.5; do larger scores "
            "mean more likely labels?"
        )


def fit_depth_weights(
    lpr: LPRModel, hierarchy: Hierarchy, table: Table, truth: Truth, weight: Float | None
) -> Float | None:
    """Return the weight of each depth where samples have one path of labels."""
    limit = max(PATH_SAMPLES, PATH_INSTANCES // hierarchy.n_labels)
    table, truth, weight = _draw(limit, table, truth, weight)
    rates = own_lpr(lpr, table.values)
    return learn_depth_weights(rates, truth, lpr.report.base_rate, hierarchy, weight)


def fit_profile(
    block_scores: Callable[[Table], Matrix],
    hierarchy: Hierarchy,
    table: Table,
    truth: Truth,
    weight: Float | None,
) -> LevelProfile:
    """Return the profile of block scores; a part of the samples may cost power, never validity."""
    limit = sample_limit(table.n_samples, hierarchy, table.n_stored)
    table, truth, weight = _draw(limit, table, truth, weight)
    score, share = block_scores(table), None
    if not truth.is_complete:
        share = implied_share(truth, hierarchy, weight)
        truth = truth.evaluated(hierarchy, share=share)
    return replace(LevelProfile.of(list_instances(score, truth, weight)), implied_share=share)


def _draw(
    limit: int, table: Table, truth: Truth, weight: Float | None
) -> tuple[Table, Truth, Float | None]:
    """Return at most `limit` samples, drawn at random with a fixed seed."""
    drawn = draw_samples(table.n_samples, limit, rng=0)
    return table.rows(drawn), truth[drawn], None if weight is None else weight[drawn]
