"""Name every sample at the deepest rank that can be trusted, from the files of other tools.

`learn_names` fits a model on predictions with known names and checks it on samples kept apart;
`assign_names` names new samples with it. The command ``hierlpr assign`` calls these functions.
"""

from __future__ import annotations

import csv
import math
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output, refuse_overlap
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.data.tables import Table, split_samples
from hierlpr.exceptions import DataError, FileError, UnreachableWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.known_names import read_known_names
from hierlpr.io.lineages import Float, Index, Predictions, written_paths
from hierlpr.io.predictions import match_labels, read_predictions, write_like_input
from hierlpr.model import HierLPR, load_model
from hierlpr.model.naming import name_samples, rank_names

# What is usually required of a confidence: the tools' defaults, else 0.8.
USUAL_THRESHOLD = {"dada2": 0.5, "qiime2": 0.7, "speciesnet": 0.65, "megadetector": 0.65}
BATCH = 1 << 17  # samples named at a time
OWN_COLUMNS = ("sample", "name", "path", "rank", "chance")


@dataclass(frozen=True, slots=True)
class RankRow:
    """How one rank was named on held-out samples: shares, and those with the usual threshold."""

    rank: str
    named: float
    correct: float | None
    usual_named: float
    usual_correct: float | None


@dataclass(frozen=True, slots=True, eq=False)
class LearnOutcome:
    """A model that names samples, and how it did on samples that it had not seen.

    `wrong` is the share of held-out samples with a wrong name, `usual_wrong` that with the
    threshold `usual`. Both, and `ranks`, come from cross-calibration: each half of the held-out
    samples is named after calibrating on the other. The model itself is calibrated on both.
    """

    model: HierLPR
    n_labelled: int
    n_fitted: int
    n_held_out: int
    promise: str
    ranks: tuple[RankRow, ...]
    wrong: float
    usual: float
    usual_wrong: float
    more: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AssignOutcome:
    """How many samples were named, and by rank."""

    n_samples: int
    n_named: int
    by_rank: dict[str, int]
    notes: tuple[str, ...]


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
    seed: int = 0,
    **reading: Any,
) -> LearnOutcome:
    """Learn from samples with known names how deep their predicted paths can be trusted.

    Parameters
    ----------
    predictions, truth : path or AnnData
        See :func:`hierlpr.io.predictions.read_predictions` and
        :func:`hierlpr.io.known_names.read_known_names`.
    out : path, optional
        Where to write the model.
    hierarchy : Hierarchy, optional
        Used instead of the one that the predicted paths spell out.
    error : float, optional
        At most this share of new samples gets a wrong name; 0.1 if `precision` is not given.
    precision : float, optional
        Instead: at least this share of the names is right, at every rank, with `confidence`.
    confidence : float, optional
        The probability with which the promise holds for these calibration samples; 0.9 if it is
        not given with `precision`.
    truth_column : str, optional
        The column of the true names.
    seed : int
        Draws the third of the samples that is kept for calibration.
    **reading
        Options of `read_predictions`.
    """
    if error is not None and precision is not None:
        raise DataError("error and precision exclude each other; give one.")
    goal: dict[str, Any] = {"confidence": confidence}
    if precision is None:
        goal |= {"error": 0.1 if error is None else error, "one_path": True}
    else:
        goal = {"precision": precision, "confidence": 0.9 if confidence is None else confidence}
    files = {name: x for name, x in (("the predictions", predictions), ("the truth", truth))}
    refuse_overlap({"the model": out}, {k: x for k, x in files.items() if _is_path(x)})
    found = read_predictions(predictions, hierarchy=hierarchy, **reading)
    rows, held, notes = read_known_names(truth, found, column=truth_column)
    if precision is not None:
        named = zip(found.hierarchy.labels, found.ranks, strict=True)
        goal["groups"] = {label: rank or "other" for label, rank in named}
    scores = found.scores[rows]
    fitted, kept = split_samples(rows.size, rows.size, seed, name=found.path)
    model = _fit(found, scores[fitted], held[fitted])
    checked = _Check.of(model, scores[kept], held[kept], goal, seed)
    half = np.random.default_rng(seed).permutation(fitted)[: fitted.size // 2]
    fewer = _Check.of(_fit(found, scores[half], held[half]), scores[kept], held[kept], goal, seed)
    _calibrate(model, scores[kept], held[kept], goal)
    ranks = dict(zip(found.hierarchy.labels, found.ranks, strict=True))
    model.path_style_ = {**found.style, "ranks": ranks}
    if found.format == "anndata":  # where new cells have the same
        model.path_style_["reading"] = {k: v for k, v in reading.items() if v}
    if out is not None:
        model.save(out)
    usual = USUAL_THRESHOLD.get(found.format, 0.8)
    by_threshold = name_by_threshold(scores[kept], found.hierarchy, usual)
    ours, theirs = (
        _Check(named, held[kept], found.hierarchy) for named in (checked.named, by_threshold)
    )
    return LearnOutcome(
        model=model,
        n_labelled=rows.size,
        n_fitted=fitted.size,
        n_held_out=kept.size,
        promise=_promise(model, goal),
        ranks=_rank_rows(ours, theirs, found.ranks),
        wrong=ours.wrong(),
        usual=usual,
        usual_wrong=theirs.wrong(),
        more=_more_samples(rows.size, kept.size, checked, fewer, goal),
        notes=(*found.notes, *notes),
    )


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _fit(found: Predictions, scores: sparse.csr_array, truth: sparse.csr_array) -> HierLPR:
    model = HierLPR(found.hierarchy, verbose=False)
    return model.fit(Table(scores, found.hierarchy.labels), truth)


def _calibrate(
    model: HierLPR, scores: sparse.csr_array, truth: sparse.csr_array, goal: dict[str, Any]
) -> None:
    table = Table(scores, model.hierarchy_.labels)
    method = model.calibrate_sets if "error" in goal else model.calibrate
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)  # the promise says so itself
        method(table, truth, **goal)


# -- the check on held-out samples ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Check:
    """Labels given to samples with known truth; `named` is -1 where there is none."""

    named: Index
    truth: sparse.csr_array
    hierarchy: Hierarchy

    @classmethod
    def of(cls, model: HierLPR, scores: Any, truth: Any, goal: dict[str, Any], seed: int) -> _Check:
        """Name each half of the samples after calibrating on the other half."""
        n = int(scores.shape[0])
        is_first = np.random.default_rng(seed).permutation(n) < n // 2
        named = np.full(n, -1, dtype=np.int64)
        for part in (is_first, ~is_first):
            _calibrate(model, scores[~part], truth[~part], goal)
            named[part] = name_samples(model, Table(scores[part], model.hierarchy_.labels))[0]
        return cls(named, truth, model.hierarchy_)

    def calls(self) -> tuple[Index, Index, NDArray[np.bool_]]:
        """Return row and label of each name and its ancestors, and whether it is true."""
        row = np.flatnonzero(self.named >= 0)
        ones = np.ones(row.size, dtype=bool)
        shape = self.truth.shape
        given = sparse.csr_array((ones, (row, self.named[row])), shape=shape)
        closed = sparse.coo_array(self.hierarchy.close_upward(given))
        row, label = closed.coords
        holds = np.asarray(self.truth[row, label]).ravel() > 0 if row.size else row > 0
        return row.astype(np.int64), label.astype(np.int64), holds

    def wrong(self) -> float:
        """Return the share of samples with a wrong name."""
        row, _, holds = self.calls()
        return float(np.unique(row[~holds]).size / max(self.named.size, 1))

    def mean_ranks(self) -> float:
        """Return the mean number of correct ranks per sample."""
        return float(np.count_nonzero(self.calls()[2]) / max(self.named.size, 1))


def name_by_threshold(scores: Any, hierarchy: Hierarchy, threshold: float | Float) -> Index:
    """Follow the predicted path while its confidences reach a threshold, or one per label."""
    paths = likely_paths(scores, hierarchy)
    level = np.broadcast_to(threshold, hierarchy.n_labels)[paths.label]
    below = np.concatenate([[0], np.cumsum(paths.chance < level)])
    start = np.searchsorted(paths.sample, paths.sample)
    entry = paths.last(below[1:] == below[start], scores.shape[0])
    return np.where(entry >= 0, paths.label[entry], -1)


def _rank_rows(ours: _Check, theirs: _Check, ranks: tuple[str, ...]) -> tuple[RankRow, ...]:
    """Return one row per rank, the highest first."""
    levels: dict[str, list[int]] = {}
    for rank, level in zip(ranks, ours.hierarchy.levels.tolist(), strict=True):
        levels.setdefault(rank, []).append(level)
    names = sorted(levels, key=lambda rank: np.mean(levels[rank]))
    code = np.array([names.index(rank) for rank in ranks])
    n, rows = ours.named.size, []
    counts = []
    for check in (ours, theirs):
        _, label, holds = check.calls()
        of_rank = code[label]
        counts.append(
            [np.bincount(of_rank[x], minlength=len(names)) for x in (holds | True, holds)]
        )
    for i, name in enumerate(names):
        (named, right), (usual, usual_right) = [(int(a[i]), int(b[i])) for a, b in counts]
        rows.append(
            RankRow(
                name or "other",
                named / n,
                right / named if named else None,
                usual / n,
                usual_right / usual if usual else None,
            )
        )
    return tuple(rows)


def _promise(model: HierLPR, goal: dict[str, Any]) -> str:
    """Return in one sentence what holds for new samples."""
    given = "" if goal["confidence"] is None else f", with confidence {goal['confidence']:g}"
    if "error" in goal:
        if model.sets_ is None or model.sets_.sure_level is None:
            return "No name can be trusted: too few samples kept apart, or too many wrong names."
        return f"At most {100 * goal['error']:.4g} % of new samples get a wrong name{given}."
    share = f"{100 * goal['precision']:.4g} %"
    groups = model.cutoff_.groups or {}
    certified = [rank for rank, part in groups.items() if part.reachable]
    others = [rank for rank in groups if rank not in certified]
    text = f"At least {share} of the names are right at each of these ranks{given}: "
    text = f"{text}{', '.join(certified)}." if certified else "No rank can be certified."
    return f"{text} Not certified, so not named: {', '.join(others)}." if others else text


def _more_samples(
    n_labelled: int, n_held_out: int, whole: _Check, fewer: _Check, goal: dict[str, Any]
) -> str:
    """Say what more samples would bring, from a model that was fitted on half as many."""
    if "error" in goal:
        least = math.ceil(1.0 / goal["error"]) - 1
        if goal["confidence"] is not None:
            least = math.ceil(math.log(1.0 - goal["confidence"]) / math.log(1.0 - goal["error"]))
        if n_held_out < least:
            return f"About {3 * least:,} labelled samples are needed for this error."
    gain = whole.mean_ranks() - fewer.mean_ranks()
    if gain < 0.02:
        return "More labelled samples like these would hardly give deeper names."
    return (
        f"About {n_labelled:,} more labelled samples like these may give {gain:.2g} more correct "
        "ranks per sample: so much was gained from half of them to all."
    )


# -- new samples ------------------------------------------------------------------------------


def assign_names(
    model: AnyPath,
    predictions: Any,
    out: AnyPath,
    *,
    like_input: bool = False,
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
    **reading
        Options of `read_predictions`.
    """
    inputs = {"the model": model, "the predictions": predictions}
    refuse_overlap({"the output": out}, {k: x for k, x in inputs.items() if _is_path(x)})
    fitted = load_model(model)
    if not isinstance(fitted, HierLPR):
        raise FileError(f"{model}: this is not a model that hierlpr assign wrote.")
    known = (fitted.path_style_ or {}).get("reading", {})
    given = {name: value for name, value in reading.items() if value}
    found = read_predictions(predictions, **{**known, **given})
    scores, column, is_unknown = match_labels(found, fitted.hierarchy_)
    parts = [
        name_samples(fitted, Table(scores[i : i + BATCH], fitted.hierarchy_.labels))
        for i in range(0, len(found.samples), BATCH)
    ]
    label, chance = (np.concatenate(part) for part in zip(*parts, strict=True))
    if like_input or (found.format == "anndata" and str(out).endswith(".h5ad")):
        own = np.full(fitted.hierarchy_.n_labels + 1, -1, dtype=np.int64)
        own[column[::-1]] = np.arange(column.size)[::-1]
        own[-1] = -1
        write_like_input(found, own[label], chance, out)
    else:
        _write_table(fitted, found, label, chance, out)
    ranks = rank_names(fitted)
    counts = np.bincount(label[label >= 0], minlength=len(ranks))
    by_rank: dict[str, int] = {}
    for rank, n in zip(ranks, counts.tolist(), strict=True):
        by_rank[rank] = by_rank.get(rank, 0) + n
    notes = list(found.notes)
    if is_unknown.any():
        notes.append(
            f"{is_unknown.sum():,} of {label.size:,} samples have a predicted name that the model "
            "has not seen; they are named at a known ancestor, or not at all"
        )
    return AssignOutcome(
        n_samples=label.size,
        n_named=int((label >= 0).sum()),
        by_rank={rank: n for rank, n in by_rank.items() if n},
        notes=tuple(notes),
    )


def _write_table(
    model: HierLPR, found: Predictions, label: Index, chance: Float, out: AnyPath
) -> None:
    """Write one row per sample: the name, and then the tool's own columns."""
    ending = str(out).removesuffix(".gz").rpartition(".")[2].lower()
    if ending not in ("csv", "tsv", "parquet"):
        raise FileError(
            f"{out}: the output must end in .csv, .tsv or .parquet.\n"
            "Hint: --like-input writes the format of the predictions, with any ending."
        )
    h, ranks = model.hierarchy_, rank_names(model)
    paths = written_paths(h, ranks, model.path_style_ or {})
    texts = [*zip((h.name(x) for x in h.labels), paths, ranks, strict=True), ("", "", "")]
    header = [*OWN_COLUMNS, *(f"tool_{x}" if x in OWN_COLUMNS else x for x in found.columns)]
    rows = (
        (sample, *texts[at], round(sure, 4) if at >= 0 else None, *cells)
        for sample, at, sure, cells in zip(
            found.samples, label.tolist(), chance.tolist(), found.cells(), strict=False
        )
    )
    with atomic_output(out, compress=True) as part:
        if ending == "parquet":
            columns = zip(*rows, strict=True)
            pq.write_table(pa.table(dict(zip(header, map(pa.array, columns), strict=True))), part)
        else:
            with open(part, "w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(
                    stream, delimiter="," if ending == "csv" else "\t", lineterminator="\n"
                )
                writer.writerow(header)
                writer.writerows(rows)
