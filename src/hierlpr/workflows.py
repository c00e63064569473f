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
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.files import check_page_name, refuse_overlap
from hierlpr.cutoff.split import split_for_cutoff
from hierlpr.data.clusters import cluster_ids
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning, UnreachableWarning
from hierlpr.io import ReadReport
from hierlpr.io.auxiliary_tables import Weights, read_clusters
from hierlpr.io.read_tables import Pair
from hierlpr.lpr.drift import Drift
from hierlpr.model import HierLPR
from hierlpr.outofcore.batches import (
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
    load_for_scores,
    rank_scores,
    write_sets,
)
from hierlpr.outofcore.resources import RunKeywords, RunOptions

FEW_SAMPLES = 20  # for calibration

# -- fit --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FitOutcome:
    """A fitted model and what was read.

    `n_fitted` and `n_calibration` samples were used for the curves and for calibration; the latter
    were drawn from `n_calibration_read`. `notes` name samples that were left out or drawn.
    """

    model: HierLPR
    n_fitted: int
    n_calibration: int
    n_calibration_read: int
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
    _check_fit(run, goal, sets, calibration, weights)
    files = [os.fspath(path) for path in (scores, truth, *(calibration or ()))]
    names = ("the scores", "the truth", "the calibration scores", "the calibration truth")
    inputs: dict[str, Any] = {"the hierarchy": loaded.report.path or None, "the weights": weights}
    refuse_overlap({"the output": out}, inputs | dict(zip(names, files, strict=False)))
    missing = run.table.get("missing_scores", "error")
    params: dict[str, Any] = {"lpr": lpr, "joint": joint, "leaves": leaves}
    model = HierLPR(hierarchy=run.hierarchy, missing_scores=missing, **params)
    model.check_params()
    clusters = read_clusters(files[:2], **run.table) | (
        read_clusters(files[2:], **run.table) if calibration else {}
    )
    split: dict[str, Any] = {"share": calibration_share, "rng": seed}
    split["promise"] = "calls" if goal else "sets"
    parts = _fit_parts(files, run, split if goal or sets else None, seed, clusters)
    run.on_progress("fitting", 0, 1)
    weights_file = read_sample_weights(weights, run, max_weight=(goal or {}).get("max_weight"))
    per_sample = _per_sample(parts.fitted, files[0], weights_file, clusters)
    model.fit(parts.fitted.scores, parts.fitted.truth, **per_sample)
    notes = [note for read in parts.read for note in read.notes]
    n_calibration = 0
    if parts.calibration is not None:
        per_sample = _per_sample(parts.calibration, files[-2], weights_file, clusters)
        _calibrate(model, parts.calibration, goal, sets, **per_sample)
        n_calibration = parts.calibration.scores.n_samples
        if n_calibration < FEW_SAMPLES:
            needed = f"about {2 * FEW_SAMPLES} are needed"
            notes.append(f"{n_calibration} calibration samples are too few; {needed}")
    model.save(out)
    reports = [report for read in parts.read for report in read.reports]
    return FitOutcome(
        model=model,
        n_fitted=parts.fitted.scores.n_samples,
        n_calibration=n_calibration,
        n_calibration_read=parts.read[-1].n_samples if n_calibration else 0,
        reports=(*reports, *([weights_file.report] if weights_file else [])),
        notes=tuple(notes),
    )


def _check_fit(
    run: RunOptions,
    goal: Mapping[str, Any] | None,
    sets: Mapping[str, Any] | None,
    calibration: tuple[AnyPath, AnyPath] | None,
    weights: AnyPath | None,
) -> None:
    """Refuse what cannot be combined, before any work."""
    calibrates = goal is not None or sets is not None
    if calibration is not None and not calibrates:
        raise DataError("Samples for the cutoff are given, but no goal.\nHint: goal={'fdr': 0.1}.")
    if weights is not None and calibrates and run.table.get("clusters"):
        raise DataError(
            "Cutoffs and sets with clusters do not support weights.\nHint: leave out one of them."
        )
    if weights is not None and sets is not None:
        raise DataError(
            "Sure and possible labels (sets) are calibrated with unweighted counts of samples.\n"
            "Hint: leave out the weights or the sets."
        )


class _FitParts(NamedTuple):
    """Samples to fit on and to calibrate on, and what was read for them."""

    fitted: Pair
    calibration: Pair | None
    read: tuple[Samples, ...]


def _fit_parts(
    files: list[str],
    run: RunOptions,
    split: Mapping[str, Any] | None,
    seed: int,
    clusters: Mapping[str, str],
) -> _FitParts:
    """Read scores and truth; split a part for calibration off, or read it from files of its own."""
    read = read_pair(files[0], files[1], run, seed)
    if split is None:
        return _FitParts(read.pair, None, (read,))
    if len(files) > 2:
        other = read_pair(files[2], files[3], run, seed)
        limit = sample_limit(other.n_samples, run.hierarchy, other.pair.scores.n_stored)
        drawn = draw_samples(other.n_samples, limit, seed)
        return _FitParts(read.pair, other.pair.rows(drawn), (read, other))
    scores = read.pair.scores
    ids = cluster_ids(_clusters_of(scores, clusters), scores)
    fitted, kept = split_for_cutoff(scores, run.hierarchy, ids, **split, name=files[0])
    return _FitParts(read.pair.rows(fitted), read.pair.rows(kept), (read,))


def _clusters_of(scores: Table, clusters: Mapping[str, str]) -> dict[str, str | None] | None:
    """Return the cluster of each sample, None where it is not known; None without clusters."""
    return {x: clusters.get(x) for x in scores.samples or ()} if clusters else None


def _per_sample(
    pair: Pair, source: str, weights: Weights | None, clusters: Mapping[str, str]
) -> dict[str, Any]:
    """Return weights and clusters of the samples of a file, as `HierLPR.fit` takes them."""
    weight = weights and weights.match(pair.scores.samples or (), source)
    return {"sample_weight": weight, "clusters": _clusters_of(pair.scores, clusters)}


def _calibrate(
    model: HierLPR,
    pair: Pair,
    goal: Mapping[str, Any] | None,
    sets: Mapping[str, Any] | None,
    *,
    sample_weight: NDArray[np.float64] | None,
    clusters: Mapping[str, str | None] | None,
) -> None:
    """Calibrate the cutoff and the sets of a model, as far as they are requested."""
    of_samples: dict[str, Any] = {"sample_weight": sample_weight, "clusters": clusters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)  # the cutoff says so itself
        if goal is not None:
            model.calibrate(pair.scores, pair.truth, **of_samples, **goal)
            warnings.simplefilter("ignore", HierlprWarning)  # about the same samples
        if sets is not None:
            model.calibrate_sets(pair.scores, pair.truth, clusters=clusters, **sets)


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
    **options: Unpack[RunKeywords],
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
        See `RunKeywords`.
    """
    job = PredictionJob(model, scores, out, with_names=with_names, **options)
    return rank_scores(job, top=top, calls_only=calls_only, adapt=adapt)


def sets_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    deepest: bool = False,
    possible_only: bool = False,
    with_names: bool = False,
    **options: Unpack[RunKeywords],
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
        See `RunKeywords`.
    """
    if deepest and possible_only:
        raise DataError("deepest and possible-only exclude each other; give one.")
    endings = (".parquet", ".csv")
    job = PredictionJob(model, scores, out, with_names=with_names, endings=endings, **options)
    job.model.set_rule()  # raises before any work if the model has none
    return write_sets(job, "deepest" if deepest else "possible" if possible_only else "all")


class CheckOutcome(NamedTuple):
    """How far scores have drifted, and what was read."""

    drift: Drift
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


def check_file(
    model: AnyPath,
    scores: AnyPath,
    *,
    out: AnyPath | None = None,
    **options: Unpack[RunKeywords],
) -> CheckOutcome:
    """Compare the scores of a file with those that a model was fitted on.

    Parameters
    ----------
    model, scores : path
        As in `rank_file`.
    out : path, optional
        Where to write a model that is adapted to the prevalences of these samples.
    **options
        See `RunKeywords`.
    """
    refuse_overlap({"the adapted model": out}, {"the model": model, "the scores": scores})
    fitted, run = load_for_scores(model, **options)
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
    **options: Unpack[RunKeywords],
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
        See `RunKeywords`.
    """
    from hierlpr.report import write_report

    check_page_name(out)
    inputs = {"the model": model, "the scores": scores, "the truth": truth, "the weights": weights}
    refuse_overlap({"the output": out}, inputs)
    fitted, run = load_for_scores(model, **options)
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
