"""Fit a `HierLPR`: check the data, then fit curves, joint posterior and profile of block scores."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_choice, check_finite, check_sample_weight, quote_names
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.instances import list_instances
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF
from hierlpr.data import tables
from hierlpr.data.duplicates import SampleKeys, leakage_warnings
from hierlpr.data.label_sets import Kind, as_kind, kind_of
from hierlpr.data.partial_truth import AnyTruth, PartialTruth, align_truth, implied_share
from hierlpr.data.tables import Table, align_labels, draw_samples
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.hierarchies import as_hierarchy
from hierlpr.joint import fit_joint, learn_depth_weights
from hierlpr.lpr import ImpliedLPR, LPRModel, fit_known, fit_listed, make_estimator, own_lpr
from hierlpr.lpr.comparison import SampleQuantiles
from hierlpr.lpr.fitting import with_sharing

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

Float = NDArray[np.float64]
# Weights of depths are learned from this many instances, but at least this many samples.
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
        tables.refuse_truth_as_scores(table.values, held)
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
    lpr, implied = fit_curves(table, held, hierarchy, **options)
    _warn_of_mistakes(lpr)
    model.keys_ = {}
    forget_cutoff(model)  # first, so that no promise outlives an interrupted fit
    model.hierarchy_, model.lpr_, model.implied_, model.joint_ = hierarchy, lpr, implied, None
    if model.joint is not False:
        options |= {"method": with_sharing(model.lpr, lpr.shared)}
        options |= {"use": "exact" if model.joint is True else "auto"}
        model.joint_ = fit_joint(table.values, held, hierarchy, **options)
    model.path_weight_ = None
    if implied is None:
        limit = max(PATH_SAMPLES, PATH_INSTANCES // hierarchy.n_labels)
        part, known, own = _draw(limit, table, held, weight)
        rates = own_lpr(lpr, part.values, n_threads=model.n_threads)
        prevalence = lpr.report.base_rate
        model.path_weight_ = learn_depth_weights(rates, known, prevalence, hierarchy, own)
    model.keys_ = {"fit": SampleKeys.of_rows(table.values)}
    model.sample_quantiles_ = SampleQuantiles.of(lpr, table.values, hierarchy, weight)
    model.profile_ = _fit_profile(model, table, held, weight)


def fit_curves(
    table: Table, held: AnyTruth, hierarchy: Hierarchy, **options: Any
) -> tuple[LPRModel, ImpliedLPR | None]:
    """Return the curves of the labels and, for listed scores, those of implied labels."""
    if kind_of(table) == "complete":
        return fit_known(table.values, held, hierarchy, **options), None
    lpr, implied = fit_listed(table.values, held, hierarchy, **options)
    return replace(lpr, seen=None), implied  # bins say nothing about labels that are not listed


def _warn_of_mistakes(lpr: LPRModel) -> None:
    """Warn without positives, or if most AUCs are more than 3 standard errors below 0.5."""
    n1, n0 = lpr.report.positives, lpr.report.negatives
    if not n1.any():
        note = "No sample has a label, so nothing can be learned; is the truth complete?"
        warnings.warn(note, HierlprWarning, stacklevel=4)
    z = (lpr.report.auc - 0.5) * np.sqrt(12.0 * n1 * n0 / (n1 + n0 + 1.0))
    n_below = int(np.count_nonzero(z < -3.0))
    if 2 * n_below > lpr.n_labels:
        warnings.warn(
            f"The AUC of {n_below:,} of {lpr.n_labels:,} labels is below 0.5; do larger scores "
            "mean more likely labels?",
            HierlprWarning,
            stacklevel=5,
        )


def _fit_profile(
    model: HierLPR, table: Table, held: AnyTruth, weight: Float | None
) -> LevelProfile:
    """Return the profile of block scores; a part of the samples may cost power, never validity."""
    limit = tables.sample_limit(table.n_samples, model.hierarchy_, table.n_stored)
    table, held, weight = _draw(limit, table, held, weight)
    score, share = model.block_scores(table), None
    if isinstance(held, PartialTruth):
        share = implied_share(held.sets(), model.hierarchy_, weight)
        held = held.judged(model.hierarchy_, share=share)
    return replace(LevelProfile.of(list_instances(score, held, weight)), implied_share=share)


def _draw(
    limit: int, table: Table, held: AnyTruth, weight: Float | None
) -> tuple[Table, AnyTruth, Float | None]:
    """Return at most `limit` samples, always the same ones."""
    if table.n_samples <= limit:
        return table, held, weight
    drawn = draw_samples(table.n_samples, limit, rng=0)
    return table.rows(drawn), held[drawn], None if weight is None else weight[drawn]


def forget_cutoff(model: HierLPR) -> None:
    """Reset the cutoff to the default, and drop the sets, the profile and samples used for them."""
    model.cutoff_, model.sets_, model.profile_ = DEFAULT_CUTOFF, None, None
    model.keys_ = {name: keys for name, keys in model.keys_.items() if name == "fit"}


# -- scores and truth as users give them -------------------------------------------------------


def new_scores(
    scores: Any, hierarchy: Hierarchy | None, kind: Kind | None, *, missing: str
) -> Table:
    """Return checked scores in the order of the labels, which they set if there is no hierarchy.

    `kind` is that of the scores a model was fitted on; None for scores to learn from.
    """
    table = tables.align(scores, hierarchy, name="scores")
    table = table if kind is None else as_kind(table, kind)
    values = table.values
    if missing == "allow" and isinstance(values, np.ndarray):
        values = np.where(np.isnan(values), 0.0, values)
    hint = 'fill in or drop missing values first, or fit with HierLPR(missing="allow").'
    check_finite(values, table.labels, name="scores", hint=hint)
    for count, what in zip(values.shape, ("sample", "feature"), strict=True):
        if kind is None and count == 0:
            raise DataError(
                f"scores: 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required."
            )
    return table


def truth_beside(
    table: Table, truth: Any, hierarchy: Hierarchy, *, close: bool, name: str = "scores"
) -> AnyTruth:
    """Return the truth of the samples in `table`, matched by name where both have names.

    `PartialTruth` is returned as it is: it has been aligned before.
    """
    if isinstance(truth, PartialTruth):
        return truth
    if truth is None:
        raise DataError(
            f"requires y to be passed, but the target y is None.\nHint: give {name} and truth."
        )
    given = tables.match_rows(align_labels(truth, hierarchy, name="truth"), table, name=name)
    as_sparse = table.n_stored is not None
    held: AnyTruth = align_truth(given, hierarchy, close=close, as_sparse=as_sparse)
    return held


def weighed(
    sample_weight: Any, n_samples: int, *, keep_equal: bool = False
) -> tuple[NDArray[np.intp], Float | None]:
    """Return the samples of positive weight, and their weights (None if all are equal).

    With `keep_equal`, equal weights are returned too: that some samples have equal weights does not
    imply that the next ones have.
    """
    weight = check_sample_weight(sample_weight, n_samples, keep_equal=keep_equal)
    if weight is None:
        return np.arange(n_samples), None
    rows = np.flatnonzero(weight)
    left = weight[rows]
    return rows, None if not keep_equal and np.all(left == left[0]) else left


def refuse_unknown_labels(truth: AnyTruth, hierarchy: Hierarchy) -> None:
    """Refuse labels without any known truth; warn about labels whose positives are only implied."""
    if not isinstance(truth, PartialTruth):
        return
    names = np.array(hierarchy.labels, dtype=object)
    is_given = tables.sum_by_label(truth.open) < truth.shape[0]
    unknown = names[~is_given & (truth.n_unknown > 0)].tolist()
    if unknown:
        raise DataError(
            f"truth is unknown in all samples for {len(unknown):,} label(s): "
            f"{quote_names(unknown)}.\n"
            "Hint: leave them out (Hierarchy.subset), or give samples in which they are known."
        )
    has_positives, has_given = (
        tables.sum_by_label(x) > 0 for x in (truth.held, truth.held > truth.open)
    )
    implied = names[has_positives & ~has_given].tolist()
    if implied:
        warnings.warn(
            f"truth: {len(implied):,} label(s) are true only where a descendant is, and unknown "
            f"there: {quote_names(implied)}. They are learned as if they were never true.\n"
            "Hint: if the truth has only the most specific labels, set close_truth=True.",
            HierlprWarning,
            stacklevel=3,
        )


def refuse_unknown_samples(truth: AnyTruth) -> None:
    """Refuse samples with unknown labels, where promises are about all labels of a sample."""
    if not isinstance(truth, PartialTruth):
        return
    n_open = int(np.count_nonzero(np.asarray(truth.unknown.sum(axis=1)).ravel()))
    if n_open:
        raise DataError(
            f"truth is unknown for some label of {n_open:,} of {truth.shape[0]:,} samples. Sets "
            "promise something about all labels of a sample, so each must be known.\n"
            "Hint: give only samples that are completely known; the promise then holds for such."
        )


def check_leakage(table: Table, fit_keys: SampleKeys | None) -> tuple[SampleKeys, list[str]]:
    """Return the keys of calibration samples; warn if they are not new or not independent."""
    keys = SampleKeys.of_rows(table.values)
    caveats = leakage_warnings(keys, fit_keys, values=table.values)
    for note in caveats:
        warnings.warn(note, HierlprWarning, stacklevel=3)
    return keys, caveats
