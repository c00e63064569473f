"""Name every sample at the deepest rank that can be trusted, from the files of other tools.

`learn_names` fits a model on predictions with known names and checks it on held-out samples;
`assign_names` names new samples with it. The command ``hierlpr assign`` calls these functions.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.files import check_page_name, refuse_overlap
from hierlpr.cutoff.description import percent
from hierlpr.cutoff.sets import least_samples
from hierlpr.cutoff.split import calibration_share as default_share
from hierlpr.cutoff.split import split_samples
from hierlpr.data.clusters import cluster_note, cluster_numbers
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError, HierlprWarning, Note, UnreachableWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.lineages import Float, Index, Predictions, written_paths
from hierlpr.io.predictions import read_predictions, write_like_input
from hierlpr.io.table_output import output_ending, write_table
from hierlpr.io.true_names import read_cluster_ids, read_true_names
from hierlpr.model import HierLPR, load_model
from hierlpr.model.new_names import OTHER_RANK, extend, match_names
from hierlpr.report import names

BATCH = 1 << 17  # samples named at a time
MOST_REPORTED = 20_000  # samples of a report on new predictions
# Parts of the held-out samples, each named after calibrating on the others; a part per sample of
# few, because promises go by whole numbers: 5 of 50 samples may be wrong, but only 4 of 45.
N_PARTS, FEW_HELD_OUT = 10, 200
LEAST_SHOWN = 20  # held-out samples for shares of them
LEAST_FLAT = 50  # for saying that more would not help: fewer are often all named alike
FLAT, SURE_GAIN = 0.1, 0.02  # correct ranks per sample


@dataclass(frozen=True, slots=True, eq=False)
class LearnOutcome:
    """A model that names samples, and how it did on samples that it had not seen.

    `wrong` is the share of held-out samples with a wrong name, `usual_wrong` that with the
    threshold `usual`. Both, and `ranks`, come from cross-calibration: each part of the held-out
    samples is named after calibrating on the others. The model itself is calibrated on all. If the
    held-out samples are too few to show anything, both are None, and `ranks` is empty.
    """

    model: HierLPR
    n_labelled: int
    n_fitted: int
    n_held_out: int
    n_clusters: int | None  # of the labelled samples
    promise: str
    ranks: tuple[names.RankRow, ...]
    wrong: float | None
    usual: float
    usual_wrong: float | None
    more: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AssignOutcome:
    """How many samples were named, and by rank."""

    n_samples: int
    n_named: int
    by_rank: dict[str, int]
    notes: tuple[str, ...]


class _Labelled(NamedTuple):
    """Listed scores and truth of samples, and the number of the cluster of each, if it has one."""

    scores: sparse.csr_array
    truth: sparse.csr_array
    cluster: Index | None

    def take(self, rows: Any, columns: Any = slice(None)) -> _Labelled:
        cluster = None if self.cluster is None else self.cluster[rows]
        return _Labelled(self.scores[rows][:, columns], self.truth[rows][:, columns], cluster)

    def units(self) -> tuple[Index, int]:
        """Return the number of the cluster, or else of the sample, of each; and their count."""
        n = int(self.scores.shape[0])
        if self.cluster is None:
            return np.arange(n), n
        number = np.unique(self.cluster, return_inverse=True)[1].reshape(-1)
        return number, int(number.max(initial=-1)) + 1


def learn_names(
    predictions: Any,
    truth: Any,
    out: AnyPath | None = None,
    *,
    hierarchy: Hierarchy | None = None,
    error: float | None = None,
    precision: float | None = None,
    confidence: float | None = None,
    truth_column: str | None = None,
    sample_column: str | None = None,
    clusters: Any = None,
    report: AnyPath | None = None,
    calibration_share: float | None = None,
    seed: int = 0,
    **reading: Any,
) -> LearnOutcome:
    """Learn from samples with known names how deep their predicted paths can be trusted.

    Parameters
    ----------
    predictions, truth : path or AnnData
        See :func:`hierlpr.io.predictions.read_predictions` and
        :func:`hierlpr.io.true_names.read_true_names`.
    out : path, optional
        Where to write the model.
    hierarchy : Hierarchy, optional
        Used instead of the one that the predicted paths imply, and taken to be complete: other
        names are left out, here and in new predictions. By default new names are added.
    error : float, optional
        At most this share of new samples gets a wrong name; 0.1 if `precision` is not given.
    precision : float, optional
        Instead: of the samples named at a rank or deeper, at least this share is correct at that
        rank, for every rank, with `confidence`.
    confidence : float, optional
        The probability with which the promise holds for these calibration samples; 0.9 if it is
        not given with `precision`.
    truth_column : str, optional
        The column of the true names.
    sample_column : str, optional
        The column of the truth with the samples; by default that in which most are found.
    clusters : str, path or mapping, optional
        The donor, camera or genus of each sample: a column of the truth, a table of sample and
        cluster, or a mapping. The promise is then about samples of new clusters.
    report : path, optional
        Where to write a page about the held-out samples, with the names of the outcome.
    calibration_share : float, optional
        As in :meth:`hierlpr.HierLPR.fit_calibrate`; by default a third with `error`.
    seed : int
        Draws the samples that are kept for calibration.
    **reading
        Options of `read_predictions`.
    """
    check_page_name(report)
    goal = _goal(error, precision, confidence)
    inputs = {"the predictions": predictions, "the truth": truth}
    refuse_overlap({"the model": out, "the report": report}, _paths(inputs))
    data = read_predictions(predictions, hierarchy=hierarchy, **reading)
    rows, true_labels, notes = read_true_names(
        truth, data, column=truth_column, sample_column=sample_column
    )
    labels = data.hierarchy.labels
    rank_of = dict(zip(labels, data.ranks, strict=True))
    if precision is not None:
        goal["groups"] = {label: rank or OTHER_RANK for label, rank in rank_of.items()}
    scores, samples = data.scores[rows], [data.samples[i] for i in rows.tolist()]
    if np.array_equal(scores.nonzero(), true_labels.nonzero()):
        notes = (*notes, "every predicted name is true: is the truth a copy of the predictions?")
    cluster = None
    if clusters is not None:
        ids = read_cluster_ids(clusters, truth, samples, sample_column=sample_column)
        cluster = cluster_numbers(ids, Table(scores, labels))
    elif note := cluster_note(samples, true_labels, labels):
        text = f"{note}. If they belong together, no promise holds unless clusters= says so"
        notes = (*notes, Note(text, is_warning=True))
    labelled = _Labelled(scores, true_labels, cluster)
    n_units, what = labelled.units()[1], "samples" if cluster is None else "clusters"
    if calibration_share is None:
        promise: Literal["calls", "sets"] = "sets" if precision is None else "calls"
        calibration_share = default_share(n_units, promise=promise)
    fitted, kept = split_samples(rows.size, calibration_share, seed, unit=cluster, name=data.path)
    if labelled.take(kept).units()[1] < 2:
        least = round(_least_calibrating(goal) / calibration_share)
        raise DataError(f"{n_units} labelled {what} are too few; about {least:,} are needed.")
    rng = np.random.default_rng(seed)
    half = rng.permutation(fitted)[: fitted.size // 2]
    small, columns = _fit(data.hierarchy, labelled.take(half))
    fewer, _ = _cross_name(small, labelled.take(kept, columns), goal, rng)
    model, columns = _fit(data.hierarchy, labelled.take(fitted))
    model.path_style_ = {
        **data.style,
        "ranks": rank_of,
        "new_names": hierarchy is None,  # a hierarchy that was given is taken to be complete
    }
    if data.format == "anndata":  # where new cells have the same
        model.path_style_["reading"] = {k: v for k, v in reading.items() if v}
    held_out = labelled.take(kept, columns)
    ours, chance = _cross_name(model, held_out, goal, rng)
    unit, n_kept = held_out.units()
    _calibrate(model, held_out, goal)
    if report is not None:
        named = {"truth": held_out.truth, "named": (ours.label, chance)}
        _write_report(report, model, data, held_out.scores, rows[kept], **named)
    if out is not None:
        model.save(out)
    h, usual = model.hierarchy_, names.usual_threshold(model)
    by_threshold = names.name_by_threshold(held_out.scores, h, usual)
    theirs = names.NamedSamples(by_threshold, h, held_out.truth)
    more = _too_few(n_kept, goal, calibration_share, what)
    if is_shown := not more:
        more = _more_samples(rows.size, ours, fewer, unit, goal)
        label, _ = model.name_samples(Table(held_out.scores, h.labels))
        is_shown = bool((ours.label >= 0).any() or (label < 0).all())
    return LearnOutcome(
        model=model,
        n_labelled=rows.size,
        n_fitted=fitted.size,
        n_held_out=kept.size,
        n_clusters=None if cluster is None else n_units,
        promise=names.promise_of(model)[0],
        ranks=names.compare_ranks(model, ours, theirs) if is_shown else (),
        wrong=ours.wrong() if is_shown else None,
        usual=usual,
        usual_wrong=theirs.wrong() if is_shown else None,
        more=more,
        notes=(*data.notes, *notes),
    )


def _goal(error: float | None, precision: float | None, confidence: float | None) -> dict[str, Any]:
    """Return the options of `calibrate_sets` or, with a precision, of `calibrate`."""
    if precision is None:
        error = 0.1 if error is None else error
        return {"error": error, "confidence": confidence, "one_path": True}
    if error is not None:
        raise DataError("error and precision exclude each other; give one.")
    return {"precision": precision, "confidence": 0.9 if confidence is None else confidence}


def _paths(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in inputs.items() if isinstance(x, str | os.PathLike)}


def _fit(h: Hierarchy, part: _Labelled) -> tuple[HierLPR, NDArray[np.intp]]:
    """Fit on the names that the samples list; all other predicted names are new to the model.

    Also returns the predicted label of each label of the model.
    """
    is_listed = np.zeros((1, h.n_labels), dtype=bool)
    is_listed[0, part.scores.indices] = True
    is_fitted = h.close_upward(is_listed)[0] if is_listed.any() else ~is_listed[0]
    columns = np.argsort(~is_fitted, kind="stable")
    labels = [h.labels[i] for i in columns.tolist()]
    first = columns[: np.count_nonzero(is_fitted)]
    learned = h.subset(labels[: first.size])
    scores = Table(part.scores[:, first], learned.labels)
    cluster = part.cluster if part.units()[1] > 1 else None
    with warnings.catch_warnings():  # the outcome says how many samples are needed
        warnings.filterwarnings("ignore", ".*too few to learn from", HierlprWarning)
        model = HierLPR(learned).fit(scores, part.truth[:, first], clusters=cluster)
    return extend(model, Hierarchy(h.edges, labels=labels, names=h.names), {}), columns


def _calibrate(model: HierLPR, part: _Labelled, goal: dict[str, Any]) -> None:
    table = Table(part.scores, model.hierarchy_.labels)
    method = model.calibrate_sets if "error" in goal else model.calibrate
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)  # the promise says so itself
        method(table, part.truth, clusters=part.cluster, **goal)


def _cross_name(
    model: HierLPR, part: _Labelled, goal: dict[str, Any], rng: np.random.Generator
) -> tuple[names.NamedSamples, Float]:
    """Name each part after calibrating on the others, clusters whole; also return the chances."""
    unit, n_units = part.units()
    n_parts = n_units if n_units <= FEW_HELD_OUT else N_PARTS
    number = (rng.permutation(n_units) % n_parts)[unit]
    label, chance = np.full(unit.size, -1), np.zeros(unit.size)
    for i in range(n_parts if n_units > 2 else 0):
        at = number == i
        _calibrate(model, part.take(~at), goal)
        table = Table(part.scores[at], model.hierarchy_.labels)
        label[at], chance[at] = model.name_samples(table)
    return names.NamedSamples(label, model.hierarchy_, part.truth), chance


def _write_report(
    path: AnyPath, model: HierLPR, data: Predictions, scores: Any, rows: Index, **more: Any
) -> None:
    """Write a report on the samples `rows` of the predictions."""
    from hierlpr.report import write_report  # matplotlib is slow to load

    samples = tuple(data.samples[i] for i in rows.tolist())
    table = Table(scores, model.hierarchy_.labels, samples)
    about = {"Predictions": os.path.basename(data.path)}
    write_report(path, model, table, title="One trusted name per sample", about=about, **more)


def _least_calibrating(goal: dict[str, Any]) -> int:
    """Return the number of calibration samples below which nothing can be promised."""
    share = goal["error"] if "error" in goal else 1.0 - goal["precision"]
    return least_samples(float(share), goal["confidence"])


def _too_few(n_held_out: int, goal: dict[str, Any], share: float, what: str) -> str:
    """Say how many samples or clusters are needed, if those held out cannot show anything."""
    least = _least_calibrating(goal)
    shown = max(LEAST_SHOWN, least + 1)
    if n_held_out >= shown:
        return ""
    why = "to show how samples will be named"
    if n_held_out < least:
        aim = "error" if "error" in goal else "precision"
        why = f"for this {aim}, {round(shown / share):,} {why}"
        return f"About {round(least / share):,} labelled {what} are needed {why}."
    return (
        f"About {round(shown / share):,} labelled {what} are needed {why}, {percent(share)} of "
        "them held out."
    )


def _more_samples(
    n_labelled: int,
    whole: names.NamedSamples,
    fewer: names.NamedSamples,
    unit: Index,
    goal: dict[str, Any],
) -> str:
    """Say what more samples would bring, from a model that was fitted on half as many."""
    if "error" not in goal and (whole.label < 0).all():
        return "No rank is certified on most of the held-out samples; more may help."
    each = np.bincount(unit, whole.n_correct() - fewer.n_correct()) / np.bincount(unit)
    gain, error = each.mean(), 2.0 * each.std(ddof=1) / math.sqrt(each.size)
    if gain - error > SURE_GAIN:
        return (
            "More labelled samples may give deeper names: with a model fitted on all instead of "
            f"half of the present ones, {gain:.2g} more ranks per sample are correct."
        )
    if gain + error < FLAT and each.size >= LEAST_FLAT:
        return (
            "More labelled samples would hardly give deeper names: a model fitted on half of the "
            "present ones names as deep."
        )
    needed = float(f"{n_labelled * max(2.0, (error / FLAT) ** 2):.1g}")
    return (
        f"These samples do not show whether more would give deeper names; about {needed:,.0f} "
        "labelled samples would."
    )


# -- new samples ------------------------------------------------------------------------------


def assign_names(
    model: AnyPath,
    predictions: Any,
    out: AnyPath,
    *,
    like_input: bool = False,
    report: AnyPath | None = None,
    **reading: Any,
) -> AssignOutcome:
    """Name the samples of a file, each at the deepest label that can be trusted.

    Parameters
    ----------
    model : path
        A model that `learn_names` wrote.
    predictions : path or AnnData
        New predictions of the same tool.
    out : path
        ``.csv``, ``.tsv`` or ``.parquet`` with the columns sample, name, path, rank and chance, and
        then the tool's own; ``.h5ad`` for AnnData.
    like_input : bool
        Write the tool's own format instead, with every path cut at its name.
    report : path, optional
        Where to write a page about the names, on at most 20,000 samples drawn at random.
    **reading
        Options of `read_predictions`.
    """
    check_page_name(report)
    inputs = {"the model": model, "the predictions": predictions}
    refuse_overlap({"the output": out, "the report": report}, _paths(inputs))
    fitted: HierLPR = load_model(model)
    if fitted.path_style_ is None:
        raise FileError(
            f"{model}: this is not a model that hierlpr assign wrote.\n"
            "Hint: learn_names (hierlpr assign with truth) writes one; models of hierlpr fit are "
            "for rank and sets."
        )
    reading = {name: value for name, value in reading.items() if value}
    data = read_predictions(predictions, **{**fitted.path_style_.get("reading", {}), **reading})
    like_input = like_input or (data.format == "anndata" and str(out).endswith(".h5ad"))
    if not like_input:
        output_ending(out, "output")
    fitted, scores, column, is_new = match_names(fitted, data)
    labels = fitted.hierarchy_.labels
    parts = [
        fitted.name_samples(Table(scores[i : i + BATCH], labels))
        for i in range(0, len(data.samples), BATCH)
    ]
    label, chance = (np.concatenate(part) for part in zip(*parts, strict=True))
    if like_input:
        number = np.full(len(labels) + 1, -1, dtype=np.int64)  # of each label in the predictions
        number[column[::-1]] = np.arange(column.size)[::-1]
        number[-1] = -1
        write_like_input(data, number[label], chance, out)
    else:
        write_table(out, _name_table(fitted, data, label, chance), is_cafa=False)
    if report is not None:
        rows = np.sort(np.random.default_rng(0).permutation(label.size)[:MOST_REPORTED])
        _write_report(report, fitted, data, scores[rows], rows)
    ranks = np.array(fitted.rank_names(), dtype=object)
    by_rank = Counter(ranks[label[label >= 0]].tolist())
    promise, is_promised = names.promise_of(fitted)
    notes = [*data.notes, *([] if is_promised else [promise])]
    if note := fitted.difference_note(Table(scores, labels)):
        notes.append(note)
    if is_new.any():
        names_new = bool((fitted.path_style_ or {}).get("new_names"))
        how = "; it is treated like others of its depth" if names_new else "; it is left out"
        text = f"{is_new.sum():,} of {label.size:,} samples have a predicted name that the model "
        notes.append(Note(f"{text}has not seen{how}", is_warning=not names_new))
    return AssignOutcome(
        n_samples=label.size,
        n_named=int((label >= 0).sum()),
        by_rank={rank: by_rank[rank] for rank in dict.fromkeys(ranks) if rank in by_rank},
        notes=tuple(notes),
    )


def _name_table(model: HierLPR, data: Predictions, label: Index, chance: Float) -> pa.Table:
    """Return one row per sample: the name, and then the tool's own columns."""
    h, ranks = model.hierarchy_, model.rank_names()
    paths = written_paths(h, ranks, model.path_style_ or {})
    texts = {"name": [h.name(x) for x in h.labels], "path": paths, "rank": ranks}
    at = pa.array(np.where(label >= 0, label, h.n_labels))
    columns = {"sample": pa.array(data.samples, pa.string())}
    columns |= {x: pa.array([*of_label, ""]).take(at) for x, of_label in texts.items()}
    columns["chance"] = pa.array(chance.round(4), mask=label < 0)
    rows, batches = data.cells(), []
    while data.columns and (batch := list(islice(rows, BATCH))):
        batches.append([pa.array(column, pa.string()) for column in zip(*batch, strict=True)])
    for name, parts in zip(data.columns, zip(*batches, strict=True), strict=True):
        columns[f"tool_{name}" if name in columns else name] = pa.chunked_array(parts)
    return pa.table(columns)
