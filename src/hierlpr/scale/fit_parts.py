"""Samples to fit on, held in memory or of any size; both make the same model, bit by bit.

scores -> store, label after label        curves: one label at a time
truth  -> positives by sample       ->    joint posterior, profile, cutoff: from as many
          matched by name                 samples as can be held, the same in both paths
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.files import work_subfolder
from hierlpr._kernels._threads import n_threads_or_default
from hierlpr.data.partial_truth import PartialTruth, truth_of_sets
from hierlpr.data.repeats import SampleKeys
from hierlpr.data.tables import LEAST_SAMPLES, Table, sample_limit
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import Pair, ReadReport, pair_samples
from hierlpr.io.table_output import arrow_numbers
from hierlpr.io.whole_tables import unscored_note
from hierlpr.lpr import ImpliedLPR, LPRModel, fit_data
from hierlpr.lpr.groups import Gaps
from hierlpr.lpr.implied import ListedCounts, fit_implied, pairs_of
from hierlpr.scale.budget import estimate_instances, open_names
from hierlpr.scale.parts import How, OnProgress, Parts, in_parts
from hierlpr.scale.source import Reading, over_partitions
from hierlpr.scale.spool import planned_source
from hierlpr.scale.store import Store, write_partition
from hierlpr.scale.stored_labels import FIT_LABEL_BYTES, StoredGaps, StoredLabels
from hierlpr.scale.truth import TruthRows, stream_truth

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel


# -- in memory --------------------------------------------------------------------------------


class HeldSamples(NamedTuple):
    """Samples with scores and truth in memory; on disk they are `StoredSamples`."""

    held: Pair
    hierarchy: Hierarchy
    reports: tuple[ReadReport, ...]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.held.scores.n_samples

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened to other samples."""
        return self.held.notes

    def limit(self) -> int:
        """How many of the samples a cutoff is chosen from."""
        return sample_limit(self.n_samples, self.hierarchy, self.held.scores.n_stored)

    def pair(self, chosen: NDArray[np.intp]) -> Pair:
        """Return scores and truth of some of the samples."""
        return self.held.rows(chosen)

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.held.scores.samples or ()

    def fit(
        self,
        model: ScoreModel,
        fitted: NDArray[np.intp],
        weight: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Fit a model on some of the samples; returns how far ranks are off: not at all."""
        pair = self.pair(fitted)
        model.fit(pair.scores, pair.truth, sample_weight=weight)
        return np.zeros(self.hierarchy.n_labels)


def hold_samples(scores: str, reading: Reading, truth: str | None = None) -> HeldSamples:
    """Read scores and truth, and bring them to the same samples; without truth none has a label."""
    h, scored = reading.hierarchy, reading.scores(scores)
    _release()
    if truth is None:
        nothing = scipy.sparse.csr_array(scored.table.values.shape)
        pair = Pair(scored.table, Table(nothing, h.labels, scored.table.samples), ())
        return HeldSamples(pair, h, (scored.report,))
    known = reading.truth(truth)
    pair = pair_samples(scored, known, absent=reading.absent)
    return HeldSamples(pair, h, (scored.report, known.report))


# -- on disk ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class StoredSamples:
    """Samples that have scores and truth: scores in a store on disk, positives in memory.

    `rows` are their rows in the store, rising; `truth` has one row for each of them, closed
    upward (CSR matrices). `reports` say what the two files held, `notes` what happened to other
    samples.
    """

    parts: Parts
    reading: Reading
    store: Store
    rows: NDArray[np.intp]
    truth: scipy.sparse.csr_array | PartialTruth
    names: Any  # of the rows of the store (Arrow)
    is_list: bool
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.rows.size

    def limit(self) -> int:
        """How many of the samples are few enough to hold."""
        stored = self.store.stored_in(self.rows)
        return sample_limit(self.n_samples, self.reading.hierarchy, stored)

    def scores(self, chosen: NDArray[np.intp]) -> Table:
        """Return the scores of some of the samples."""
        values = self.store.take(self.rows[chosen])
        return Table(values, self.reading.hierarchy.labels, is_list=self.is_list)

    def pair(self, chosen: NDArray[np.intp]) -> Pair:
        """Return scores and truth of some of the samples, with their names."""
        scores, truth = self.scores(chosen), self.truth[chosen]
        held = truth.as_given() if isinstance(truth, PartialTruth) else truth.astype(np.float64)
        names = tuple(self.names.take(arrow_numbers(self.rows[chosen])).to_pylist())
        return Pair(
            Table(scores.values, scores.labels, names, is_list=self.is_list),
            Table(held if self.store.is_sparse else held.toarray(), scores.labels, names),
            self.notes,
        )

    def report_limit(self) -> int:
        """How many of the samples a report may be about: it holds all that is true of them."""
        held = self.truth.held if isinstance(self.truth, PartialTruth) else self.truth
        most = self.parts.budget.report_positives
        return max(LEAST_SAMPLES, most * self.n_samples // max(1, int(held.nnz)))

    def streamed(self, chosen: NDArray[np.intp]) -> tuple[StoredRows, Table]:
        """Return some of the samples as scores that stay where they are, and their truth."""
        scores, truth = StoredRows(self, chosen), self.truth[chosen]
        held = truth.as_given() if isinstance(truth, PartialTruth) else truth.astype(np.float64)
        return scores, Table(held, self.reading.hierarchy.labels, scores.samples)

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of the samples."""
        return tuple(self.names.take(arrow_numbers(self.rows)).to_pylist())

    def fit(
        self,
        model: ScoreModel,
        fitted: NDArray[np.intp],
        weight: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Fit a model on some of the samples: curves from the store, the rest from few of them.

        Returns how far ranks of each label's scores may be off, as a share of the samples.
        """
        from hierlpr.model.given_tables import FitSource, refuse_unknown_labels, weighed

        chosen, weight = weighed(weight, fitted.size)
        fitted = fitted[chosen]
        h, rows = self.reading.hierarchy, self.rows[fitted]
        held = self.truth if fitted.size == self.n_samples else self.truth[fitted]
        refuse_unknown_labels(held, h)
        with work_subfolder(self.parts.folder) as own:
            fit = _Fit(self, model, rows, held, own, weight)
            implied = None
            if self.store.is_sparse:
                lpr, implied = fit.listed()
            else:
                lpr = fit.labels(slice(None), Gaps.none(h.n_labels), "labels")
            keys = SampleKeys.of(self.store.keys[rows], self.store.near[rows])
            source = FitSource(
                h, lpr, implied, held, lambda drawn: self.scores(fitted[drawn]),
                self.store.stored_in(rows), keys, weight,
            )  # fmt: skip
            model.fit_on(source)
        return fit.errors


class StoredRows:
    """Scores of some stored samples, read a few at a time (`hierlpr.plots.evidence.SampleSource`).

    Parameters
    ----------
    data : StoredSamples
    chosen : ndarray of int
        The samples, rising.
    """

    def __init__(self, data: StoredSamples, chosen: NDArray[np.intp]) -> None:
        self._data, self._chosen = data, chosen
        rows = data.rows[chosen]
        self.n_samples = rows.size
        self.n_stored = data.store.stored_in(rows)
        self.samples = tuple(data.names.take(arrow_numbers(rows)).to_pylist())

    def rows(self, rows: NDArray[np.intp]) -> Table:
        """Return some of the samples."""
        return self._data.scores(self._chosen[rows])


def store_samples(
    scores: str, name: str, reading: Reading, parts: Parts, truth: str | None = None
) -> StoredSamples:
    """Read scores and truth; work files go to the folder `name` of the run.

    Without truth all samples are there, and none has a label.
    """
    folder = parts.folder / name
    folder.mkdir(exist_ok=True)
    source, watch = planned_source(scores, reading, parts, folder)
    records = over_partitions(
        parts, source, watch, write_partition, folder=folder, stage="reading instances"
    )
    n_rows = None if source.is_complete else source.n_samples
    store = Store.of(folder, records, source.n_labels, n_rows)
    _release()
    names = open_names(folder, source.n_samples)
    if store.n_rows < source.n_samples:
        names = names.take(arrow_numbers(store.numbers))
    report = watch.report(samples=store.n_rows, labels=source.n_labels)
    if truth is None:
        rows = np.arange(store.n_rows)
        nothing = scipy.sparse.csr_array((store.n_rows, store.n_labels))
        return StoredSamples(
            parts, reading, store, rows, nothing.astype(bool), names, source.kind == "long",
            (report,), (),
        )  # fmt: skip
    with work_subfolder(folder) as own:
        known = stream_truth(truth, reading, own / "truth", parts.budget)
        _release()
        found = TruthRows(known, reading.absent)
        at = found.numbers([names], are_distinct=True)
        notes = found.notes(scores, "scored")
        n_unscored, first = found.unmet()
    if n_unscored:
        notes = (*notes, unscored_note(n_unscored, first))
    rows = np.flatnonzero(at >= 0)
    held = found.sets.take(at[rows])
    return StoredSamples(
        parts, reading, store, rows, truth_of_sets(held, reading.hierarchy), names,
        source.kind == "long", (report, known.report), notes,
    )  # fmt: skip


@contextmanager
def read_pairs(
    files: list[str], reading: Reading, how: How, command: str, out: AnyPath
) -> Iterator[Callable[[Sequence[str], str], HeldSamples | StoredSamples]]:
    """Give a function that reads scores and truth, whole or in parts; it names the work folder."""
    # Truth may be larger than the scores it belongs to, or the other way round; a report may have
    # none.
    pairs = [files[i : i + 2] for i in range(0, len(files), 2)]

    def are_held() -> bool:
        if command == "report":
            return how.budget.holds_report(files)
        return how.budget.holds_fit(sum(max(map(estimate_instances, pair)) for pair in pairs))

    if not how.asks_for_parts(*files) and are_held():
        how.say("reading scores and truth", 0, 1)
        yield lambda pair, _: hold_samples(pair[0], reading, *pair[1:])
        return
    if command == "fit" and reading.allow_missing:
        raise DataError(
            "Scores that may be missing are fitted in memory, and these need more of it than "
            "given.\nHint: give more --memory (memory=) and no --partitions or --scheduler, or a "
            "long table, which lists the scores there are."
        )
    with in_parts(how, command, os.fspath(out), beside=out) as parts:
        yield lambda pair, name: store_samples(pair[0], name, reading, parts, *pair[1:])


def error_notes(errors: NDArray[np.float64], hierarchy: Hierarchy) -> Iterator[str]:
    """Say how far ranks are off, if any are."""
    sketched = int((errors > 0.0).sum())
    if sketched:
        worst = int(errors.argmax())
        yield (
            f"{sketched:,} label(s) have too many scores to sort in this memory; ranks of "
            f"{hierarchy.labels[worst]!r} are off by at most {errors[worst]:.2g} of the samples, "
            "those of the others by less"
        )


# -- a fit from what is stored ----------------------------------------------------------------


class _Fit:
    """The curves of one fit, and how far ranks may be off."""

    def __init__(
        self,
        data: StoredSamples,
        model: ScoreModel,
        rows: NDArray[np.intp],
        truth: scipy.sparse.csr_array | PartialTruth,
        folder: Path,
        weight: NDArray[np.float64] | None,
    ) -> None:
        store, parts = data.store, data.parts
        self._store, self._parts, self._hierarchy = store, parts, data.reading.hierarchy
        self._rows, self._folder = rows, folder
        self._held = truth.held if isinstance(truth, PartialTruth) else truth
        # As in `ScoreModel.fit`; one label after the other is asked for.
        by_label = truth if isinstance(truth, PartialTruth) else scipy.sparse.csc_array(truth)
        share = None if weight is None else weight / weight.max()
        self._pairs = pairs_of(by_label, self._hierarchy, store.is_empty(rows), share)
        self._most = parts.budget.memory * 3 // 4 // FIT_LABEL_BYTES
        largest = max(store.size_of(label) for label in range(store.n_labels))
        threads = min(n_threads_or_default(model.n_threads), self._most // max(1, largest))
        self._options: dict[str, Any] = {"method": model.lpr, "n_threads": max(1, threads)}
        self.errors = np.zeros(store.n_labels)

    def labels(self, part: Any, gaps: Gaps, name: str) -> LPRModel:
        """Fit the curves on some of the rows; on all of them, note how far ranks are off."""
        held = scipy.sparse.csc_array(self._held[part])
        labels = StoredLabels(
            self._store, self._rows[part], held, gaps,
            None if self._pairs is None else self._pairs.take(part), most_scores=self._most,
            on_label=_counted(held, name, self._parts.say),
        )  # fmt: skip
        spread = None
        if self._parts.executor.is_cluster:
            place = self._folder / name.replace(" ", "-")
            place.mkdir()
            spread = labels.spread(place, self._parts.executor)
        lpr = fit_data(labels, **self._options, spread=spread)
        if held.shape[0] == self._rows.size:
            self.errors[:] = labels.rank_error
        return lpr

    def listed(self) -> tuple[LPRModel, ImpliedLPR]:
        """Do as `hierlpr.lpr.fit_listed`, from what is stored."""
        absent = StoredGaps(self._store, self._hierarchy, self._rows, self._held, self._pairs)
        if self._pairs is None:
            counts = absent.count()
            both = ListedCounts.sum(counts)
        else:
            *counts, both = absent.weigh(self._folder)
        lpr = self.labels(slice(None), both.implied, "labels")
        parts = [np.flatnonzero(absent.half == side) for side in (0, 1)]
        others = [lpr, lpr]
        if both.implied.total.any() and all(part.listed.total.any() for part in counts):
            others = [
                self.labels(parts[1 - side], counts[1 - side].implied, f"labels on half {side + 1}")
                for side in (0, 1)
            ]
        column = absent.column(others, scipy.sparse.csc_array(self._held), self._folder)
        return lpr, fit_implied(lpr, both, column, **self._options)


def _counted(truth: scipy.sparse.csc_array, name: str, say: OnProgress) -> Callable[[int], None]:
    """Progress over labels; those with few positives come twice."""
    positives = np.diff(truth.indptr)
    support = np.minimum(positives, truth.shape[0] - positives)
    n_labels, n_rare = positives.size, int(np.count_nonzero(support < 10))
    n_read = 0
    say(f"fitting {name}", 0, n_labels)

    def add(n: int) -> None:
        nonlocal n_read
        n_read += n
        if n_read <= n_labels:
            say(f"fitting {name}", n_read, n_labels)
        elif (again := n_read - n_labels) <= n_rare:
            say(f"fitting rare {name}", again, n_rare)

    return add


def _release() -> None:
    """Give back what reading took: Arrow keeps it for later use, which counts as memory.

    So does the C library of Linux with what the metadata of very many columns took.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not every C library has it
        if trim is not None:
            trim(0)
