"""Stored scores as training data: what `hierlpr.lpr` asks for, a few labels or samples a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.data.label_sets import close_listed
from hierlpr.data.partial_truth import PartialTruth
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import LPRModel, ScoreGroups
from hierlpr.lpr.base import Estimator
from hierlpr.lpr.fitting import Spread, fit_chunk
from hierlpr.lpr.groups import (
    Gaps,
    PairWeights,
    Places,
    TruthCounts,
    group_columns,
    group_rows,
    group_weighted,
)
from hierlpr.lpr.implied import (
    Column,
    ListedCounts,
    count_listed,
    halves_of,
    unseen_lpr,
    weigh_listed,
)
from hierlpr.scale.parts import Executor
from hierlpr.scale.store import Segment, Store, sketch, write_segment

# Working memory for one score of a label that is sorted and fitted, measured.
FIT_LABEL_BYTES = 100

Float = NDArray[np.float64]


class StoredLabels:
    """Scores of some rows of a store, and their truth, label by label.

    A label with more than `most_scores` scores is sketched instead of sorted; `rank_error` says
    how far its ranks may be off (0 for the others).

    Parameters
    ----------
    store : Store
    rows : ndarray
        Rows to fit on, rising.
    truth : csc_array of bool of shape (rows.size, n_labels)
    gaps : Gaps
        Samples that the curves leave out, see `hierlpr.lpr.implied`.
    pairs : PairWeights, optional
        Where not every pair weighs the same.
    most_scores : int
        How many scores of a label may be sorted in memory.
    on_label : callable, optional
        Called with the number of labels that were read.
    """

    def __init__(
        self,
        store: Store,
        rows: NDArray[np.intp],
        truth: scipy.sparse.csc_array,
        gaps: Gaps,
        pairs: PairWeights | None = None,
        *,
        most_scores: int,
        on_label: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.n_labels = store.n_labels
        self.rank_error = np.zeros(store.n_labels)
        self._store, self._rows, self._truth = store, rows, truth
        self._place = store.places(rows) if store.is_sparse else np.empty(0, np.int32)
        self._weight, self._gaps, self._pairs = np.ones(rows.size), gaps, pairs
        # As in `hierlpr.lpr.groups.read_training_data`.
        self._weight[store.is_empty(rows)] = 0.0
        self._most_scores = most_scores
        self._on_label = on_label
        self._lock = threading.Lock()

    def spread(self, folder: Path, executor: Executor) -> Spread:
        """Return a way to fit labels wherever the executor does, from what is put in `folder`."""
        arrays = {"rows": self._rows, "ptr": self._truth.indptr, "held": self._truth.indices,
                  "total": self._gaps.total, "positive": self._gaps.positive}  # fmt: skip
        arrays |= _pair_arrays(self._pairs)
        for name, values in arrays.items():
            np.save(folder / f"{name}.npy", values)
        n_rows = self._store.n_rows if self._store.is_sparse else None
        job = LabelsJob(str(folder), self._store.segments, self.n_labels, n_rows, self._most_scores)

        def fit(chunks: list[NDArray[np.int64]], estimator: Estimator) -> list[LPRModel]:
            found: dict[int, LPRModel] = {}
            tasks = ((job, number, labels, estimator) for number, labels in enumerate(chunks))
            for number, model, errors in executor.run(fit_labels, tasks):
                found[number] = model
                self.rank_error[chunks[number]] = errors
                self._on_label(chunks[number].size)
            return [found[number] for number in range(len(chunks))]

        return fit

    @property
    def values_per_label(self) -> int:
        """Scores of a label that are sorted together with those of others."""
        sizes = [self._store.size_of(label) for label in range(self.n_labels)]
        # Where few labels hold most of the scores, some of them may come together.
        return 1 + max(sum(sizes) // self.n_labels, max(sizes) // 16)

    def count_truth(self, labels: NDArray[np.int64]) -> TruthCounts:
        """Count the samples behind some labels."""
        if self._pairs is not None:
            return self._pairs.count_truth(labels)
        used = self._weight > 0.0
        held = [int(np.count_nonzero(used[self._held(int(label))])) for label in labels]
        positives = np.array(held, dtype=np.int64)
        return TruthCounts.of(positives, int(np.count_nonzero(used)) - positives)

    def groups(self, labels: NDArray[np.int64]) -> ScoreGroups:
        """Return the groups of some labels, read here."""
        numbers = [int(label) for label in labels]
        if max(self._store.size_of(label) for label in numbers) > self._most_scores:
            found = [self._sketched(label) for label in numbers]
            score, positive, total = (np.concatenate([part[i] for part in found]) for i in range(3))
            ptr = np.cumsum([0, *(part[0].size for part in found)])
            groups = ScoreGroups(ptr, score, positive, total, float(self._rows.size))
            if self._pairs is None:
                groups = replace(groups, n_samples=float(self._weight.sum()))
        else:
            groups = self._sparse(numbers) if self._store.is_sparse else self._dense(numbers)
        with self._lock:
            self._on_label(len(numbers))
        return groups

    def _held(self, label: int) -> NDArray[np.int32]:
        """Rows that have a label."""
        ptr = self._truth.indptr
        held: NDArray[np.int32] = self._truth.indices[ptr[label] : ptr[label + 1]]
        return held

    def _dense(self, labels: list[int]) -> ScoreGroups:
        scores = self._store.dense(labels, self._rows)
        truth = np.zeros(scores.shape, dtype=bool)
        for i, label in enumerate(labels):
            truth[i, self._held(label)] = True
        if self._pairs is not None:
            return group_weighted(scores, truth, [self._pairs.weight(label) for label in labels])
        return group_rows(scores, truth, self._weight)

    def _sparse(self, labels: list[int]) -> ScoreGroups:
        found = self._store.columns(labels, self._place)
        held = [self._held(label) for label in labels]
        weight: Any = self._weight
        if self._pairs is not None:
            weight = [self._pairs.weight(label) for label in labels]
        return group_columns(
            _joined([row for row, _ in found]),
            np.concatenate([score for _, score in found]),
            _joined(held),
            weight,
            self._gaps.of(labels),
        )

    def _sketched(self, label: int) -> tuple[Float, Float, Float]:
        """Group the scores of one label, which go by in blocks."""
        truth = np.zeros(self._rows.size, dtype=bool)
        truth[self._held(label)] = True
        weight = self._weight if self._pairs is None else self._pairs.weight(label)

        def blocks() -> Iterator[tuple[Float, NDArray[np.bool_], Float]]:
            for at, scores in self._blocks(label):
                used = weight[at] > 0.0
                yield scores[used], truth[at][used], weight[at][used]

        n_scores = sum(scores.size for scores, _, _ in blocks())
        if not n_scores:
            groups = self._sparse([label])
            return groups.score, groups.positive, groups.total
        score, positive, total, error = sketch(blocks, n_scores)
        self.rank_error[label] = error * n_scores / self._rows.size
        # What is not listed is the lowest group, as in `hierlpr._kernels.smoothing.group_stored`.
        gaps = self._gaps.of(label)
        absent = float(weight.sum() - total.sum() - gaps.total)
        if absent > 1e-9 * weight.sum():
            lost = weight[truth].sum() - positive.sum() - gaps.positive
            score = np.concatenate([[-np.inf], score])
            positive = np.append(min(max(lost, 0.0), absent), positive)
            total = np.append(absent, total)
        return score, positive, total

    def _blocks(self, label: int) -> Iterator[tuple[Any, Float]]:
        """Places and scores of one label, a segment at a time."""
        if self._store.is_sparse:
            yield from self._store.column_blocks(label, self._place)
            return
        for mine, block in self._store.dense_blocks(label, 1, self._rows):
            yield mine, block[0]


class LabelsJob(NamedTuple):
    """All that fitting some labels needs, wherever it happens; see `StoredLabels.spread`."""

    folder: str
    segments: tuple[Segment, ...]
    n_labels: int
    n_rows: int | None
    most_scores: int


def fit_labels(
    job: LabelsJob, number: int, labels: NDArray[np.int64], estimator: Estimator
) -> tuple[int, LPRModel, Float]:
    """Fit some labels; returns their number, their curves, and how far ranks may be off."""
    data = _opened(job)
    model = fit_chunk(data, labels, estimator)
    return number, model, data.rank_error[labels]


@lru_cache(maxsize=1)
def _opened(job: LabelsJob) -> StoredLabels:
    arrays = {file.stem: np.load(file) for file in Path(job.folder).glob("*.npy")}
    rows, ptr, held = arrays["rows"], arrays["ptr"], arrays["held"]
    truth = scipy.sparse.csc_array(
        (np.ones(held.size, dtype=bool), held, ptr), shape=(rows.size, job.n_labels)
    )
    store = Store(job.segments, job.n_labels, job.n_rows)
    gaps = Gaps(arrays["total"], arrays["positive"])
    return StoredLabels(
        store, rows, truth, gaps, _pairs_of(arrays, truth), most_scores=job.most_scores
    )


def _pair_arrays(pairs: PairWeights | None) -> dict[str, NDArray[Any]]:
    """All that weights of pairs are made of, but for what holds."""
    if pairs is None:
        return {}
    h, truth = pairs.hierarchy, pairs.truth
    arrays = {"labels": np.array(h.labels), "edges": np.array(h.edges, dtype=str).reshape(-1, 2)}
    if pairs.sample_weight is not None:
        arrays["weight"] = pairs.sample_weight
    if isinstance(truth, PartialTruth):
        for name, matrix in (("unknown", truth.unknown), ("open", truth.open)):
            arrays |= {f"{name}_ptr": matrix.indptr, f"{name}_at": matrix.indices}
    return arrays


def _pairs_of(arrays: dict[str, NDArray[Any]], held: scipy.sparse.csc_array) -> PairWeights | None:
    """Rebuild from `_pair_arrays`."""
    if "labels" not in arrays:
        return None
    h = Hierarchy([tuple(edge) for edge in arrays["edges"].tolist()], arrays["labels"].tolist())
    truth: Any = held.tocsr()
    if "open_ptr" in arrays:
        others = [(arrays[f"{name}_at"], arrays[f"{name}_ptr"]) for name in ("unknown", "open")]
        truth = PartialTruth(
            truth,
            *(
                scipy.sparse.csr_array((np.ones(at.size, bool), at, ptr), shape=held.shape)
                for at, ptr in others
            ),
        )
    return PairWeights(truth, h, sample_weight=arrays.get("weight"))


class StoredGaps:
    """What `hierlpr.lpr.fit_listed` finds out about implied labels, a batch of samples at a time.

    Parameters
    ----------
    store : Store
        Listed scores.
    hierarchy : Hierarchy
    rows : ndarray
        Rows of the store to fit on, rising.
    truth : csr_array of bool of shape (rows.size, n_labels)
    pairs : PairWeights, optional
        Where not every pair weighs the same.

    Attributes
    ----------
    half : ndarray
        Which half of the samples each belongs to.
    """

    def __init__(
        self,
        store: Store,
        hierarchy: Hierarchy,
        rows: NDArray[np.intp],
        truth: scipy.sparse.csr_array,
        pairs: PairWeights | None = None,
    ) -> None:
        self._store, self._hierarchy, self._truth, self._pairs = store, hierarchy, truth, pairs
        self._place = store.places(rows)
        self.half = halves_of(store.keys[rows])

    def _batches(self) -> Iterator[tuple[scipy.sparse.csr_array, NDArray[np.int64]]]:
        """Scores of the samples to fit on, and their places among them."""
        for values, numbers in self._store.batches():
            place = self._place[numbers].astype(np.int64)
            kept = place >= 0
            yield scipy.sparse.csr_array(values[kept]), place[kept]

    def count(self) -> list[ListedCounts]:
        """Count the samples of each half that list and that imply each label."""
        counts = [ListedCounts.none(self._hierarchy.n_labels) for _ in range(2)]
        for values, place in self._batches():
            for side in range(2):
                mine = self.half[place] == side
                closed = close_listed(values[mine], self._hierarchy)
                counts[side].add(count_listed(closed, self._truth[place[mine]]))
        return counts

    def weigh(self, folder: Path) -> tuple[ListedCounts, ListedCounts, ListedCounts]:
        """Weigh the samples of each half, and of both, that list and that imply each label."""
        assert self._pairs is not None
        implied = self._implied(lambda values, place: values, folder / "weighed")
        of_listed, of_implied = self._place, np.arange(self.half.size, dtype=np.int32)

        def counted(chosen: NDArray[np.intp]) -> ListedCounts:
            own = np.full(self.half.size + 1, -1, dtype=np.int64)  # the last is for no place
            own[chosen] = np.arange(chosen.size)

            def rows_of(label: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
                ((first, _),) = implied.columns([label], of_implied)
                ((second, _),) = self._store.columns([label], of_listed)
                first, second = own[first], own[second]
                return first[first >= 0], second[second >= 0]

            assert self._pairs is not None
            return weigh_listed(rows_of, self._pairs.take(chosen))

        first, second = (np.flatnonzero(self.half == side) for side in (0, 1))
        return counted(first), counted(second), counted(np.arange(self.half.size))

    def _implied(
        self,
        lpr_of: Callable[[scipy.sparse.csr_array, NDArray[np.int64]], scipy.sparse.csr_array],
        file: Path,
    ) -> Store:
        """Write the labels that samples imply, with the largest LPR listed below each."""
        segments, first = [], 0
        with file.open("wb") as stream:
            for values, place in self._batches():
                closed = close_listed(lpr_of(values, place), self._hierarchy)
                gone = np.concatenate([[0], np.cumsum(closed.is_implied)])
                below = closed.value[closed.is_implied], closed.label[closed.is_implied]
                implied = scipy.sparse.csr_array((*below, gone[closed.row_ptr]), shape=values.shape)
                segments.append(Segment(str(file), *write_segment(stream, implied, place), first))
                first += place.size
        return Store(segments, self._hierarchy.n_labels, self.half.size)

    def column(
        self, models: Sequence[LPRModel], by_label: scipy.sparse.csc_array, folder: Path
    ) -> Column:
        """Return what `fit_implied` asks for, from a work file; `models` as in `unseen_lpr`."""
        store = self._implied(
            lambda values, place: unseen_lpr(models, self.half[place], values), folder / "implied"
        )
        everything = np.arange(by_label.shape[0], dtype=np.int32)

        def column(label: int) -> tuple[Float, NDArray[np.bool_], Float | None]:
            ((row, below),) = store.columns([label], everything)
            held = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
            weight = None if self._pairs is None else self._pairs.weight(label)[row]
            return below, np.isin(row, held, assume_unique=True), weight

        return column


def _joined(parts: list[NDArray[np.int64]] | list[NDArray[np.int32]]) -> Places:
    """Put the rows of labels one after the other, and say where each label begins."""
    sizes = [part.size for part in parts]
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    return ptr, np.concatenate([part.astype(np.int64) for part in parts])
