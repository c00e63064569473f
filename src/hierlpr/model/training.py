"""Fit a `HierLPR`: the curves, the joint posterior, and the profile that plans certificates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_choice, check_sample_weight
from hierlpr.cutoff.choose import cutoff_on
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.instances import list_instances
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF, Cutoff, check_bound
from hierlpr.data.duplicates import SampleKeys
from hierlpr.data.label_sets import kind_of
from hierlpr.data.partial_truth import AnyTruth, PartialTruth, implied_share
from hierlpr.data.tables import Table, draw_samples, refuse_truth_as_scores, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.hierarchies import as_hierarchy
from hierlpr.joint import fit_joint, learn_depth_weights
from hierlpr.lpr import LPRModel, fit_known, fit_listed, make_estimator, own_lpr, with_sharing
from hierlpr.lpr.comparison import SampleQuantiles
from hierlpr.model.validation import (
    check_leakage,
    new_scores,
    refuse_unknown_labels,
    truth_beside,
    weighed,
)

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

# Depth weights are learned from this many instances, but at least this many samples.
PATH_INSTANCES = 2**19
PATH_SAMPLES = 500


def check_params(model: HierLPR) -> None:
    """Refuse invalid parameters before any work is done."""
    if model.joint is not False and model.joint is not True and model.joint != "auto":
        raise DataError(f"joint must be False, True or 'auto'; got {model.joint!r}.")
    check_choice(model.missing, ("error", "allow"), name="missing")
    make_estimator(model.lpr)


def fit_model(model: HierLPR, scores: Any, truth: Any, sample_weight: Any) -> None:
    """Check the data, then fit the curves and everything that depends on them."""
    check_params(model)
    given = None if model.hierarchy is None else as_hierarchy(model.hierarchy)
    table = new_scores(scores, given, None, missing=model.missing)
    hierarchy = given or Hierarchy(labels=table.labels)
    held = truth_beside(table, truth, hierarchy, close=model.close_truth)
    if not isinstance(held, PartialTruth):
        refuse_truth_as_scores(table.values, held)
    fit_aligned(model, hierarchy, table, held, sample_weight)


def fit_aligned(
    model: HierLPR, hierarchy: Hierarchy, table: Table, held: AnyTruth, sample_weight: Any
) -> None:
    """Fit a model on scores and truth that are checked and in the order of the labels."""
    rows, weight = weighed(sample_weight, table.n_samples)
    table, held = table.rows(rows), held[rows]
    refuse_unknown_labels(held, hierarchy)
    options: dict[str, Any] = {"method": model.lpr, "n_threads": model.n_threads}
    options["sample_weight"] = None if weight is None else weight / weight.max()
    implied, is_listed = None, kind_of(table) == "listed"
    if is_listed:
        lpr, implied = fit_listed(table.values, held, hierarchy, **options)
        lpr = replace(lpr, seen=None)  # bins say nothing about labels that are not listed
    else:
        lpr = fit_known(table.values, held, hierarchy, **options)
    _warn_of_reversed_scores(lpr)
    model.keys_ = {}
    forget_cutoff(model)  # first, so that no promise outlives an interrupted fit
    model.hierarchy_, model.lpr_, model.implied_, model.joint_ = hierarchy, lpr, implied, None
    if model.joint is not False:
        options |= {"method": with_sharing(model.lpr, lpr.shared)}
        options |= {"use": "exact" if model.joint is True else "auto"}
        model.joint_ = fit_joint(table.values, held, hierarchy, **options)
    model.path_weight_ = None if is_listed else _fit_path_weight(model, table, held, weight)
    model.keys_ = {"fit": SampleKeys.of_rows(table.values)}
    model.sample_quantiles_ = SampleQuantiles.of(lpr, table.values, hierarchy, weight)
    model.profile_ = _fit_profile(model, table, held, weight)


def _warn_of_reversed_scores(lpr: LPRModel) -> None:
    """Warn if most labels have AUCs clearly below 0.5, at least 3 standard errors."""
    n1, n0 = lpr.report.positives, lpr.report.negatives
    standard_errors = np.sqrt(12.0 * n1 * n0 / (n1 + n0 + 1.0))
    n_below = int(np.count_nonzero((lpr.report.auc - 0.5) * standard_errors < -3.0))
    if 2 * n_below > lpr.n_labels:
        warnings.warn(
            f"The AUC of {n_below:,} of {lpr.n_labels:,} labels is below 0.5; do larger scores "
            "mean more likely labels?",
            HierlprWarning,
            stacklevel=4,
        )


def _fit_path_weight(
    model: HierLPR, table: Table, truth: AnyTruth, weight: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Learn from complete scores the weights of the depths of one path."""
    limit = max(PATH_SAMPLES, PATH_INSTANCES // model.hierarchy_.n_labels)
    drawn = draw_samples(table.n_samples, limit, rng=0)
    own = own_lpr(model.lpr_, table.rows(drawn).values, n_threads=model.n_threads)
    part = None if weight is None else weight[drawn]
    prevalence = model.lpr_.report.base_rate
    return learn_depth_weights(own, truth[drawn], prevalence, model.hierarchy_, part)


def _fit_profile(
    model: HierLPR, table: Table, truth: AnyTruth, weight: NDArray[np.float64] | None
) -> LevelProfile:
    """Return the profile of block scores; a part of the samples may cost power, never validity."""
    limit = sample_limit(table.n_samples, model.hierarchy_, table.n_stored)
    drawn = draw_samples(table.n_samples, limit, rng=0)
    score = model.block_scores(table.rows(drawn))
    held = truth if drawn.size == table.n_samples else truth[drawn]
    share, own = None, None if weight is None else weight[drawn]
    if isinstance(held, PartialTruth):
        share = implied_share(held.sets(), model.hierarchy_, own)
        held = held.judged(model.hierarchy_, share=share)
    listed = list_instances(score, held, own)
    return replace(LevelProfile.of(listed), implied_share=share)


def choose_cutoff(
    model: HierLPR,
    table: Table,
    held: AnyTruth,
    goals: Sequence[Any],
    *,
    sample_weight: Any,
    max_weight: float | None,
    **options: Any,
) -> tuple[Cutoff, SampleKeys]:
    """Choose a cutoff on calibration samples; also return the keys of these."""
    given = check_sample_weight(sample_weight, table.n_samples, keep_equal=True)
    check_bound(goals[0], given, max_weight)
    is_certified = goals[0].confidence is not None
    rows, weight = weighed(given, table.n_samples, keep_equal=is_certified)
    table, held = table.rows(rows), held[rows]
    keys, caveats = check_leakage(table, model.keys_.get("fit"))
    options |= {"weight": weight, "max_weight": max_weight}
    score = model.block_scores(table)
    cutoff = cutoff_on(goals, score, held, model.hierarchy_, model.profile_, **options)
    return cutoff.with_caveats(caveats), keys


def forget_cutoff(model: HierLPR) -> None:
    """Reset the cutoff to the default, and drop the sets, the profile and samples used for them."""
    model.cutoff_, model.sets_, model.profile_ = DEFAULT_CUTOFF, None, None
    model.keys_ = {name: keys for name, keys in model.keys_.items() if name == "fit"}
