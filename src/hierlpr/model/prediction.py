"""Use a fitted `HierLPR`: compare scores with its fit, find sure labels and one name per sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import Matrix
from hierlpr.audit import Audit, start_audit
from hierlpr.cutoff import set_values, sets
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.instances import holds_at
from hierlpr.cutoff.sets import CallSets, SetRule
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError, HierlprError, UnreachableWarning, warn
from hierlpr.io.anndata import write_obs
from hierlpr.io.predictions import read_predictions
from hierlpr.joint import LabelPrior, end_posterior
from hierlpr.joint.posterior import forest_posteriors
from hierlpr.lpr import own_lpr
from hierlpr.lpr.comparison import find_difference
from hierlpr.lpr.drift import Drift, compare_scores
from hierlpr.lpr.label_shift import CHANCE_TILT, Posterior
from hierlpr.model.new_names import match_names

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

Index = NDArray[np.intp]
Float = NDArray[np.float64]
# From this mean weight of other labels' evidence on, prevalences are estimated jointly.
JOINT_SHIFT_WEIGHT = 0.8


def warn_of_difference(model: HierLPR, table: Table) -> Table:
    """Return the table; warn if it differs from the fit (single samples: once per model)."""
    if table.n_samples == 1:
        if model in _compared_one:
            return table
        _compared_one.add(model)
    if note := difference_note(model, table):
        warn(note)
    return table


def difference_note(model: HierLPR, table: Table) -> str:
    """Say how scores differ from those of the fit, and what follows; empty if they do not."""
    found = find_difference(model.lpr_, table.values, model.hierarchy_, model.sample_summary_)
    note = "What the model promises holds for scores like those of the fit."
    return f"{found} {note}" if found else ""


_compared_one: WeakSet[HierLPR] = WeakSet()  # models that have compared a single sample


def compare_with_fit(model: HierLPR, table: Table, chance: float = CHANCE_TILT) -> Drift:
    """Compare scores with those of the fit; the expected prevalences respect the hierarchy."""
    if not isinstance(table.values, np.ndarray):
        raise DataError(
            "Listed scores (sparse) cannot be compared with those of the fit yet.\n"
            "Hint: give complete scores to fit and to check."
        )
    hierarchy, joint = model.hierarchy_, model.joint_
    limit = sample_limit(table.n_samples, hierarchy) // 4
    drawn = draw_samples(table.n_samples, limit, rng=0)
    posterior: Posterior | None = None
    if joint is not None and joint.tempering.others.mean() >= JOINT_SHIFT_WEIGHT:

        def posterior(values: Float, prevalence: Float, conditional: Float) -> Float:
            prior = LabelPrior(prevalence, conditional)
            return forest_posteriors(values, prior, hierarchy)[0]

    values = np.asarray(table.rows(drawn).values)
    return compare_scores(model.lpr_, values, hierarchy, posterior, chance)


def choose_rule(
    model: HierLPR,
    table: Table,
    truth: Truth,
    error: float,
    confidence: float | None,
    *,
    one_path: bool,
) -> SetRule:
    """Choose the thresholds of the sets on calibration samples."""
    floor = set_values.least_chance(error)
    options: dict[str, Any] = {"error": error, "confidence": confidence, "floor": floor}
    if one_path and table.n_stored is not None:
        paths = set_values.likely_paths(model.block_scores(table), model.hierarchy_)
        return sets.choose_path_rule(paths, truth, **options)
    values = _set_values(model, table, one_path=one_path, floor=floor)
    return sets.choose_sets(values, truth, one_path=one_path, **options)


def set_rule(model: HierLPR) -> SetRule:
    """Return what `calibrate_sets` learned; raise if it was not called."""
    check_is_fitted(model)
    if model.sets_ is None:
        raise HierlprError(
            "The model has no sets of sure and possible labels.\n"
            "Hint: call calibrate_sets(X, y, error=0.1) with samples not used to fit, or fit the "
            "files with sets={'error': 0.1} (hierlpr fit with an error)."
        )
    return model.sets_


def sets_of(model: HierLPR, table: Table, rule: SetRule, score: Matrix | None = None) -> CallSets:
    """Return the sets of an aligned table; `score` are its block scores, if available."""
    h, is_sparse = model.hierarchy_, table.n_stored is not None
    if is_sparse and rule.one_path:
        paths = set_values.likely_paths(model.block_scores(table) if score is None else score, h)
        return sets.path_sets(paths, table.n_samples, h, rule, samples=table.samples)
    values = _set_values(model, table, one_path=rule.one_path, floor=rule.floor, score=score)
    return sets.call_sets(values(), h, rule, samples=table.samples, as_sparse=is_sparse)


def _set_values(
    model: HierLPR, table: Table, *, one_path: bool, floor: float, score: Matrix | None = None
) -> Callable[[], Iterator[set_values.SetValues]]:
    """Return a function that computes, in parts, the values compared with the thresholds."""
    if not one_path:
        known = model.block_scores(table) if score is None else score
        return partial(set_values.many_label_values, known, model.hierarchy_, floor)
    lpr = own_lpr(model.lpr_, table.values, n_jobs=model.n_jobs)
    assert isinstance(lpr, np.ndarray)
    prevalence = model.lpr_.report.base_rate
    ends = end_posterior(lpr, prevalence, model.hierarchy_, model.path_weight_)
    return partial(set_values.one_path_values, ends, model.hierarchy_, floor)


# -- one name per sample -------------------------------------------------------------------------


def assign(model: HierLPR, scores: Any) -> Any:
    """Return the frame of `HierLPR.assign`, or an AnnData with the names in obs."""
    is_anndata = hasattr(scores, "obs_names")
    if is_anndata:
        found = read_predictions(scores, **(model.path_style_ or {}).get("reading", {}))
        model, values, _, _ = match_names(model, found)
        table = Table(values, model.hierarchy_.labels, found.samples)
    else:
        table = model.aligned_scores(scores)
    h = model.hierarchy_
    warn_of_difference(model, table)
    label, chance = name_samples(model, table)
    warn_of_no_names(model)
    if is_anndata:
        return write_obs(scores, h, rank_names(model), label, chance)
    columns = {
        "sample": np.array(table.samples or range(label.size)),
        "label": np.array([*h.labels, None], dtype=object)[label],
        "rank": np.array([*rank_names(model), None], dtype=object)[label],
        "chance": np.where(label >= 0, chance, np.nan),
    }
    return new_frame(columns, table.backend)


def name_samples(model: HierLPR, table: Table, score: Any = None) -> tuple[Index, Float]:
    """Return the deepest trusted label of each sample (-1 for none) and its block score.

    Trusted are sure labels if the model has sets, else calls. If samples have one path of labels,
    only the most likely one of those listed counts. `score` has the block scores, if known.
    """
    score = model.block_scores(table) if score is None else score
    h, rule = model.hierarchy_, model.sets_
    if rule is None and model.cutoff_.goal.kind == "default":
        raise HierlprError(
            "The model does not know which labels can be trusted.\n"
            "Hint: first call calibrate_sets(scores, truth, error=0.1, one_path=True), or "
            "calibrate, with samples not used to fit."
        )
    if rule is not None and not (rule.one_path and table.n_stored is not None):
        label = sets.deepest_sure(sets_of(model, table, rule, score), h)
        row = np.arange(label.size)
        return label, np.where(label >= 0, np.asarray(score[row, label]).ravel(), 0.0)
    paths, n = set_values.likely_paths(score, h), table.n_samples
    if rule is not None:
        entry = sets.trusted_entries(paths, n, rule)
    else:
        calls = decide(score, model.cutoff_, h)
        entry = paths.last(holds_at(calls, paths.sample, paths.label), n)
    label, chance = np.append(paths.label, -1), np.append(paths.chance, 0.0)
    return label[entry], chance[entry]


def warn_of_no_names(model: HierLPR) -> None:
    """Warn if no label can be trusted, so that every sample stays without a name."""
    rule, cutoff = model.sets_, model.cutoff_
    if rule is None and not cutoff.reachable:
        warn(f"No sample gets a name: {cutoff.reason}", UnreachableWarning)
    elif rule is not None and rule.sure_level is None:
        least = sets.least_samples(rule.error, rule.confidence)
        had = f"calibrate_sets had {rule.n_samples:,} samples"
        why = f"{had}, and an error of {rule.error:g} needs at least {least:,}."
        if rule.n_samples >= least:
            why = f"their best calls are too often incorrect for an error of {rule.error:g}."
        warn(f"No sample gets a name: {why}", UnreachableWarning)


def rank_names(model: HierLPR) -> tuple[str, ...]:
    """Return the rank of each label, such as "genus"; "level 2" if it has no name."""
    known = (model.path_style_ or {}).get("ranks", {})
    named = zip(model.hierarchy_.labels, model.hierarchy_.levels.tolist(), strict=True)
    return tuple(known.get(label) or f"level {level}" for label, level in named)


# -- audits --------------------------------------------------------------------------------------


def audit(
    self: HierLPR,
    X: Any,
    *,
    precision: float = 0.9,
    confidence: float = 0.9,
    checks: int = 100,
    clusters: Any = None,
    random_state: Any = 0,
) -> Audit:
    """Certify calls on a population without truth, by checking a few of its samples.

    Parameters
    ----------
    X : matrix or data frame of shape (n_samples, n_labels)
        Scores of the population, of any origin: the promise does not depend on the model.
    precision : float
        Target share of correct calls among those that will be certified.
    confidence : float
        Probability, over the draw of the samples to check, with which it is reached.
    checks : int
        Number of samples that you plan to check; more can follow.
    clusters : array-like or mapping, optional
        One id per sample: clusters are drawn and checked as a whole.
    random_state : int, Generator or None
        Of the draw.

    Returns
    -------
    Audit
        ``to_check()`` lists what to check, ``record(answers)`` takes the answers, ``calls()`` are
        certified by them.
    """
    table = self.aligned_scores(X)
    return start_audit(
        self.block_scores(table),
        self.hierarchy_,
        samples=table.samples,
        precision=precision,
        confidence=confidence,
        checks=checks,
        clusters=cluster_numbers(clusters, table),
        random_state=random_state,
    )
