"""Score, truth and LPR matrices (samples x labels), aligned with a hierarchy's label order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import (
    Matrix,
    check_finite,
    check_real_array,
    is_sparse,
    listed,
    nearest,
    refuse_entries,
)
from hierlpr.data.frames import (
    SAMPLE_COLUMN,
    as_frame,
    index_names,
    label_matrix,
    sample_labels,
)
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_dense, fits_if_sorted, is_closed

if TYPE_CHECKING:
    from scipy import sparse

# What needs no more to be known well enough (the tempering of the joint posterior, a profile of
# levels, a cutoff) is learned from at most so many instances, so that memory stays bounded.
MOST_INSTANCES = 2**23
LEAST_SAMPLES = 10
_BREACH_VALUES = 2**22  # of sparse truth made dense at a time, to name what is wrong in it


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """A float64 matrix whose columns are `labels`, with what is known of where it came from.

    `samples` names the rows, or is None if they have only numbers. `backend` is the data frame
    library the user gave the data in (``"pandas"``, ``"polars"``, ...), or None for arrays.
    `is_list` tells that dense values come from a list of pairs which happened to hold every one,
    `by_place` that the columns had no names and were taken in the order of the labels.
    """

    values: Matrix
    labels: tuple[str, ...]
    samples: tuple[str, ...] | None = None
    backend: str | None = None
    is_list: bool = False
    by_place: bool = False

    def __repr__(self) -> str:
        return f"<Table: {self.size_words()}>"

    def size_words(self) -> str:
        """Say how large it is, and how much of it is listed."""
        size = f"{self.n_samples:,} samples x {len(self.labels):,} labels"
        return size if self.n_stored is None else f"{size}, {self.n_stored:,} values listed"

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def n_stored(self) -> int | None:
        """Number of stored entries of a sparse matrix, None of a dense one."""
        return None if isinstance(self.values, np.ndarray) else int(self.values.nnz)

    def rows(self, rows: NDArray[np.intp]) -> Table:
        """Return some rows, by rising number."""
        if rows.size == self.n_samples:
            return self
        names = None if self.samples is None else tuple(self.samples[i] for i in rows)
        return replace(self, values=self.values[rows], samples=names)


def align(data: Any, labels: Hierarchy | Sequence[str] | None, *, name: str) -> Table:
    """Bring any matrix or data frame to float64 with columns in the order of `labels`.

    Arrays are taken by position, data frames by column name; a frame may also hold a column
    ``sample`` with the samples' names. With ``labels=None`` the data set its own labels.

    Raises
    ------
    DataError
        For a wrong shape or dtype, and for missing, unknown or repeated label columns.
    """
    names = labels.labels if isinstance(labels, Hierarchy) else labels
    data = getattr(data, "table", data)  # what a file was read as
    if isinstance(data, Table):
        if names is None or data.labels is names or data.labels == tuple(names):
            return data
        return _reorder(data, names, name)
    if is_sparse(data):
        values: Matrix = _sparse_values(data, name)
        given = None
        samples = backend = None
    elif (frame := as_frame(data, name)) is not None:
        values, given, samples, backend = _frame_values(frame, names, name)
    else:
        values, given, samples, backend = check_real_array(data, name=name), None, None, None
    if values.ndim != 2:
        raise DataError(
            f"{name} must be a matrix of shape (n_samples, n_labels), got shape {values.shape}.\n"
            "Hint: Reshape your data; a single sample is one row, [[...]]."
        )
    by_place = given is None
    if given is None:
        given = tuple(names) if names is not None else _numbered(values.shape[1])
        if values.shape[1] != len(given):
            raise DataError(
                f"{name} has {values.shape[1]:,} columns, but there are {len(given):,} labels: "
                f"expected shape (n_samples, {len(given)}).\n"
                "Hint: the columns of an array follow the order of hierarchy.labels."
            )
    return Table(values, given, samples, backend, by_place=by_place)


def align_labels(data: Any, labels: Hierarchy | Sequence[str] | None, *, name: str) -> Table:
    """Bring truth to a table, as `align` does; it may also list the labels of each sample.

    Lists give a sparse table of 0 and 1; see :func:`hierlpr.data.frames.sample_labels`.
    """
    given = None if isinstance(data, Table) else sample_labels(data)
    if given is None:
        return align(data, labels, name=name)
    matrix, names = label_matrix(given, labels, name=name)
    return Table(matrix, names, given.samples)


def dense(matrix: Any) -> NDArray[Any]:
    """Return a matrix as an array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def align_truth(
    data: Any, hierarchy: Hierarchy, *, name: str = "truth", close: bool = False
) -> NDArray[np.bool_]:
    """Bring truth to a bool matrix in label order, checked against the hierarchy.

    A label without its parent is refused, or closed upward if `close`.
    """
    is_plain = isinstance(data, np.ndarray) and data.dtype == np.bool_
    if is_plain and data.shape[1:] == (hierarchy.n_labels,):
        truth: NDArray[np.bool_] = data.copy(order="K")  # has nothing to convert or to check
    else:
        truth = _bool_values(align_labels(data, hierarchy, name=name), name)
    if is_closed(hierarchy, truth):
        return truth
    if close:
        return close_dense(hierarchy, truth)
    breaches = hierarchy.violations(truth)
    table = align_labels(data, hierarchy, name=name)
    raise _breached(name, len(breaches), breaches[0], table, truth, hierarchy)


def _bool_values(table: Table, name: str) -> NDArray[np.bool_]:
    """Return a table of 0 and 1 as bool matrix."""
    check_finite(table.values, table.labels, name=name)
    whole = dense(table.values)
    truth: NDArray[np.bool_] = whole != 0.0
    if not np.array_equal(truth, whole):
        row, column = np.argwhere(truth != whole)[0]
        raise DataError(
            f"{name} must hold only 0 and 1, got {whole[row, column]} at sample {row}, "
            f"label {table.labels[column]!r}.\n"
            "Hint: scores come first, truth second; truth may also be lists of labels."
        )
    return truth


def align_truth_to(
    scores: Matrix, data: Any, hierarchy: Hierarchy, *, name: str = "truth", close: bool = False
) -> NDArray[np.bool_] | sparse.csr_array:
    """Do as `align_truth`, but beside sparse scores the truth is, and stays, sparse."""
    if isinstance(scores, np.ndarray):
        return align_truth(data, hierarchy, name=name, close=close)
    from scipy import sparse

    table = align_labels(data, hierarchy, name=name)
    values = table.values
    if isinstance(values, np.ndarray):
        return sparse.csr_array(align_truth(table, hierarchy, name=name, close=close))
    check_finite(values, hierarchy.labels, name=name)
    refuse_entries(
        (values.data != 0.0) & (values.data != 1.0), values, hierarchy.labels, name=name,
        what="a value other than 0 and 1", hint="1 where the sample has the label.",
    )  # fmt: skip
    truth = sparse.csr_array(values, dtype=np.bool_, copy=True)
    truth.eliminate_zeros()
    closed: sparse.csr_array = hierarchy.close_upward(truth)
    if close or closed.nnz == truth.nnz:
        closed.sort_indices()
        return closed
    bad = np.flatnonzero(np.diff(closed.indptr) != np.diff(truth.indptr))
    step = max(1, _BREACH_VALUES // hierarchy.n_labels)
    parts = [hierarchy.violations(truth[bad[i : i + step]]) for i in range(0, bad.size, step)]
    _, parent, child = parts[0][0]
    first = (int(bad[0]), parent, child)
    raise _breached(name, sum(map(len, parts)), first, table, truth, hierarchy)


def _breached(
    name: str,
    count: int,
    first: tuple[int, str, str],
    table: Table,
    truth: Any,
    hierarchy: Hierarchy,
) -> DataError:
    """Say where truth breaks the hierarchy; columns without names may just be in another order."""
    sample, parent, child = first
    add = "add the missing ancestors with close_truth=True or hierarchy.close_upward(truth)."
    hint = add
    if table.by_place:
        order = f"its columns have no names and were taken as {listed(hierarchy.labels, most=3)}"
        if fits_if_sorted(hierarchy, truth):
            hint = (
                f"{order}. With the labels sorted by name, as MultiLabelBinarizer makes its "
                "columns, no label would lack its parent: give it "
                "MultiLabelBinarizer(classes=hierarchy.labels), or give a data frame whose columns "
                "are the labels, or the lists of labels themselves."
            )
        else:
            hint = f"{order}: see first that this is their order. If it is, {add}"
    return DataError(
        f"{name} has a label without its parent {count:,} time(s); the first: sample "
        f"{sample} has {child!r} but not {parent!r}.\nHint: {hint}"
    )


def closing_note(given: Table, closed: Any, hierarchy: Hierarchy) -> str:
    """Say how many ancestors were added to the truth that was given; empty if none."""
    n_added = _n_true(closed) - _n_true(given.values)
    if n_added == 0:
        return ""
    note = f"{n_added:,} missing ancestors were added to the truth."
    # Chance may do so for a few labels: a hint that is wrong costs more than one that is missing.
    if given.by_place and fits_if_sorted(hierarchy, given.values, least=20):
        note += (
            " But its columns have no names, and sorted by label, as MultiLabelBinarizer makes "
            "them, they would lack none: see that they follow hierarchy.labels."
        )
    return note


def _n_true(truth: Any) -> int:
    # NaN, where the truth is unknown, is no 1.
    return int(np.count_nonzero((truth if isinstance(truth, np.ndarray) else truth.data) == 1))


def match_rows(truth: Table, scores: Table, *, name: str = "scores") -> Table:
    """Bring the truth's rows in the order of the scores', by name where both have names."""
    if truth.n_samples != scores.n_samples:
        verb = "has" if name == "X" else "have"
        raise DataError(f"{name} {verb} {scores.n_samples:,} samples, truth {truth.n_samples:,}.")
    if truth.samples is None or scores.samples is None or truth.samples == scores.samples:
        return truth
    place = {name: row for row, name in enumerate(truth.samples)}
    missing = [name for name in scores.samples if name not in place]
    if missing or len(place) != truth.n_samples:
        what = f"the truth lacks samples {listed(missing)}" if missing else "sample names repeat"
        raise DataError(
            f"{name} and truth do not name the same samples: {what}.\n"
            "Hint: rows with names are matched by name; drop the names to match them by place."
        )
    rows = [place[name] for name in scores.samples]
    return replace(truth, values=truth.values[rows], samples=scores.samples)


def growth(hierarchy: Hierarchy) -> int:
    """How many instances one stored score may become with its ancestors, at most 8."""
    return min(8, 1 + int(np.mean(hierarchy.levels)))


def sample_limit(n_samples: int, hierarchy: Hierarchy, n_stored: int | None = None) -> int:
    """How many samples make up about `MOST_INSTANCES`; `n_stored` counts sparse scores."""
    each = hierarchy.n_labels
    if n_stored is not None:
        each = min(each, 1 + n_stored * growth(hierarchy) // max(1, n_samples))
    return max(LEAST_SAMPLES, MOST_INSTANCES // each)


def draw_samples(n_samples: int, limit: int, rng: Any) -> NDArray[np.intp]:
    """Return all samples, or `limit` of them drawn at random, in order.

    >>> draw_samples(4, 10, rng=0), draw_samples(10, 4, rng=0)
    (array([0, 1, 2, 3]), array([2, 4, 5, 7]))
    """
    if n_samples <= limit:
        return np.arange(n_samples, dtype=np.intp)
    drawn = np.random.default_rng(rng).choice(n_samples, limit, replace=False)
    return np.sort(drawn).astype(np.intp)


def split_samples(
    n_samples: int, limit: int, rng: Any, *, name: Any = "scores"
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Set a third of the samples apart at random, at most `limit`; returns the others first."""
    if n_samples < 3:
        raise DataError(
            f"{name}: {n_samples} sample(s) cannot be split into a part to fit and one for the "
            "cutoff.\n"
            "Hint: give more samples, or --calibration-scores and --calibration-truth."
        )
    shuffled = np.random.default_rng(rng).permutation(n_samples)
    n_apart = min(n_samples // 3, limit)
    return np.sort(shuffled[n_apart:]), np.sort(shuffled[:n_apart])


def _numbered(n_labels: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(n_labels))


def _sparse_values(data: Any, name: str) -> sparse.csr_array:
    if data.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold real numbers, got dtype {data.dtype}.")
    from scipy import sparse

    csr = sparse.csr_array(data, dtype=np.float64)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _frame_values(
    frame: Any, names: Sequence[str] | None, name: str
) -> tuple[NDArray[np.float64], tuple[str, ...], tuple[str, ...] | None, str]:
    import narwhals.stable.v1 as nw

    columns = [str(column) for column in frame.columns]
    samples: tuple[str, ...] | None = None
    if SAMPLE_COLUMN in columns and (names is None or SAMPLE_COLUMN not in names):
        samples = tuple(str(s) for s in frame[SAMPLE_COLUMN].to_list())
        columns.remove(SAMPLE_COLUMN)
    else:
        samples = index_names(frame)
    wanted = tuple(columns) if names is None else tuple(names)
    _check_columns(columns, wanted, name)
    for column in wanted:
        if not (frame[column].dtype.is_numeric() or frame[column].dtype == nw.Boolean):
            raise DataError(
                f"{name}: column {column!r} holds {frame[column].dtype}, not numbers.\n"
                f"Hint: only a column named {SAMPLE_COLUMN!r} may hold text."
            )
    found = frame.select(wanted).to_numpy()
    if found.dtype.kind == "O":  # some libraries have nulls that are no floats
        found = np.column_stack([_null_as_nan(frame[column]) for column in wanted])
    return check_real_array(found, name=name), wanted, samples, frame.implementation.value


def _null_as_nan(column: Any) -> NDArray[np.float64]:
    import narwhals.stable.v1 as nw

    is_null = np.asarray(column.is_null().to_numpy(), dtype=bool)
    filled = column.cast(nw.Float64).fill_null(0.0).to_numpy()
    return np.where(is_null, np.nan, np.asarray(filled, dtype=np.float64))


def _check_columns(columns: Sequence[str], wanted: Sequence[str], name: str) -> None:
    known = set(wanted)
    present = set(columns)
    missing = [label for label in wanted if label not in present]
    extra = [column for column in columns if column not in known]
    problems = []
    if missing:
        problems.append(f"{len(missing):,} label(s) have no column: {listed(missing)}")
    if extra:
        problems.append(f"{len(extra):,} column(s) are not labels: {listed(extra)}")
    if problems:
        hint = (missing and extra and nearest(extra[0], missing)) or (
            f"choose the columns that are labels, {name}[list(hierarchy.labels)]."
            if extra
            else "hierarchy.subset(labels) is the hierarchy of the labels that have a column."
        )
        raise DataError(
            f"{name} does not fit the hierarchy: {'; '.join(problems)}."
            + (f"\nHint: {hint}" if hint else "")
        )


def _reorder(table: Table, names: Sequence[str], name: str) -> Table:
    _check_columns(table.labels, names, name)
    place = {label: i for i, label in enumerate(table.labels)}
    columns = [place[label] for label in names]
    values = table.values[:, columns]
    if not isinstance(values, np.ndarray):
        from scipy import sparse

        values = sparse.csr_array(values)
        values.sort_indices()
    return replace(table, values=values, labels=tuple(names))
