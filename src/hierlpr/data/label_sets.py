"""The labels of each sample: as sorted rows, and as people list them (lists, sets, texts)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed, nearest
from hierlpr.data.frames import index_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows

if TYPE_CHECKING:
    from scipy import sparse

PATH_SEP = "/"
_JOINTS = (";", "|", ",", "\t")  # between labels in one text, as tables of others have it


@dataclass(frozen=True, slots=True, eq=False)
class LabelSets:
    """Sets of labels; those of sample i are ``label[row_ptr[i]:row_ptr[i + 1]]``, each once.

    `open` are the labels of which nothing was given, None if there is no such label. Some of them
    are known all the same, from labels below or above: see :mod:`hierlpr.data.partial_truth`.

    Examples
    --------
    >>> sets = LabelSets.of(np.array([[1, 0, 1], [0, 0, 0]]))
    >>> sets.row_ptr, sets.label, sets.shape
    (array([0, 2, 2]), array([0, 2], dtype=int32), (2, 3))
    >>> LabelSets.of(np.array([[1, np.nan, 0]])).open.label
    array([1], dtype=int32)
    """

    row_ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    n_labels: int
    open: LabelSets | None = None

    @classmethod
    def of(cls, matrix: Any) -> LabelSets:
        """Take what is not zero in a dense or sparse matrix; NaN is open."""
        if hasattr(matrix, "tocsr"):
            csr = matrix.tocsr()
            return cls.of_entries(csr.indptr, csr.indices, csr.data, csr.shape[1])
        values = np.asarray(matrix)
        row, label = np.nonzero(values)  # NaN is not zero
        counts = np.bincount(row, minlength=len(values))
        return cls.of_entries(
            np.append(0, np.cumsum(counts)), label, values[row, label], values.shape[1]
        )

    @classmethod
    def of_entries(
        cls, row_ptr: NDArray[Any], label: NDArray[Any], value: NDArray[Any], n_labels: int
    ) -> LabelSets:
        """Take what is not zero of entries as of a CSR matrix; NaN is open."""

        def where(kept: NDArray[np.bool_]) -> LabelSets:
            before = np.append(0, np.cumsum(kept))
            return cls(before[row_ptr], label[kept].astype(np.int32), n_labels)

        if value.dtype.kind != "f" or not np.isnan(value.sum()):
            return where(value != 0)
        is_open = np.isnan(value)
        return replace(where((value != 0) & ~is_open), open=where(is_open))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return self.row_ptr.size - 1, self.n_labels

    def run(self, first: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Labels of a run of samples, and the place in the run of the sample of each."""
        ptr = self.row_ptr[first : stop + 1]
        return self.label[ptr[0] : ptr[-1]], np.repeat(np.arange(stop - first), np.diff(ptr))

    def take(self, rows: NDArray[np.integer[Any]]) -> LabelSets:
        """Return some of the samples."""
        first, size = self.row_ptr[rows], self.row_ptr[rows + 1] - self.row_ptr[rows]
        ptr = np.append(0, np.cumsum(size))
        at = np.repeat(first - ptr[:-1], size) + np.arange(ptr[-1])
        more = None if self.open is None else self.open.take(rows)
        return LabelSets(ptr, self.label[at], self.n_labels, more)

    def closed(self, hierarchy: Hierarchy) -> LabelSets:
        """Add all ancestors; what is open stays open."""
        ptr, number = close_rows(hierarchy, self.row_ptr, hierarchy.position[self.label])
        return LabelSets(ptr, hierarchy.order[number], self.n_labels, self.open)

    def keys(self) -> NDArray[np.int64]:
        """Return the number of every (sample, label) pair among all pairs."""
        row = np.repeat(np.arange(self.row_ptr.size - 1), np.diff(self.row_ptr))
        return np.asarray(row * self.n_labels + self.label)

    def without(self, others: LabelSets) -> LabelSets:
        """Leave out the pairs that are in other sets of the same samples."""
        kept = np.isin(self.keys(), others.keys(), invert=True)
        before = np.append(0, np.cumsum(kept))
        return LabelSets(before[self.row_ptr], self.label[kept], self.n_labels, self.open)

    def as_given(self) -> Any:
        """Return a CSR matrix with 1 where a label was given to hold, NaN where it is open."""
        from scipy import sparse

        given = self if self.open is None else self.without(self.open)
        keys, n_open = given.keys(), 0
        if self.open is not None:
            keys, n_open = np.concatenate([keys, self.open.keys()]), self.open.label.size
        order = np.argsort(keys, kind="stable")
        row, label = np.divmod(keys[order], max(1, self.n_labels))
        ptr = np.searchsorted(row, np.arange(self.row_ptr.size))
        value = np.where(order < keys.size - n_open, 1.0, np.nan)
        return sparse.csr_array((value, label.astype(np.int32), ptr), shape=self.shape)

    def with_empty(self, n_more: int) -> LabelSets:
        """Append samples without any label."""
        ptr = np.append(self.row_ptr, np.full(n_more, self.row_ptr[-1]))
        more = None if self.open is None else self.open.with_empty(n_more)
        return LabelSets(ptr, self.label, self.n_labels, more)


# -- as people list them -----------------------------------------------------------------------


class SampleLabels(NamedTuple):
    """The labels of every sample as they were given, and the names of the samples if they have any.

    `rows` holds a text (one label) or a collection of texts a sample.
    """

    rows: list[Any]
    samples: tuple[str, ...] | None


def sample_labels(data: Any) -> SampleLabels | None:
    """Return labels listed sample by sample, or None if `data` is something else.

    Lists, tuples, Series and object arrays of texts, lists, tuples or sets; arrays of text with a
    row for each sample; and mappings of sample to labels.
    """
    if isinstance(data, Mapping):
        return SampleLabels(list(data.values()), tuple(str(name) for name in data))
    samples = None
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "OUT" or data.ndim not in (1, 2):
            return None
        data = data.tolist()
    elif not isinstance(data, list | tuple):
        series = _as_series(data)
        if series is None:
            return None
        data, samples = series
    rows = list(data)
    first = next((row for row in rows if not _is_empty(row)), None)
    if first is None:
        lists = bool(rows) and all(isinstance(row, list | tuple | set | frozenset) for row in rows)
        return SampleLabels(rows, samples) if lists else None
    return SampleLabels(rows, samples) if _is_labels(first) else None


def label_matrix(
    given: SampleLabels, labels: Hierarchy | Sequence[str] | None, *, name: str
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Return a matrix with 1 where a sample has a label, and the labels of its columns.

    Without `labels` they are those that occur, sorted. A path such as ``"A/B"`` that is no label
    itself, but a path of labels down the hierarchy, stands for all labels on it.
    """
    from scipy import sparse

    names = labels.labels if isinstance(labels, Hierarchy) else labels
    rows = [_texts(row, at, name) for at, row in enumerate(given.rows)]
    if names is None:
        names = sorted({text for row in rows for text in row})
    column = {label: place for place, label in enumerate(names)}
    graph = labels if isinstance(labels, Hierarchy) else None
    known: dict[str, tuple[int, ...]] = {}
    unknown: dict[str, int] = {}  # text: the first sample that has it
    held: list[list[int]] = []
    for at, row in enumerate(rows):
        found: set[int] = set()
        for text in row:
            if text not in known:
                known[text] = _columns_of(text, column, graph)
                if not known[text]:
                    unknown[text] = at
            found.update(known[text])
        held.append(sorted(found))
    if unknown:
        raise _unknown(unknown, column, name)
    ptr = np.cumsum([0, *map(len, held)])
    index = np.array([place for row in held for place in row], dtype=np.int32)
    matrix = sparse.csr_array((np.ones(index.size), index, ptr), shape=(len(held), len(column)))
    return matrix, tuple(names)


def _as_series(data: Any) -> tuple[list[Any], tuple[str, ...] | None] | None:
    import narwhals.stable.v1 as nw

    series = nw.from_native(data, allow_series=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return None
    return series.to_list(), index_names(series)


def _is_empty(row: Any) -> bool:
    """Whether nothing in `row` tells what the rows are."""
    if row is None or isinstance(row, float):
        return True
    return isinstance(row, list | tuple | set | frozenset) and not row


def _is_labels(row: Any) -> bool:
    if isinstance(row, str | set | frozenset):
        return True
    if isinstance(row, np.ndarray):
        return row.dtype.kind in "OUT"
    return isinstance(row, list | tuple) and any(isinstance(item, str) for item in row)


def _texts(row: Any, at: int, name: str) -> list[str]:
    """Return the labels of one sample; what is empty in a row of an array is no label."""
    items: Iterable[Any]
    if isinstance(row, str):
        items = [row]
    elif isinstance(row, list | tuple | set | frozenset | np.ndarray):
        items = row
    else:
        raise DataError(
            f"{name}: sample {at} has {row!r}, where the labels of a sample are expected.\n"
            "Hint: a list of labels for each sample; an empty list if it has none."
        )
    texts = []
    for item in items:
        if item is None or (isinstance(item, float) and np.isnan(item)) or item == "":
            continue  # short paths in a table of texts are filled up so
        if not isinstance(item, str):
            raise DataError(
                f"{name}: sample {at} has the label {item!r} ({type(item).__name__}), but labels "
                "are texts.\nHint: convert them with str()."
            )
        texts.append(str(item))
    return texts


def _columns_of(text: str, column: Mapping[str, int], graph: Hierarchy | None) -> tuple[int, ...]:
    if text in column:
        return (column[text],)
    if graph is None or PATH_SEP not in text:
        return ()
    steps = text.split(PATH_SEP)
    if any(step not in column for step in steps):
        return ()
    if any(above not in graph.parents(below) for above, below in pairwise(steps)):
        return ()
    return tuple(column[step] for step in steps)


def _unknown(unknown: Mapping[str, int], column: Mapping[str, int], name: str) -> DataError:
    first, at = next(iter(unknown.items()))
    meant = _joined(first, column) or nearest(first, column)
    meant = meant or "the labels are those of hierarchy.labels."
    return DataError(
        f"{name} names {len(unknown):,} label(s) that the hierarchy does not have: "
        f"{listed(list(unknown))}; the first in sample {at}.\nHint: {meant}"
    )


def _joined(text: str, column: Mapping[str, int]) -> str:
    """Say how to take apart a text that holds several labels, as a column of a table often does."""
    for sep in _JOINTS:
        parts = [part for part in text.split(sep) if part]
        if len(parts) > 1 and all(part.strip() in column for part in parts):
            shown = sep if all(part.strip() == part for part in parts) else f"{sep} "
            return (
                f"{text!r} holds several labels: give lists, "
                f"[text.split({shown!r}) for text in truth]."
            )
    return ""
