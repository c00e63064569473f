"""From files to files: fit, rank, evaluate and report, held at once or worked on in parts.

Each function looks at the sizes of its files and at the memory, and chooses; results are the same
either way, bit by bit. The commands of the command line are these functions.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.files import refuse_overlap
from hierlpr._base.own_folders import claimed
from hierlpr.data.tables import draw_samples, split_samples
from hierlpr.exceptions import DataError, HierlprWarning, UnreachableWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import HierarchyFile, ReadReport, load_hierarchy
from hierlpr.io.side_tables import read_weights
from hierlpr.io.whole_tables import Absent
from hierlpr.scale.budget import estimate_instances, estimate_rows
from hierlpr.scale.parts import How, in_parts
from hierlpr.scale.source import Reading

# What imports more waits for the functions that need it: an evaluation goes without SciPy.
if TYPE_CHECKING:
    from hierlpr.lpr.drift import Drift
    from hierlpr.model import ScoreModel
    from hierlpr.report.report_page import Report
    from hierlpr.scale.evaluate_parts import Evaluated
    from hierlpr.scale.rank_parts import Ranked
    from hierlpr.scale.sets_parts import SetsFound


# -- fit --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FitOutcome:
    """A fitted model and what was seen.

    Attributes
    ----------
    model : ScoreModel
        What :class:`hierlpr.HierLPR` is over, without scikit-learn.
    n_fitted, n_calibration : int
        Samples behind the curves and behind the cutoff.
    n_calibration_given : int
        Samples that the ones behind the cutoff were chosen from.
    reports : tuple of ReadReport
        What the files held, in the order scores, truth, and those for the cutoff.
    notes : tuple of str
        What happened to samples without truth or scores, and to labels too large to sort.
    rank_error : ndarray of shape (n_labels,)
        How far ranks of a label's scores may be off, as a share of the samples; 0 where they were
        sorted.
    """

    model: ScoreModel
    n_fitted: int
    n_calibration: int
    n_calibration_given: int
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]
    rank_error: NDArray[np.float64]


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
    missing: str = "error",
    absent: Absent | None = None,
    close_truth: bool = False,
    seed: int = 0,
    weights: AnyPath | None = None,
    lenient: bool = False,
    **how: Any,
) -> FitOutcome:
    """Fit a model on files, and write it.

    The model file holds what ``HierLPR.fit`` and ``calibrate`` would have made of the same
    samples, bit by bit, unless a label has too many scores to be sorted in memory; see
    `rank_error` of the result.

    Parameters
    ----------
    hierarchy : path, HierarchyFile or Hierarchy
        A file in any format of `hierlpr.io.load_hierarchy`, or what it gave.
    scores, truth : path
        Tables in any layout that `hierlpr.io` reads; also folders of Parquet files, or addresses
        such as ``s3://bucket/scores.parquet``.
    out : path
        The model file. It appears whole at the end, or stays as it was.
    goal : mapping, optional
        Options of ``HierLPR.calibrate``, such as ``{"fdr": 0.1}``. A third of the samples is then
        kept for the cutoff, at most 2**23 instances, and not fitted on.
    sets : mapping, optional
        Options of ``HierLPR.calibrate_sets``, such as ``{"error": 0.1}``. The same third is kept
        for what is sure and possible; each promise holds by itself.
    calibration : pair of paths, optional
        Scores and truth of other samples for the cutoff and the sets, instead of the third.
    lpr, joint, missing
        See :class:`hierlpr.HierLPR`. With ``missing="allow"`` the samples must fit into memory;
        ranking and reports need not.
    absent : {"negative", "skip"}, optional
        Scored samples that the truth lacks; see :func:`hierlpr.io.pair_samples`.
    close_truth : bool
        Add the missing ancestors of true labels.
    seed : int
        Chooses the samples for the cutoff.
    weights : path, optional
        A table with the columns ``sample`` and ``weight``: how much each sample counts, those for
        the cutoff too. A certificate then needs ``max_weight`` in `goal`.
    lenient : bool
        Pass over rows with problems and count them.
    **how
        Memory, parts, cluster and progress: see :class:`hierlpr.scale.parts.How`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hierlpr.io import write_hierarchy, write_scores, write_truth
    >>> from hierlpr import simulate
    >>> from hierlpr.data.tables import Table
    >>> folder = Path(tempfile.mkdtemp())
    >>> data, _ = simulate.train_test(1, rng=0)
    >>> names = tuple(f"s{i}" for i in range(data.n_samples))
    >>> write_hierarchy(folder / "tree.csv", data.hierarchy)
    >>> for write, values in ((write_scores, data.scores), (write_truth, data.truth)):
    ...     file = folder / f"{write.__name__[6:]}.csv"
    ...     write(file, Table(values.astype(float), data.hierarchy.labels, names))
    >>> done = fit_file(folder / "tree.csv", folder / "scores.csv", folder / "truth.csv",
    ...                 folder / "model.hlpr", goal={"fdr": 0.1})
    >>> done.n_fitted + done.n_calibration
    5000
    >>> ranked = rank_file(folder / "model.hlpr", folder / "scores.csv", folder / "calls.csv")
    >>> ranked.n_rows, ranked.n_samples
    (15000, 5000)
    """
    from hierlpr.model import ScoreModel
    from hierlpr.scale.fit_parts import error_notes, read_pairs

    options = How(**how)
    holds_out = goal is not None or sets is not None
    if calibration is not None and not holds_out:
        raise DataError("Samples for the cutoff are given, but no goal.\nHint: goal={'fdr': 0.1}.")
    loaded = _loaded(hierarchy)
    files = [os.fspath(path) for path in (scores, truth, *(calibration or ()))]
    names = ("the scores", "the truth", "the calibration scores", "the calibration truth")
    given: dict[str, Any] = {"the hierarchy": loaded.report.path or None, "the weights": weights}
    given |= dict(zip(names, files, strict=False))
    refuse_overlap({"the output": out}, given, options.work)
    if weights is not None and sets is not None:
        raise DataError(
            "Sure and possible labels (sets) go by plain counts of samples, not by weights.\n"
            "Hint: leave out one of the two."
        )
    model = ScoreModel(hierarchy=loaded.hierarchy, lpr=lpr, joint=joint, missing=missing)
    model.check_params()
    allows = missing == "allow"
    reading = Reading(loaded.hierarchy, loaded.aliases, lenient, close_truth, absent, allows)
    with claimed(out), read_pairs(files, reading, options, "fit", out) as read:
        data = read(files[:2], "fit")
        held_out, fitted, kept = data, np.arange(data.n_samples), np.empty(0, dtype=np.intp)
        if calibration is not None:
            held_out = read(files[2:], "cutoff")
            kept = draw_samples(held_out.n_samples, held_out.limit(), seed)
        elif holds_out:
            fitted, kept = split_samples(data.n_samples, data.limit(), seed, name=files[0])
        options.say("fitting labels", 0, 1)
        bound = (goal or {}).get("max_weight")
        weighing = read_weights(weights, lenient=lenient, max_weight=bound)
        own = weighing.match(lambda: data.sample_names, files[0], fitted)
        errors = data.fit(model, fitted, own)
        if holds_out:
            others = held_out.pair(kept)
            with warnings.catch_warnings():
                # The cutoff says in its own words what could not be reached.
                warnings.simplefilter("ignore", UnreachableWarning)
                if goal is not None:
                    own = weighing.match(lambda: held_out.sample_names, files[-2], kept)
                    model.calibrate(others.scores, others.truth, sample_weight=own, **goal)
                    warnings.simplefilter("ignore", HierlprWarning)  # of the same samples
                if sets is not None:
                    model.calibrate_sets(others.scores, others.truth, **sets)
        model.save(out)
    both = [data] if held_out is data else [data, held_out]
    return FitOutcome(
        model, fitted.size, kept.size, held_out.n_samples if holds_out else 0,
        (*(report for part in both for report in part.reports), *weighing.reports),
        (*(note for part in both for note in part.notes), *error_notes(errors, loaded.hierarchy)),
        errors,
    )  # fmt: skip


# -- rank -------------------------------------------------------------------------------------


def rank_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    top: int | None = None,
    calls_only: bool = False,
    with_names: bool = False,
    adapt: bool = False,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    **how: Any,
) -> Ranked:
    """Rank the samples of a file by a model as ``HierLPR.rank`` does, and write the ranking.

    Parameters
    ----------
    model : path
        A model file.
    scores : path
        As in `fit_file`.
    out : path
        ``.parquet``, ``.csv`` or ``.tsv``; without an ending, or on a cluster, a folder of Parquet
        files. It appears whole at the end, or stays as it was. A folder that hierlpr did not make
        is not replaced.
    top : int, optional
        List only the first instances.
    calls_only : bool
        List only what is called; if one level cuts all labels, nothing else is sorted.
    with_names : bool
        Add a last column with the names for people of the labels, which the model must have.
    adapt : bool
        First move the model to the prevalences of these samples, as ``HierLPR.adapt`` does. The
        ranking is then by that model, which has no cutoff: calls are those at 0.5 or more, and
        nothing is promised about them. `drift` of the result tells how far prevalences moved.
    aliases : mapping, optional
        Other names of labels, as `hierlpr.io.load_hierarchy` gives them.
    lenient, **how
        As in `fit_file`.
    """
    from hierlpr.scale.output import use_model
    from hierlpr.scale.rank_parts import rank_at_once, rank_in_parts

    options: Any = {"aliases": aliases, "lenient": lenient, "with_names": with_names}
    chosen: Any = {"top": top, "calls_only": calls_only, "adapt": adapt}
    with use_model(model, scores, out, how, **options) as use:
        if use.whole:
            return rank_at_once(use, **chosen)
        with in_parts(use.how, "rank", use.out, beside=use.out) as parts:
            return rank_in_parts(use, parts, **chosen)


# -- sets -------------------------------------------------------------------------------------


def sets_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    deepest: bool = False,
    possible_only: bool = False,
    with_names: bool = False,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    **how: Any,
) -> SetsFound:
    """Write which labels of each sample are sure, possible or neither, as ``predict_sets`` does.

    Parameters
    ----------
    model : path
        A model file that knows its sets: fitted with ``fit_file(..., sets=...)``.
    scores : path
        As in `fit_file`.
    out : path
        ``.parquet`` or ``.csv`` with sample, label, set; without an ending, or on a cluster, a
        folder of Parquet files. Samples stand in the order of the scores, sure labels first.
    deepest : bool
        One row a sample instead: its deepest sure label, empty where none is sure.
    possible_only : bool
        Leave out the labels that are neither.
    with_names, aliases, lenient, **how
        As in `rank_file`.
    """
    from hierlpr.scale.output import use_model
    from hierlpr.scale.sets_parts import sets_at_once, sets_in_parts

    if deepest and possible_only:
        raise DataError("deepest lists one label a sample, so there is nothing to leave out.")
    options: dict[str, Any] = {"endings": (".parquet", ".csv"), "what": "file of sets"}
    options |= {"aliases": aliases, "lenient": lenient, "with_names": with_names}
    wanted: Any = "deepest" if deepest else "possible" if possible_only else "all"
    with use_model(model, scores, out, how, **options) as use:
        use.model.set_rule()  # or it says that there is none, before any work
        if use.whole:
            return sets_at_once(use, wanted)
        with in_parts(use.how, "sets", use.out, beside=use.out) as parts:
            return sets_in_parts(use, wanted, parts)


# -- check ------------------------------------------------------------------------------------


def check_file(
    model: AnyPath,
    scores: AnyPath,
    *,
    adapt: AnyPath | None = None,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    **how: Any,
) -> tuple[Drift, ReadReport]:
    """Compare the scores of a file with those a model was fitted on.

    Of very many samples some are compared, drawn at random, the same whole and in parts.

    Parameters
    ----------
    model, scores : path
        As in `rank_file`.
    adapt : path, optional
        Where to write a model for the prevalences of these samples.
    aliases, lenient, **how
        As in `rank_file`.
    """
    from hierlpr.model import load_score_model
    from hierlpr.scale.check_parts import adapt_to, check_in_parts

    options, given = How(**how), {"the model": model, "the scores": scores}
    refuse_overlap({"the adapted model": adapt}, given, options.work)
    with nullcontext() if adapt is None else claimed(adapt):
        fitted, file = load_score_model(model), os.fspath(scores)
        reading = Reading.by(fitted, aliases, lenient=lenient)
        whole = not options.asks_for_parts(file)
        if whole and options.budget.holds(estimate_instances(file)):
            options.say("reading scores", 0, 1)
            read = reading.scores(file)
            table, report = read.table, read.report
        else:
            with in_parts(options, "check", os.fspath(model), file) as parts:
                table, report = check_in_parts(fitted, os.fspath(model), file, reading, parts)
        if adapt is None:
            return fitted.check(table), report
        new, drift = adapt_to(fitted, table)
        new.save(adapt)
        return drift, report


# -- evaluate ---------------------------------------------------------------------------------


def evaluate_file(
    ranking: AnyPath,
    truth: AnyPath,
    hierarchy: Any,
    *,
    absent: Absent | None = None,
    close_truth: bool = False,
    weights: AnyPath | None = None,
    lenient: bool = False,
    **how: Any,
) -> Evaluated:
    """Measure a ranking against the truth.

    Parameters
    ----------
    ranking : path
        What `rank_file` or `hierlpr.io.write_ranking` wrote, or CAFA predictions.
    truth : path
        A table in any layout that `hierlpr.io` reads.
    hierarchy : path, HierarchyFile or Hierarchy
    absent : {"negative", "skip"}, optional
        Ranked samples that the truth lacks.
    weights : path, optional
        A table with the columns ``sample`` and ``weight``: how much each sample counts in shares
        and means. Sizes and counts stay plain.
    close_truth, lenient, **how
        As in `fit_file`. Work files take about 20 bytes a row.
    """
    from hierlpr.scale.evaluate_parts import evaluate_at_once, evaluate_in_parts

    options = How(**how)
    loaded = _loaded(hierarchy)
    files = [os.fspath(ranking), os.fspath(truth)]
    given = {"the ranking": ranking, "the truth": truth, "the weights": weights}
    refuse_overlap({}, {**given, "the hierarchy": loaded.report.path or None}, options.work)
    reading = Reading(loaded.hierarchy, loaded.aliases, lenient, close_truth, absent)
    weighing = read_weights(weights, lenient=lenient)
    if not options.asks_for_parts(*files) and options.budget.holds_evaluation(
        estimate_rows(files[0]), estimate_instances(files[1])
    ):
        return evaluate_at_once(files[0], files[1], reading, options, weighing)
    with in_parts(options, "evaluate", *files) as parts:
        return evaluate_in_parts(files[0], files[1], reading, parts, weighing)


# -- report -----------------------------------------------------------------------------------


class ReportOutcome(NamedTuple):
    """A report, and what was seen on the way."""

    report: Report
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
    absent: Absent | None = None,
    close_truth: bool = False,
    weights: AnyPath | None = None,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    **how: Any,
) -> ReportOutcome:
    """Write one self-contained HTML page about a model on samples, with truth or (None) without.

    Samples are looked at a few at a time; of files that need more than the memory, scores wait in
    the work folder. Only what is true is held of all samples: if that alone needs more than half
    of the memory, the page is about samples drawn at random, and a note says so.

    Parameters
    ----------
    model, scores, truth : path
    out : path
        The page. It appears whole at the end, or stays as it was.
    title, max_samples
        See :func:`hierlpr.report.write_report`.
    weights : path, optional
        A table with the columns ``sample`` and ``weight``: how much each sample counts in shares,
        means and curves.
    aliases : mapping, optional
        Other names of labels, as `hierlpr.io.load_hierarchy` gives them.
    absent, close_truth, lenient, **how
        As in `fit_file`.
    """
    from hierlpr.model import load_score_model
    from hierlpr.report import write_report
    from hierlpr.scale.fit_parts import StoredSamples, read_pairs

    options = How(**how)
    files = [os.fspath(path) for path in (scores, truth) if path is not None]
    inputs = {"the model": model, "the scores": files[0], "the truth": truth}
    refuse_overlap({"the output": out}, {**inputs, "the weights": weights}, options.work)
    with claimed(out):
        weighing = read_weights(weights, lenient=lenient)
        fitted = load_score_model(model)
        reading = Reading.by(fitted, aliases, lenient=lenient, close=close_truth, absent=absent)
        with read_pairs(files, reading, options, "report", out) as read:
            data = read(files, "pair")
            chosen, notes, folder = np.arange(data.n_samples), data.notes, None
            given: tuple[Any, Any]
            if isinstance(data, StoredSamples):
                chosen = draw_samples(data.n_samples, data.report_limit(), 0)
                given, folder = data.streamed(chosen), data.parts.folder
            else:
                given = data.held.scores, data.held.truth
            own = weighing.match(lambda: data.sample_names, files[0], chosen)
            if chosen.size < data.n_samples:
                drawn = f"{chosen.size:,} of {data.n_samples:,} samples are looked at"
                notes = (*notes, f"{drawn}, drawn at random; more would not fit")
            report = write_report(
                out, fitted, given[0], None if truth is None else given[1], title=title,
                max_samples=max_samples, sample_weight=own, folder=folder,
                on_progress=lambda done, total: options.say("report", done, total),
            )  # fmt: skip
    return ReportOutcome(report, (*data.reports, *weighing.reports), notes)


# -- shared -----------------------------------------------------------------------------------


def _loaded(hierarchy: Any) -> HierarchyFile:
    """Return a hierarchy with its other names, from whatever says which one."""
    if isinstance(hierarchy, HierarchyFile):
        return hierarchy
    if isinstance(hierarchy, Hierarchy):
        return HierarchyFile(hierarchy, ReadReport("", "hierarchy"), {})
    return load_hierarchy(hierarchy)
