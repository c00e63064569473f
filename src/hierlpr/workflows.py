"""From files to files: fit, rank, evaluate and report. The command line calls these functions.

What fits into memory is read whole. Larger files are ranked in batches of samples, and models are
fitted, checked and reported on a random subset of the samples.

All functions take the fields of :class:`hierlpr.outofcore.batches.RunOptions` as further keyword
arguments: `aliases`, `lenient`, `table`, `memory`, `work`, `on_progress`, with truth
`missing_truth` and `propagate_truth`, and in `rank_file` and `sets_file` `scheduler`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hierlpr._utils import AnyPath
from hierlpr._utils.files import check_page_name, refuse_overlap
from hierlpr.data.clusters import cluster_ids
from hierlpr.data.tables import Table, draw_samples, sample_limit, split_samples
from hierlpr.exceptions import DataError, HierlprWarning, UnreachableWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import ReadReport
from hierlpr.io.auxiliary_tables import Weights, read_clusters
from hierlpr.io.read_tables import Pair
from hierlpr.io.table_files import MissingScores
from hierlpr.lpr.drift import Drift
from hierlpr.model import HierLPR, load_model
from hierlpr.model.prediction import set_rule
from hierlpr.model.training import check_params
from hierlpr.outofcore.batches import (
    RunOptions,
    Samples,
    as_hierarchy_file,
    read_pair,
    read_sample_weights,
    read_samples,
)
from hierlpr.outofcore.evaluate import evaluate_file as evaluate_file
from hierlpr.outofcore.predict import (
    PredictionJob,
    RankOutcome,
    SetsOutcome,
    adapt_model,
    rank_scores,
    write_sets,
)

FEW_SAMPLES = 20  # for calibration

# -- fit --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FitOutcome:
    """A fitted model and what was read.

    `n_fitted` and `n_calibration` samples were used for the curves and for calibration; the latter
    were drawn from `n_calibration_given`. `notes` name samples that were left out or drawn.
    """

    model: HierLPR
    n_fitted: int
    n_calibration: int
    n_calibration_given: int
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
    lpr: Any = "auto",
    joint: bool | str = "auto",
    missing_scores: MissingScores = "error",
    seed: int = 0,
    weights: AnyPath | None = None,
    **options: Any,
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
        ``HierLPR.calibrate_sets``, such as ``{"error": 0.1}``. A third of the samples, at most
        2**23 instances, is then kept for calibration and not fitted on.
    calibration : pair of paths, optional
        Scores and truth of other samples for calibration, instead of the third.
    lpr : str or estimator
        As in :class:`hierlpr.HierLPR`.
    joint : bool or "auto"
        As in :class:`hierlpr.HierLPR`.
    missing_scores : {"error", "allow"}
        `missing_scores` of :class:`hierlpr.HierLPR`.
    seed : int
        Draws the samples for calibration, and the subset.
    weights : path, optional
        A table with the columns ``sample`` and ``weight``. A certificate then needs ``max_weight``
        in `goal`.
    **options
        Fields of `RunOptions`.
    """
    calibrates = goal is not None or sets is not None
    if calibration is not None and not calibrates:
        raise DataError("Samples for the cutoff are given, but no goal.\nHint: goal={'fdr': 0.1}.")
    if weights is not None and calibrates and (options.get("table") or {}).get("clusters"):
        raise DataError(
            "Cutoffs and sets with clusters do not support weights.\nHint: leave out one of them."
        )
    if weights is not None and sets is not None:
        raise DataError(
            "Sure and possible labels (sets) are calibrated with unweighted counts of samples.\n"
            "Hint: leave out the weights or the sets."
        )
    loaded = as_hierarchy_file(hierarchy)
    files = [os.fspath(path) for path in (scores, truth, *(calibration or ()))]
    names = ("the scores", "the truth", "the calibration scores", "the calibration truth")
    inputs: dict[str, Any] = {"the hierarchy": loaded.report.path or None, "the weights": weights}
    refuse_overlap({"the output": out}, inputs | dict(zip(names, files, strict=False)))
    h = loaded.hierarchy
    model = HierLPR(hierarchy=h, lpr=lpr, joint=joint, missing_scores=missing_scores)
    check_params(model)
    given = {"aliases": loaded.aliases, "missing_scores": missing_scores, **options}
    run = RunOptions(hierarchy=h, **given)
    cluster_of: dict[str, str] = {}
    for first in range(0, len(files), 2):
        cluster_of |= read_clusters(files[first : first + 2], **run.table)
    parts = _fit_parts(files, run, seed, cluster_of, calibrates=calibrates)
    run.on_progress("fitting", 0, 1)
    weights_file = read_sample_weights(weights, run, max_weight=(goal or {}).get("max_weight"))
    weight = weights_file and weights_file.match(parts.fitted.scores.samples or (), files[0])
    ids = _clusters_of(parts.fitted.scores, cluster_of)
    model.fit(parts.fitted.scores, parts.fitted.truth, sample_weight=weight, clusters=ids)
    n_calibration = parts.calibration.scores.n_samples if parts.calibration else 0
    notes = [note for read in parts.read for note in read.notes]
    if parts.calibration is not None:
        ids = _clusters_of(parts.calibration.scores, cluster_of)
        _calibrate(model, parts.calibration, goal, sets, weights_file, files[-2], ids)
        if n_calibration < FEW_SAMPLES:
            needed = f"about {2 * FEW_SAMPLES} are needed"
            notes.append(f"{n_calibration} calibration samples are too few; {needed}")
    model.save(out)
    reports = [report for read in parts.read for report in read.reports]
    return FitOutcome(
        model=model,
        n_fitted=parts.fitted.scores.n_samples,
        n_calibration=n_calibration,
        n_calibration_given=parts.read[-1].n_samples if calibrates else 0,
        reports=(*reports, *([weights_file.report] if weights_file else [])),
        notes=tuple(notes),
    )


class _FitParts(NamedTuple):
    """Samples to fit on and to calibrate on, and what was read for them."""

    fitted: Pair
    calibration: Pair | None
    read: tuple[Samples, ...]


def _clusters_of(scores: Table, cluster_of: Mapping[str, str]) -> dict[str, str | None] | None:
    """Return the cluster of each sample, None where it is not known; None without clusters."""
    return {x: cluster_of.get(x) for x in scores.samples or ()} if cluster_of else None


def _fit_parts(
    files: list[str],
    run: RunOptions,
    seed: int,
    cluster_of: Mapping[str, str],
    *,
    calibrates: bool,
) -> _FitParts:
    """Read scores and truth; split a part for calibration off, or read it from files of its own."""
    read = read_pair(files[0], files[1], run, seed)
    if not calibrates:
        return _FitParts(read.pair, None, (read,))
    if len(files) > 2:
        other = read_pair(files[2], files[3], run, seed)
        drawn = draw_samples(other.n_samples, _calibration_limit(other, run.hierarchy), seed)
        return _FitParts(read.pair, other.pair.rows(drawn), (read, other))
    limit = _calibration_limit(read, run.hierarchy)
    ids = cluster_ids(_clusters_of(read.pair.scores, cluster_of), read.pair.scores)
    fitted, calibration = split_samples(read.n_samples, limit, seed, cluster=ids, name=files[0])
    return _FitParts(read.pair.rows(fitted), read.pair.rows(calibration), (read,))


def _calibrate(
    model: HierLPR,
    pair: Pair,
    goal: Mapping[str, Any] | None,
    sets: Mapping[str, Any] | None,
    weights: Weights | None,
    source: str,
    ids: Mapping[str, str | None] | None,
) -> None:
    """Calibrate the cutoff and the sets of a model, as far as they are requested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)  # the cutoff says so itself
        if goal is not None:
            weight = weights and weights.match(pair.scores.samples or (), source)
            model.calibrate(pair.scores, pair.truth, sample_weight=weight, clusters=ids, **goal)
            warnings.simplefilter("ignore", HierlprWarning)  # about the same samples
        if sets is not None:
            model.calibrate_sets(pair.scores, pair.truth, clusters=ids, **sets)


def _calibration_limit(data: Samples, hierarchy: Hierarchy) -> int:
    """How many samples a cutoff is calibrated on at most."""
    return sample_limit(data.n_samples, hierarchy, data.pair.scores.n_stored)


# -- rank, sets and check ---------------------------------------------------------------------


def rank_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    top: int | None = None,
    calls_only: bool = False,
    with_names: bool = False,
    adapt: bool = False,
    **options: Any,
) -> RankOutcome:
    """Rank the samples of a file as ``HierLPR.rank`` does, and write the ranking.

    Parameters
    ----------
    model, scores : path
        A model file, and scores as in `fit_file`.
    out : path
        ``.parquet``, ``.csv`` or ``.tsv``, written whole or not at all.
    top : int, optional
        List only the first instances.
    calls_only : bool
        List only the calls.
    with_names : bool
        Add a last column with the names of the labels, which the model must have.
    adapt : bool
        First adapt the model to the prevalences of these samples, as ``HierLPR.adapt`` does; the
        cutoff is then 0.5.
    **options
        Fields of `RunOptions`.
    """
    job = _prediction_job(model, scores, out, options, with_names=with_names)
    return rank_scores(job, top=top, calls_only=calls_only, adapt=adapt)


def sets_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    deepest: bool = False,
    possible_only: bool = False,
    with_names: bool = False,
    **options: Any,
) -> SetsOutcome:
    """Write which labels of each sample are sure, possible or neither, as ``predict_sets`` does.

    Parameters
    ----------
    model, scores : path
        A model file fitted with ``fit_file(..., sets=...)``, and scores as in `fit_file`.
    out : path
        ``.parquet`` or ``.csv`` with the columns sample, label and set. Samples are in the order of
        the scores, with their sure labels first.
    deepest : bool
        Write one row per sample: its deepest sure label, empty if no label is sure.
    possible_only : bool
        Leave out the labels that are neither sure nor possible.
    with_names : bool
        As in `rank_file`.
    **options
        As in `rank_file`.
    """
    if deepest and possible_only:
        raise DataError("deepest and possible-only exclude each other; give one.")
    endings = (".parquet", ".csv")
    job = _prediction_job(model, scores, out, options, with_names=with_names, endings=endings)
    set_rule(job.model)  # raises before any work if the model has none
    return write_sets(job, "deepest" if deepest else "possible" if possible_only else "all")


def _prediction_job(
    model: AnyPath, scores: AnyPath, out: AnyPath, options: Mapping[str, Any], **given: Any
) -> PredictionJob:
    """Load a model to use on a file of scores; refuse a bad output before any work."""
    refuse_overlap({"the output": out}, {"the model": model, "the scores": scores})
    fitted, run = _load_for_scores(model, options)
    return PredictionJob.of(fitted, os.fspath(scores), os.fspath(out), run, **given)


class CheckOutcome(NamedTuple):
    """How far scores have drifted, and what was read."""

    drift: Drift
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


def check_file(
    model: AnyPath, scores: AnyPath, *, out: AnyPath | None = None, **options: Any
) -> CheckOutcome:
    """Compare the scores of a file with those that a model was fitted on.

    Parameters
    ----------
    model, scores : path
        As in `rank_file`.
    out : path, optional
        Where to write a model that is adapted to the prevalences of these samples.
    **options
        As in `rank_file`.
    """
    refuse_overlap({"the adapted model": out}, {"the model": model, "the scores": scores})
    fitted, run = _load_for_scores(model, options)
    read, notes = read_samples(os.fspath(scores), run, seed=0)
    if out is None:
        return CheckOutcome(fitted.check(read.table), (read.report,), notes)
    adapted, drift = adapt_model(fitted, read.table)
    adapted.save(out)
    return CheckOutcome(drift, (read.report,), notes)


# -- report ------------------------------------------------------------------------------------


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
    **options: Any,
) -> ReportOutcome:
    """Write one self-contained HTML page about a model on samples, with truth or (None) without.

    Parameters
    ----------
    model, scores : path
        As in `rank_file`.
    truth : path, optional
        As in `fit_file`.
    out : path
        The page, written whole or not at all.
    title : str, optional
        Heading of the page.
    max_samples : int
        Samples shown individually, as in :func:`hierlpr.report.write_report`.
    weights : path, optional
        As in `fit_file`.
    **options
        As in `fit_file`.
    """
    from hierlpr.report import write_report

    check_page_name(out)
    inputs = {"the model": model, "the scores": scores, "the truth": truth, "the weights": weights}
    refuse_overlap({"the output": out}, inputs)
    fitted, run = _load_for_scores(model, options)
    weights_file = read_sample_weights(weights, run)
    labelled = None if truth is None else os.fspath(truth)
    data = read_pair(os.fspath(scores), labelled, run, seed=0)
    names = data.pair.scores.samples or ()
    page = write_report(
        out,
        fitted,
        data.pair.scores,
        None if truth is None else data.pair.truth,
        title=title,
        about={k[4:].capitalize(): os.path.basename(x) for k, x in inputs.items() if x is not None},
        max_samples=max_samples,
        sample_weight=weights_file and weights_file.match(names, os.fspath(scores)),
    )
    reports = (*data.reports, *([weights_file.report] if weights_file else []))
    return ReportOutcome(page, reports, data.notes)


# -- shared -----------------------------------------------------------------------------------


def _load_for_scores(model: AnyPath, options: Mapping[str, Any]) -> tuple[HierLPR, RunOptions]:
    """Load a model of scores, and how scores are read for it; a classifier is refused."""
    fitted: HierLPR = load_model(model)
    missing = {"missing_scores": fitted.missing_scores}
    return fitted, RunOptions(hierarchy=fitted.hierarchy_, **{**missing, **options})
