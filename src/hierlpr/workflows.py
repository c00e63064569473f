"""From files to files: fit, rank, evaluate and report. The command line calls these functions.

What fits into memory is read whole. Larger files are ranked in batches of samples, and models are
fitted, checked and reported on a random subset of the samples.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_level
from hierlpr._utils.files import check_page_name, refuse_overlap
from hierlpr.audit import load_audit
from hierlpr.cutoff.goal import check_bound, goals_of
from hierlpr.cutoff.split import split_for_cutoff
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.folds import draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning, UnreachableWarning
from hierlpr.io import ReadReport
from hierlpr.io.read_tables import Pair
from hierlpr.lpr.drift import Drift
from hierlpr.model import HierLPR
from hierlpr.model.new_names import read_for_model
from hierlpr.outofcore.batches import (
    PerSample,
    Samples,
    as_hierarchy_file,
    read_pair,
    read_samples,
)
from hierlpr.outofcore.evaluate import evaluate_file as evaluate_file
from hierlpr.outofcore.predict import adapt_model, load_for_scores
from hierlpr.outofcore.predict import rank_file as rank_file
from hierlpr.outofcore.predict import sets_file as sets_file
from hierlpr.outofcore.resources import RunKeywords, RunOptions

FEW_SAMPLES = 20  # for calibration
GOAL = ("precision", "fdr", "maximize", "confidence")

# -- fit --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FitOutcome:
    """A fitted model and what was read.

    `n_fitted` and `n_calibration` samples were used for the curves and for calibration. `notes`
    name samples that were left out or drawn.
    """

    model: HierLPR
    n_fitted: int
    n_calibration: int
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


def fit_file(
    hierarchy: Any,
    scores: AnyPath,
    truth: AnyPath,
    out: AnyPath,
    *,
    goal: Mapping[str, Any] | None = None,
    sets: Mapping[str, Any] | None = None,
    calibration: tuple[AnyPath, AnyPath] | None = None,
    calibration_share: float | None = None,
    lpr: Any = "auto",
    joint: bool | str = "auto",
    leaves: str = "auto",
    seed: int = 0,
    weights: AnyPath | None = None,
    **options: Unpack[RunKeywords],
) -> FitOutcome:
    """Fit a model on files and write it.

    Parameters
    ----------
    hierarchy : path, HierarchyFile or Hierarchy
        A file in any format of `hierlpr.io.load_hierarchy`, or what it returned.
    scores, truth : path
        Tables in any layout that `hierlpr.io` reads.
    out : path
        The model file, written whole or not at all.
    goal, sets : mapping, optional
        Options of ``HierLPR.calibrate``, such as ``{"fdr": 0.1}``, and of
        ``HierLPR.calibrate_sets``, such as ``{"error": 0.1}``. Some of the samples, at most 2**23
        instances, are then kept for calibration and not fitted on.
    calibration : pair of paths, optional
        Scores and truth of other samples for calibration instead.
    calibration_share : float, optional
        As in :meth:`hierlpr.HierLPR.fit_calibrate`.
    lpr : str or estimator
        As in :class:`hierlpr.HierLPR`.
    joint, leaves : bool or str
        As in :class:`hierlpr.HierLPR`.
    seed : int
        Draws the samples for calibration, and the subset.
    weights : path, optional
        A table with the columns ``sample`` and ``weight``. A certificate then needs ``max_weight``
        in `goal`.
    **options
        See `RunKeywords`.
    """
    loaded = as_hierarchy_file(hierarchy)
    options.setdefault("aliases", loaded.aliases)
    run = RunOptions(loaded.hierarchy, **options)
    _check_fit(run, goal, sets, weights)
    if (goal or sets) is None and (calibration or calibration_share) is not None:
        raise DataError(
            "Samples for calibration are given, but no goal.\nHint: goal={'fdr': 0.1}.",
            options=("fdr", "precision", "max_f", "error"),
        )
    if None not in (calibration, calibration_share):
        raise DataError("calibration and calibration_share exclude each other; give one.")
    files = [os.fspath(path) for path in (scores, truth, *(calibration or ()))]
    names = ("the scores", "the truth", "the calibration scores", "the calibration truth")
    inputs: dict[str, Any] = {"the hierarchy": loaded.report.path or None, "the weights": weights}
    refuse_overlap({"the output": out}, inputs | dict(zip(names, files, strict=False)))
    missing = run.table.get("missing_scores", "error")
    params: dict[str, Any] = {"lpr": lpr, "joint": joint, "leaves": leaves}
    model = HierLPR(hierarchy=run.hierarchy, missing_scores=missing, **params)
    model.check_params()
    per_sample = PerSample(run, files, weights, max_weight=(goal or {}).get("max_weight"))
    split = {"share": calibration_share, "rng": seed, "promise": "calls" if goal else "sets"}
    fitted, held_out, sources = _fit_parts(
        files, run, split if goal or sets else None, per_sample, seed
    )
    run.on_progress("fitting", 0, 1)
    model.fit(fitted.scores, fitted.truth, **per_sample.of(fitted.scores, files[0]))
    notes = [note for source in sources for note in source.notes]
    n_held_out = 0 if held_out is None else held_out.scores.n_samples
    if held_out is not None:
        _calibrate(model, held_out, goal, sets, per_sample.of(held_out.scores, files[-2]))
        if n_held_out < FEW_SAMPLES:
            needed = f"about {2 * FEW_SAMPLES} are needed"
            notes.append(f"{n_held_out} calibration samples are too few; {needed}")
    model.save(out)
    reports = [report for source in sources for report in source.reports]
    return FitOutcome(
        model=model,
        n_fitted=fitted.scores.n_samples,
        n_calibration=n_held_out,
        reports=(*reports, *per_sample.reports),
        notes=tuple(notes),
    )


def _check_fit(
    run: RunOptions,
    goal: Mapping[str, Any] | None,
    sets: Mapping[str, Any] | None,
    weights: AnyPath | None,
) -> None:
    """Refuse what cannot be calibrated, before any work."""
    goals = goals_of(**{x: goal[x] for x in GOAL if x in goal}) if goal else [None]
    max_weight = (goal or {}).get("max_weight")
    check_bound(goals[0], None if weights is None else np.zeros(1), max_weight)
    if sets is not None:
        check_level(sets["error"], name="error")
    calibrates = goal is not None or sets is not None
    if weights is not None and calibrates and run.table.get("clusters"):
        raise DataError(
            "Cutoffs and sets with clusters do not support weights.\nHint: leave out one of them."
        )
    if weights is not None and sets is not None:
        raise DataError(
            "Sure and possible labels (sets) are calibrated with unweighted counts of samples.\n"
            "Hint: leave out the weights or the sets."
        )


def _fit_parts(
    files: list[str],
    run: RunOptions,
    split: Mapping[str, Any] | None,
    per_sample: PerSample,
    seed: int,
) -> tuple[Pair, Pair | None, tuple[Samples, ...]]:
    """Return what to fit and to calibrate on, and what was read for it.

    Calibration samples are split off as `split` says, or read from files of their own.
    """
    source = read_pair(files[0], files[1], run, seed)
    if split is None:
        return source.pair, None, (source,)
    if len(files) > 2:
        other = read_pair(files[2], files[3], run, seed)
        limit = sample_limit(other.n_samples, run.hierarchy, other.pair.scores.n_stored)
        drawn = draw_samples(other.n_samples, limit, seed)
        return source.pair, other.pair.rows(drawn), (source, other)
    scores = source.pair.scores
    cluster = cluster_numbers(per_sample.clusters_of(scores), scores)
    fitted, held_out = split_for_cutoff(scores, run.hierarchy, cluster, **split, name=files[0])
    return source.pair.rows(fitted), source.pair.rows(held_out), (source,)


def _calibrate(
    model: HierLPR,
    pair: Pair,
    goal: Mapping[str, Any] | None,
    sets: Mapping[str, Any] | None,
    per_sample: Mapping[str, Any],
) -> None:
    """Calibrate the cutoff and the sets of a model, as far as they are requested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)  # the cutoff says so itself
        if goal is not None:
            model.calibrate(pair.scores, pair.truth, **per_sample, **goal)
            warnings.simplefilter("ignore", HierlprWarning)  # about the same samples
        if sets is not None:
            clusters = per_sample["clusters"]
            model.calibrate_sets(pair.scores, pair.truth, clusters=clusters, **sets)


# -- check and report -------------------------------------------------------------------------


class CheckOutcome(NamedTuple):
    """How far scores have drifted, and what was read."""

    drift: Drift
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


def check_file(
    model: AnyPath, scores: AnyPath, *, out: AnyPath | None = None, **options: Unpack[RunKeywords]
) -> CheckOutcome:
    """Compare the scores of a file with those that a model was fitted on.

    `scores` are predictions of another tool if ``hierlpr assign`` wrote the model. `out` is where
    to write a model adapted to the prevalences of these samples. For the options see `RunKeywords`.
    """
    refuse_overlap({"the adapted model": out}, {"the model": model, "the scores": scores})
    fitted, run = load_for_scores(model, **options)
    if fitted.path_style_ is not None:
        reports = tuple[ReadReport, ...]()
        table, notes = read_for_model(fitted, scores)
    else:
        read, notes = read_samples(os.fspath(scores), run, seed=0)
        table, reports = read.table, (read.report,)
    if out is None:
        clusters = PerSample(run, [os.fspath(scores)]).clusters_of(table)
        return CheckOutcome(fitted.check(table, clusters=clusters), reports, notes)
    adapted, drift = adapt_model(fitted, table)
    adapted.save(out)
    return CheckOutcome(drift, reports, notes)


class ReportOutcome(NamedTuple):
    """A report and what was read."""

    report: Any  # hierlpr.report.Report, which is slow to load
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


def report_file(
    model: AnyPath,
    scores: AnyPath,
    truth: AnyPath | None,
    out: AnyPath,
    *,
    title: str | None = None,
    max_samples: int = 200,
    weights: AnyPath | None = None,
    audit: AnyPath | None = None,
    **options: Unpack[RunKeywords],
) -> ReportOutcome:
    """Write one self-contained HTML page about a model on samples, with truth or (None) without.

    `title` and `max_samples` are as in :func:`hierlpr.report.write_report`, `weights` as in
    `fit_file`; `audit` is the folder of an audit of these samples. For the other options see
    `RunKeywords`.
    """
    from hierlpr.report import write_report

    check_page_name(out)
    inputs = {"the model": model, "the scores": scores, "the truth": truth, "the weights": weights}
    refuse_overlap({"the output": out}, inputs)
    fitted, run = load_for_scores(model, **options)
    files = [os.fspath(x) for x in (scores, truth) if x is not None]
    per_sample = PerSample(run, files, weights)
    data = read_pair(files[0], files[1] if len(files) > 1 else None, run, seed=0)
    page = write_report(
        out,
        fitted,
        data.pair.scores,
        None if truth is None else data.pair.truth,
        title=title,
        about={k[4:].capitalize(): os.path.basename(x) for k, x in inputs.items() if x is not None},
        max_samples=max_samples,
        **per_sample.of(data.pair.scores, files[0]),
        audit=None if audit is None else load_audit(audit),
    )
    return ReportOutcome(page, (*data.reports, *per_sample.reports), data.notes)
