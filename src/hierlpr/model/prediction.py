"""What a fitted `HierLPR` computes from aligned tables: LPRs, and sure and possible labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import Matrix
from hierlpr.cutoff.set_values import (
    SetValues,
    least_chance,
    likely_paths,
    many_label_values,
    one_path_values,
)
from hierlpr.cutoff.sets import (
    CallSets,
    SetRule,
    call_sets,
    choose_path_rule,
    choose_sets,
    path_sets,
)
from hierlpr.data.partial_truth import AnyTruth
from hierlpr.data.tables import Table
from hierlpr.exceptions import HierlprError
from hierlpr.joint import end_posterior
from hierlpr.lpr import own_lpr, predict_known, without_gaps

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR


def compute_lprs(model: HierLPR, table: Table, known: Matrix | None = None) -> Table:
    """Return the LPRs of an aligned table; the only place where the joint posterior enters.

    `known` are the LPRs of `predict_known`, if available.
    """
    implied, options = model.implied_, {"n_threads": model.n_threads}
    lpr = predict_known(model.lpr_, table.values, **options) if known is None else known
    if model.joint_ is None or (implied is not None and not model.joint_.is_used):
        lpr = without_gaps(model.lpr_, lpr)
        if implied is not None:
            lpr = implied.close(lpr, model.hierarchy_, **options)
    else:
        absent = None if implied is None else implied.absent
        lpr = model.joint_.transform(lpr, absent=absent, **options)
    if not isinstance(lpr, np.ndarray):
        lpr.sort_indices()
    return Table(lpr, table.labels, table.samples, table.backend)


def choose_rule(
    model: HierLPR,
    table: Table,
    truth: AnyTruth,
    *,
    error: float,
    confidence: float | None,
    one_path: bool,
) -> SetRule:
    """Choose the thresholds of the sets on calibration samples."""
    floor = least_chance(error)
    if one_path and table.n_stored is not None:
        paths = likely_paths(model.block_scores(table), model.hierarchy_)
        return choose_path_rule(paths, truth, error=error, confidence=confidence, floor=floor)
    return choose_sets(
        lambda: _set_values(model, table, one_path=one_path, floor=floor),
        truth,
        error=error,
        confidence=confidence,
        one_path=one_path,
        floor=floor,
    )


def set_rule(model: HierLPR) -> SetRule:
    """Return what `calibrate_sets` learned; raise if it was not called."""
    check_is_fitted(model)
    if model.sets_ is None:
        raise HierlprError(
            "The model has no sets of sure and possible labels.\n"
            "Hint: call calibrate_sets(scores, truth, error=0.1) with samples not used to fit, "
            "or give --error 0.1 to hierlpr fit."
        )
    return model.sets_


def sets_of(model: HierLPR, table: Table, rule: SetRule, score: Matrix | None = None) -> CallSets:
    """Return the sets of an aligned table; `score` are its block scores, if available."""
    is_sparse = table.n_stored is not None
    if is_sparse and rule.one_path:
        known = model.block_scores(table) if score is None else score
        paths = likely_paths(known, model.hierarchy_)
        return path_sets(paths, table.n_samples, model.hierarchy_, rule, samples=table.samples)
    values = _set_values(model, table, one_path=rule.one_path, floor=rule.floor, score=score)
    return call_sets(values, model.hierarchy_, rule, samples=table.samples, as_sparse=is_sparse)


def _set_values(
    model: HierLPR, table: Table, *, one_path: bool, floor: float, score: Matrix | None = None
) -> Iterator[SetValues]:
    """Return the values that are compared with the thresholds."""
    if not one_path:
        known = model.block_scores(table) if score is None else score
        return many_label_values(known, model.hierarchy_, floor)
    lpr = own_lpr(model.lpr_, table.values, n_threads=model.n_threads)
    assert isinstance(lpr, np.ndarray)
    prevalence = model.lpr_.report.base_rate
    ends = end_posterior(lpr, prevalence, model.hierarchy_, model.path_weight_)
    return one_path_values(ends, model.hierarchy_, floor)
