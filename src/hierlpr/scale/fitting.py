"""Fit a model on files of any size; the model is that of the path in memory, bit by bit.

scores -> store, label after label        curves: one label at a time
truth  -> positives by sample       ->    joint posterior, profile, cutoff: from as many
          matched by name                 samples as can be held, the same in both paths
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._kernels._threads import n_threads_or_default
from hierlpr.exceptions import FileError, HierlprWarning
from hierlpr.io._files import ending
from hierlpr.io._watch import ReadReport
from hierlpr.lpr import LPRModel, fit_data
from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
from hierlpr.scale.labels import FIT_LABEL_BYTES, StoredLabels
from hierlpr.scale.source import Partition
from hierlpr.scale.spool import open_source
from hierlpr.scale.store import DenseStore, SparseStore, Store
from hierlpr.scale.truth import match_names, stream_truth, truth_rows
from hierlpr.scale.work import work_folder
from hierlpr.scored import fingerprint_rows
from hierlpr.scores import Table, draw_samples, sample_limit, split_samples

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.model import ScoreModel

__all__ = ["FitOutcome", "fit_file"]

OnProgress = Callable[[str, int, int], None]
Absent = Literal["negative", "skip"]


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
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]
    rank_error: NDArray[np.float64]
    n_calibration_given: int = 0


def fit_file(
    hierarchy: Hierarchy,
    scores: str | os.PathLike[str],
    truth: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    goal: Mapping[str, Any] | None = None,
    calibration: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    lpr: Any = "auto",
    joint: bool | str = "auto",
    absent: Absent | None = None,
    close_truth: bool = False,
    seed: int = 0,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    memory: str | int = DEFAULT_MEMORY,
    work: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> FitOutcome:
    """Fit scores and truth that need not fit in memory, and write the model.

    The model file holds what ``HierLPR.fit`` and ``calibrate`` would have made of the same
    samples, bit by bit, unless a label has too many scores to be sorted in memory; see
    `rank_error` of the result.

    Parameters
    ----------
    hierarchy : Hierarchy
    scores, truth : path
        Wide or long Parquet (a file or a folder), wide or long CSV, CAFA TSV; text may be gzipped.
    out : path
        The model file. It appears whole at the end, or stays as it was.
    goal : mapping, optional
        Options of ``HierLPR.calibrate``, such as ``{"fdr": 0.1}``. A third of the samples is then
        kept for the cutoff, at most 2**23 instances, and not fitted on.
    calibration : pair of paths, optional
        Scores and truth of other samples for the cutoff, instead of the third.
    lpr, joint
        See :class:`hierlpr.HierLPR`.
    absent : {"negative", "skip"}, optional
        Scored samples that the truth lacks; see :func:`hierlpr.io.pair_samples`.
    close_truth : bool
        Add the missing ancestors of true labels.
    seed : int
        Chooses the samples for the cutoff.
    aliases : mapping, optional
        Other names of labels, as `hierlpr.io.load_hierarchy` gives them.
    lenient : bool
        Pass over rows with problems and count them.
    memory : str or int
        Working memory, beside the interpreter and its libraries.
    work : path, optional
        Folder for work files; beside the model by default.
    n_threads : int, optional
        No result depends on it.
    on_progress : callable, optional
        Called with stage, done and total.

    Returns
    -------
    FitOutcome
    """
    from hierlpr.model import ScoreModel

    target = Path(out)
    reader = _Reader(
        hierarchy, Budget(parse_memory(memory)), dict(aliases or {}), close_truth, lenient, absent,
        n_threads, on_progress or (lambda stage, done, total: None),
    )  # fmt: skip
    model = ScoreModel(hierarchy, lpr=lpr, joint=joint, n_threads=n_threads)
    model._check_params()
    folder = Path(work) if work is not None else target.with_name(f".{target.name}.work")
    with work_folder(folder, resume=False):
        data = reader.read(os.fspath(scores), os.fspath(truth), folder / "fit")
        parts = [data]
        fitted = np.arange(data.n_samples)
        held_out: tuple[_Samples, NDArray[np.intp]] | None = None
        if goal is not None and calibration is not None:
            files = [os.fspath(path) for path in calibration]
            other = reader.read(files[0], files[1], folder / "cutoff")
            parts.append(other)
            held_out = (other, draw_samples(other.n_samples, other.limit(), seed))
        elif goal is not None:
            fitted, kept = split_samples(data.n_samples, data.limit(), seed, name=scores)
            held_out = (data, kept)
        errors = _fit(model, data, fitted, reader)
        notes = [note for part in parts for note in part.notes] + _error_notes(errors, hierarchy)
        n_calibration = n_given = 0
        if goal is not None and held_out is not None:
            n_calibration, n_given = held_out[1].size, held_out[0].n_samples
            _calibrate(model, *held_out, goal)
        model.save(target)
        for part in parts:
            part.store.close()
    reports = tuple(report for part in parts for report in part.reports)
    return FitOutcome(model, fitted.size, n_calibration, reports, tuple(notes), errors, n_given)


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """Scores in a store and truth in memory of the samples that have both.

    `rows` are those of the store; `truth` has one row for each of them.
    """

    hierarchy: Hierarchy
    store: Store
    rows: NDArray[np.intp]
    truth: sparse.csr_array
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]

    @property
    def n_samples(self) -> int:
        return self.rows.size

    def limit(self) -> int:
        """How many samples are few enough to hold."""
        return sample_limit(self.n_samples, self.hierarchy, self.store.stored_in(self.rows))

    def table(self, chosen: NDArray[np.intp]) -> Table:
        """Return the scores of some of the samples."""
        return Table(self.store.take(self.rows[chosen]), self.hierarchy.labels)


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Everything that reading a pair of files depends on."""

    hierarchy: Hierarchy
    budget: Budget
    aliases: Mapping[str, str]
    close: bool
    lenient: bool
    absent: Absent | None
    n_threads: int | None
    on_progress: OnProgress

    def read(self, scores: str, truth: str, folder: Path) -> _Samples:
        """Bring scores to a store and truth to memory, and match them."""
        for path in (scores, truth):
            if ending(path) == ".arff":
                raise FileError(
                    f"{path}: ARFF files are not read in parts.\nHint: write the table as "
                    "Parquet or CSV, or give more --memory."
                )
        folder.mkdir()
        options: dict[str, Any] = {"aliases": self.aliases, "lenient": self.lenient}
        known = stream_truth(
            truth, self.hierarchy, folder / "truth", self.budget, close=self.close, **options
        )
        source, watch = open_source(scores, self.hierarchy, folder, self.budget, **options)
        store = self._store(source.is_complete, source.n_samples, source.pieces, folder)
        total = sum(piece.n_entries for piece in source.pieces)
        done = 0
        self.on_progress("reading instances", 0, total)
        for piece in source.pieces:
            for batch in source.batches(Partition(0, (piece,)), self.hierarchy, watch):
                values: Any = batch.table.values
                store.add(values, batch.numbers)
            done += piece.n_entries
            self.on_progress("reading instances", done, total)
        store.finish()
        match = match_names(
            folder, source.n_samples, store.numbers, known, self.budget,
            absent=self.absent, source=scores,
        )  # fmt: skip
        rows = np.arange(match.at.size) if match.negative else np.flatnonzero(match.at >= 0)
        report = watch.report(samples=store.n_rows, labels=self.hierarchy.n_labels)
        return _Samples(
            self.hierarchy, store, rows, truth_rows(known.values, match.at[rows]),
            (report, known.report), match.notes,
        )  # fmt: skip

    def _store(self, is_dense: bool, n_samples: int, pieces: Any, folder: Path) -> Store:
        if is_dense:
            return DenseStore(folder, n_samples, self.hierarchy.n_labels)
        n_entries = sum(piece.n_entries for piece in pieces)
        n_buckets = -(-n_entries // self.budget.sorted_entries)
        return SparseStore(folder, n_samples, self.hierarchy.n_labels, max(1, n_buckets))


def _fit(
    model: ScoreModel, data: _Samples, fitted: NDArray[np.intp], reader: _Reader
) -> NDArray[np.float64]:
    """Fit the curves from the store, and the rest from samples that can be held."""
    rows = data.rows[fitted]
    held = data.truth if fitted.size == data.n_samples else data.truth[fitted]
    n_labels = data.hierarchy.n_labels
    read = 0

    def count(n: int) -> None:
        nonlocal read
        read = min(read + n, n_labels)  # labels with few positives are fitted twice
        reader.on_progress("fitting labels", read, n_labels)

    reader.on_progress("fitting labels", 0, n_labels)
    most = reader.budget.memory * 3 // 4 // FIT_LABEL_BYTES
    largest = max(data.store.size_of(label) for label in range(n_labels))
    n_threads = max(1, min(n_threads_or_default(reader.n_threads), most // max(1, largest)))
    labels = StoredLabels(
        data.store, rows, sparse.csc_array(held), most_scores=most, on_label=count
    )
    lpr: LPRModel = fit_data(labels, method=model.lpr, n_threads=n_threads)
    errors = labels.rank_error
    del labels  # with the truth by label
    n_stored = data.store.stored_in(rows)
    keys = data.store.keys[rows]
    model._assemble(
        data.hierarchy, lpr, held, lambda drawn: data.table(fitted[drawn]),
        n_stored=n_stored, fitted_on=fingerprint_rows(keys, (rows.size, n_labels)),
    )  # fmt: skip
    return errors


def _calibrate(
    model: ScoreModel, data: _Samples, kept: NDArray[np.intp], goal: Mapping[str, Any]
) -> None:
    with warnings.catch_warnings():
        # The cutoff says in its own words what could not be reached.
        warnings.simplefilter("ignore", HierlprWarning)
        model.calibrate(data.table(kept), data.truth[kept], **goal)


def _error_notes(errors: NDArray[np.float64], hierarchy: Hierarchy) -> list[str]:
    sketched = int(np.count_nonzero(errors))
    if not sketched:
        return []
    worst = int(np.argmax(errors))
    return [
        f"{sketched:,} label(s) have too many scores to sort in this memory; ranks of "
        f"{hierarchy.labels[worst]!r} are off by at most {errors[worst]:.2g} of the samples, those "
        "of the others by less"
    ]
