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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.files import work_subfolder
from hierlpr._kernels._threads import n_threads_or_default
from hierlpr.data.repeats import SampleKeys
from hierlpr.data.tables import draw_samples, split_samples
from hierlpr.exceptions import UnreachableWarning
from hierlpr.io import ReadReport
from hierlpr.io.pairing import Absent
from hierlpr.lpr import ImpliedLPR, LPRModel, fit_data
from hierlpr.lpr.groups import Gaps
from hierlpr.lpr.implied import ListedCounts, fit_implied
from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
from hierlpr.scale.gaps import StoredGaps
from hierlpr.scale.inputs import absolute, output
from hierlpr.scale.paired_samples import Samples, SamplesReader
from hierlpr.scale.parts import Executor, Here, OnProgress, say_nothing
from hierlpr.scale.stored_labels import FIT_LABEL_BYTES, StoredLabels
from hierlpr.scale.work import work_folder

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.model import ScoreModel

__all__ = ["FitOutcome", "fit_file"]


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
    partitions: int | None = None,
    work: str | os.PathLike[str] | None = None,
    resume: bool = False,
    executor: Executor | None = None,
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
    partitions : int, optional
        Number of parts of each file of scores; by default one for each batch that fits the memory.
    work : path, optional
        Where a folder for work files is made; beside the model by default.
    resume : bool
        Continue from the partitions that an interrupted run had stored, and keep them if this run
        fails.
    executor : Executor, optional
        Where partitions are stored and labels are fitted; here by default.
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
    model = ScoreModel(hierarchy, lpr=lpr, joint=joint, n_threads=n_threads)
    model.check_params()
    budget = Budget(parse_memory(memory))
    progress, where = on_progress or say_nothing, executor or Here()
    inputs = {"the scores": os.fspath(scores), "the truth": os.fspath(truth)}
    if calibration is not None:
        inputs |= {"the calibration scores": os.fspath(calibration[0]),
                   "the calibration truth": os.fspath(calibration[1])}  # fmt: skip
    place = work if work is not None else Path(os.path.realpath(target)).parent
    with (
        output(os.fspath(out), inputs, work=work),
        work_folder(place, f"fit {absolute(os.fspath(out))}", resume=resume) as folder,
        work_subfolder(folder) as own,
    ):
        reader = SamplesReader(
            hierarchy,
            budget,
            aliases or {},
            close_truth,
            lenient,
            absent,
            progress,
            where,
            resume,
            partitions,
        )
        data = reader.read(os.fspath(scores), os.fspath(truth), folder / "fit")
        cutoff_data = data
        fitted, kept = np.arange(data.n_samples), np.empty(0, np.intp)
        if goal is not None and calibration is not None:
            files = [os.fspath(path) for path in calibration]
            cutoff_data = reader.read(files[0], files[1], folder / "cutoff")
            kept = draw_samples(cutoff_data.n_samples, cutoff_data.limit(), seed)
        elif goal is not None:
            fitted, kept = split_samples(data.n_samples, data.limit(), seed, name=scores)
        errors = _fit(model, data, fitted, own, budget, where, progress)
        if goal is not None:
            _calibrate(model, cutoff_data, kept, goal)
        model.save(target)
    parts = [data] if cutoff_data is data else [data, cutoff_data]
    notes = [note for part in parts for note in part.notes] + _error_notes(errors, hierarchy)
    return FitOutcome(
        model, fitted.size, kept.size, tuple(report for part in parts for report in part.reports),
        tuple(notes), errors, cutoff_data.n_samples if goal is not None else 0,
    )  # fmt: skip


def _fit(
    model: ScoreModel,
    data: Samples,
    fitted: NDArray[np.intp],
    folder: Path,
    budget: Budget,
    executor: Executor,
    on_progress: OnProgress,
) -> NDArray[np.float64]:
    """Fit the curves from the store, and the rest from samples that can be held."""
    from hierlpr.model.core import FitSource

    rows = data.rows[fitted]
    held = data.truth if fitted.size == data.n_samples else data.truth[fitted]
    n_labels = data.hierarchy.n_labels
    most = budget.memory * 3 // 4 // FIT_LABEL_BYTES
    largest = max(data.store.size_of(label) for label in range(n_labels))
    n_threads = max(1, min(n_threads_or_default(model.n_threads), most // max(1, largest)))
    errors = np.zeros(n_labels)
    options: dict[str, Any] = {"method": model.lpr, "n_threads": n_threads}

    def fit(part: Any, gaps: Gaps, name: str) -> LPRModel:
        """Fit the curves on some of the rows; on all of them, note how far ranks are off."""
        stored = sparse.csc_array(held[part])
        count = _Counted(stored, name, on_progress)
        labels = StoredLabels(
            data.store, rows[part], stored, gaps, most_scores=most, on_label=count.add
        )
        spread = None
        if executor.is_cluster:
            place = folder / name.replace(" ", "-")
            place.mkdir()
            spread = labels.spread(place, executor)
        lpr = fit_data(labels, **options, spread=spread)
        if stored.shape[0] == rows.size:
            errors[:] = labels.rank_error
        return lpr

    implied = None
    if data.store.is_sparse:
        absent = StoredGaps(data.store, data.hierarchy, rows, held)
        lpr, implied = _fit_implied(absent, fit, sparse.csc_array(held), folder, options)
    else:
        lpr = fit(slice(None), Gaps.none(n_labels), "labels")
    source = FitSource(
        data.hierarchy, lpr, implied, held, lambda drawn: data.table(fitted[drawn]),
        data.store.stored_in(rows), SampleKeys.of(data.store.keys[rows]),
    )  # fmt: skip
    model.fit_on(source)
    return errors


def _fit_implied(
    absent: StoredGaps,
    fit: Callable[[Any, Gaps, str], LPRModel],
    by_label: sparse.csc_array,
    folder: Path,
    options: Mapping[str, Any],
) -> tuple[LPRModel, ImpliedLPR]:
    """Do as `hierlpr.lpr.fit_listed`, from what is stored."""
    counts = absent.count()
    both = ListedCounts.sum(counts)
    lpr = fit(slice(None), both.implied, "labels")
    parts = [np.flatnonzero(absent.half == side) for side in (0, 1)]
    others = [lpr, lpr]
    if both.implied.total.any() and all(part.listed.total.any() for part in counts):
        others = [fit(parts[1 - side], counts[1 - side].implied, f"labels on half {side + 1}")
                  for side in (0, 1)]  # fmt: skip
    column = absent.column(others, by_label, folder)
    return lpr, fit_implied(lpr, both, column, **options)


class _Counted:
    """Progress over labels; those with few positives come twice."""

    def __init__(self, truth: sparse.csc_array, name: str, on_progress: OnProgress) -> None:
        positives = np.diff(truth.indptr)
        support = np.minimum(positives, truth.shape[0] - positives)
        self._n_labels, self._n_rare = positives.size, int(np.count_nonzero(support < 10))
        self._read, self._name = 0, name
        self._on_progress = on_progress
        self._on_progress(f"fitting {name}", 0, self._n_labels)

    def add(self, n: int) -> None:
        self._read += n
        if self._read <= self._n_labels:
            self._on_progress(f"fitting {self._name}", self._read, self._n_labels)
        elif (again := self._read - self._n_labels) <= self._n_rare:
            self._on_progress(f"fitting rare {self._name}", again, self._n_rare)


def _calibrate(
    model: ScoreModel, data: Samples, kept: NDArray[np.intp], goal: Mapping[str, Any]
) -> None:
    with warnings.catch_warnings():
        # The cutoff says in its own words what could not be reached.
        warnings.simplefilter("ignore", UnreachableWarning)
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
