"""Score, truth and LPR matrices (samples x labels), aligned with a hierarchy's label order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import Matrix, check_real_array, is_sparse, nearest, quote_names
from hierlpr.data import frames
from hierlpr.data.frames import SAMPLE_COLUMN, as_frame
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_sparse, join_unknown, split_unknown
from hierlpr.hierarchy.roll_up import RollUp, labels_without_scores, roll_up_columns

# Of truth: a matrix, one that lacks columns above others, labels per sample, or one label each.
TruthForm = Literal["matrix", "leaves", "lists", "one name"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """A float64 matrix whose columns are `labels`, and where it came from."""

    values: Matrix
    labels: tuple[str, ...]
    samples: tuple[str, ...] | None = None  # names of the rows; None if they have only numbers
    backend: str | None = None  # library of the data frame ("pandas", ...); None for arrays
    from_complete_list: bool = False  # dense values come from a list of pairs that is complete
    columns_unnamed: bool = False  # columns had no names and were taken in the order of the labels
    rolled_up: Literal["sum", "max"] | None = None  # how labels without a column got scores

    def __repr__(self) -> str:
        listed = "" if self.n_stored is None else f", {self.n_stored:,} values listed"
        return f"<Table: {self.n_samples:,} samples x {len(self.labels):,} labels{listed}>"

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def n_stored(self) -> int | None:
        """Number of stored entries of a sparse matrix, None for a dense one."""
        return None if isinstance(self.values, np.ndarray) else int(self.values.nnz)

    def rows(self, rows: NDArray[np.intp]) -> Table:
        """Return some rows, in ascending order."""
        if rows.size == self.n_samples:
            return self
        names = None if self.samples is None else tuple(self.samples[i] for i in rows)
        return replace(self, values=self.values[rows], samples=names)


def align(
    data: Any,
    labels: Hierarchy | Sequence[str] | None,
    *,
    name: str,
    allow_leaves: bool = False,
) -> Table:
    """Convert a matrix or data frame to float64 with columns in the order of `labels`.

    Columns of arrays are matched by position, those of data frames by name. A frame may also have a
    column ``sample`` with the names of the samples. Without `labels` the data define them. Values
    of pairs (a frame ``sample,label,value``, a mapping of each sample to ``{label: value}``, or a
    list of such mappings) give a CSR matrix unless every pair has one. With `allow_leaves`, labels
    whose scores follow from those below them may lack a column, and the table then lacks it too.

    Raises
    ------
    DataError
        For a wrong shape or dtype, and for missing, unknown or repeated label columns.
    """
    hierarchy = labels if isinstance(labels, Hierarchy) else None
    names = labels.labels if isinstance(labels, Hierarchy) else labels
    data = getattr(data, "table", data)  # of `hierlpr.io.ReadTable`
    whole = hierarchy if allow_leaves else None
    if isinstance(data, Table):
        return data if names is None else _reorder(data, tuple(names), name, whole)
    if (pairs := frames.pair_values(data, labels, name=name)) is not None:
        matrix, columns, samples, backend = pairs
        return without_unlisted(Table(matrix, columns, samples, backend), whole)
    if not is_sparse(data) and (frame := as_frame(data, name)) is not None:
        return _frame_table(frame, names, name, hierarchy, whole)
    values = _sparse_values(data, name) if is_sparse(data) else check_real_array(data, name=name)
    if values.ndim != 2:
        hint = "Reshape your data; a single sample is one row, [[...]]."
        if values.ndim == 3 and values.shape[2] == 2:  # of a multi-output classifier
            hint = (
                "of a list of predict_proba results, take np.stack([p[:, 1] for p in x], axis=1)."
            )
        raise DataError(
            f"{name} must be a matrix of shape (n_samples, n_labels), got shape {values.shape}.\n"
            f"Hint: {hint}"
        )
    columns = tuple(names) if names is not None else tuple(map(str, range(values.shape[1])))
    if whole is not None and values.shape[1] == len(whole.leaves):
        columns = whole.leaves if len(whole.leaves) < whole.n_labels else columns
    if values.shape[1] != len(columns):
        raise DataError(
            f"{name} has {values.shape[1]:,} columns, but there are {len(columns):,} labels: "
            f"expected shape (n_samples, {len(columns)}).\n"
            "Hint: rows are samples; columns are labels, in the order of hierarchy.labels."
        )
    return Table(values, columns, columns_unnamed=True)


def truth_table(
    data: Any,
    labels: Hierarchy | Sequence[str] | None,
    scores: Table | None = None,
    *,
    name: str = "truth",
) -> tuple[Table, TruthForm]:
    """Return truth as a table of numbers, NaN where unknown, and the form it came in.

    It may be all that `align` takes; lists, sets, series or a mapping of the labels of each sample;
    one label or path of labels per sample; or a long frame with the columns ``sample``, ``label``
    and perhaps one of values. Labels and pairs give a CSR matrix. Samples of the `scores` that a
    long frame does not name have no label. Labels above others may lack a column, and get one.
    """
    if data is None:
        raise DataError("There is no truth: requires y to be passed, but the target y is None.")
    data = getattr(data, "table", data)  # of `hierlpr.io.ReadTable`
    samples = None if scores is None else scores.samples or tuple(map(str, range(scores.n_samples)))
    if not isinstance(data, Table) and not is_sparse(data):
        if (pairs := frames.label_pairs(data, labels, samples, name=name)) is not None:
            return Table(*pairs[:3], None if scores is None else scores.backend), "lists"
        lists = frames.sample_labels(data, labels)
        if lists is not None:
            rows, samples, backend = lists
            is_one_name = all(isinstance(row, str) for row in rows)
            matrix, names = frames.label_matrix(rows, labels, name=name)
            return Table(matrix, names, samples, backend), "one name" if is_one_name else "lists"
    table = align(data, labels, name=name, allow_leaves=isinstance(labels, Hierarchy))
    if isinstance(labels, Hierarchy) and len(table.labels) < labels.n_labels:
        return with_all_labels(table, labels), "leaves"
    return table, "matrix"


def with_all_labels(table: Table, hierarchy: Hierarchy) -> Table:
    """Return truth with the columns that it lacks: unknown above unknown labels, else 0."""
    if len(table.labels) == hierarchy.n_labels:
        return table
    values = sparse.csr_array(table.values)
    column = np.array([hierarchy.index(label) for label in table.labels], dtype=np.int32)
    shape = (table.n_samples, hierarchy.n_labels)
    values = sparse.csr_array((values.data, column[values.indices], values.indptr), shape=shape)
    values.sort_indices()
    positive, unknown = split_unknown(values)
    if unknown is not None:
        lacks_column = np.isin(np.arange(hierarchy.n_labels), column, invert=True)
        above = close_sparse(hierarchy, unknown).tocoo()
        used = lacks_column[above.col]
        parts = (np.ones(int(used.sum()), dtype=bool), (above.row[used], above.col[used]))
        unknown = (unknown + sparse.csr_array(parts, shape=shape)).tocsr()
        values = join_unknown(close_sparse(hierarchy, positive), unknown)
    return replace(table, values=values, labels=hierarchy.labels)


def without_unlisted(table: Table, hierarchy: Hierarchy | None) -> Table:
    """Return listed values as an array if all samples have the same labels, and these suffice.

    They suffice if they are all labels or, with a `hierarchy`, if the others follow from them.
    """
    csr: Any = table.values
    n_samples, n_labels = csr.shape
    used = np.flatnonzero(np.bincount(csr.indices, minlength=n_labels))
    labels = tuple(table.labels[i] for i in used.tolist())
    if csr.nnz != n_samples * used.size or not used.size:
        return table
    if used.size < n_labels and (hierarchy is None or labels_without_scores(hierarchy, labels)):
        return table
    csr.sort_indices()
    values = csr.data.reshape(n_samples, used.size)
    return replace(table, values=values, labels=labels, from_complete_list=True)


def roll_up(table: Table, hierarchy: Hierarchy, how: RollUp | None) -> Table:
    """Return scores of all labels from those of leaves, or of some labels; None: not allowed.

    Listed scores stay as they are with None, and with "auto" unless their rows add up to 1.
    """
    labels: tuple[str, ...] = table.labels
    values: Any = table.values
    if table.n_stored is None:
        if len(labels) == hierarchy.n_labels:
            return table
        if how is None:
            missing = [label for label in hierarchy.labels if label not in set(labels)]
            raise DataError(
                f"scores have no column for {len(missing):,} label(s): {quote_names(missing)}, but "
                "the model was fitted on scores of all labels.\n"
                "Hint: hierarchy.roll_up(scores) gives them, or fit on the scores of the leaves."
            )
        values, used = roll_up_columns(hierarchy, values, labels, how)
        return replace(table, values=values, labels=hierarchy.labels, rolled_up=used)
    column = np.array([hierarchy.index(label) for label in labels], dtype=np.int32)
    if len(labels) < hierarchy.n_labels:
        parts = values.data, column[values.indices], values.indptr
        values = sparse.csr_array(parts, shape=(table.n_samples, hierarchy.n_labels))
        values.sort_indices()
        table = replace(table, values=values, labels=hierarchy.labels)
    leaf = np.array([hierarchy.index(label) for label in hierarchy.leaves])
    is_leaf = np.isin(np.arange(hierarchy.n_labels), leaf)
    if how is None or leaf.size == hierarchy.n_labels or not is_leaf[values.indices].all():
        return table
    rolled, used = roll_up_columns(hierarchy, values[:, leaf], hierarchy.leaves, how)
    if how == "auto" and used == "max":  # as implied labels are learned
        return table
    return replace(table, values=rolled, rolled_up=used)


def dense(matrix: Any) -> NDArray[Any]:
    """Return a matrix as an array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def sum_by_label(matrix: Any) -> NDArray[np.int64]:
    """Count the samples of each label in a matrix of bool, dense or sparse."""
    return np.asarray(matrix.sum(axis=0), dtype=np.int64).ravel()


def match_rows(truth: Table, scores: Table, *, name: str = "scores", what: str = "truth") -> Table:
    """Sort the rows of the truth, or of `what` it is, in the order of the scores.

    Rows are matched by name where both tables have names: a column ``sample``, or the index of a
    pandas frame. Otherwise they are matched by position, with a warning if one of two pandas
    frames has an index that the other does not.
    """
    if truth.n_samples != scores.n_samples:
        verb = "has" if name == "X" else "have"
        raise DataError(f"{name} {verb} {scores.n_samples:,} samples, {what} {truth.n_samples:,}.")
    names, wanted = _names_or_count(truth), _names_or_count(scores)
    if names is None or wanted is None or names == wanted:
        return truth
    row = {sample: i for i, sample in enumerate(names)}
    missing = [sample for sample in wanted if sample not in row]
    if not missing and len(row) == truth.n_samples:
        rows = [row[sample] for sample in wanted]
        return replace(truth, values=truth.values[rows], samples=scores.samples)
    if truth.samples is None or scores.samples is None:
        warn(
            f"The indexes of {name} and {what} differ, so rows were matched by position. Give both "
            "the same index to match rows by name."
        )
        return truth
    why = f"the {what} lacks samples {quote_names(missing)}" if missing else "sample names repeat"
    raise DataError(
        f"{name} and {what} do not name the same samples: {why}.\n"
        "Hint: rows with names are matched by name; drop the names to match them by position."
    )


def match_weights(weight: Any, table: Table, *, name: str = "scores") -> Any:
    """Sort the sample weights of a series by its index, as `match_rows` does."""
    samples, backend = frames.row_names(weight, "sample_weight")
    if backend is None or np.shape(weight) != (table.n_samples,):
        return weight
    return match_values(np.asarray(weight), samples, backend, table, name, "sample_weight")


def match_values(
    values: NDArray[Any],
    samples: tuple[str, ...] | None,
    backend: str | None,
    table: Table,
    name: str,
    what: str,
) -> Any:
    """Sort one value per sample, from a container with these names, as `match_rows` does."""
    column: Any = Table(values[:, None], (what,), samples, backend)
    return match_rows(column, table, name=name, what=what).values[:, 0]


def refuse_truth_as_scores(
    scores: Matrix, truth: Any, *, name: str = "truth", scores_name: str = "scores"
) -> None:
    """Refuse scores that are the truth itself; scores without any 0, or only 0, say nothing."""
    if scores.shape != truth.shape:  # scores of the leaves alone
        return
    if isinstance(scores, np.ndarray) and isinstance(truth, np.ndarray):
        is_same = scores.any() and not scores.all() and np.array_equal(scores, truth)
    else:
        differ = sparse.csr_array(scores) != sparse.csr_array(truth)
        is_same = differ.nnz == 0 and truth.sum() > 0
    if is_same:
        raise DataError(
            f"{name} is the same as {scores_name}.\n"
            "Hint: the truth must come from another source than the scores."
        )


def _names_or_count(table: Table) -> tuple[str, ...] | None:
    """Return the names of the rows; of a pandas frame with a default index, their numbers."""
    if table.samples is None and table.backend in ("pandas", "modin", "cudf"):
        return tuple(map(str, range(table.n_samples)))
    return table.samples


def _sparse_values(data: Any, name: str) -> sparse.csr_array:
    if data.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold real numbers, got dtype {data.dtype}.")
    csr = sparse.csr_array(data, dtype=np.float64)
    try:
        csr.check_format()  # kernels trust the index arrays
    except ValueError as error:
        raise DataError(f"{name} is not a valid sparse matrix: {error}.") from None
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _frame_table(
    frame: Any,
    names: Sequence[str] | None,
    name: str,
    hierarchy: Hierarchy | None,
    whole: Hierarchy | None,
) -> Table:
    nested = next((column for column in frame.columns if isinstance(column, tuple)), None)
    if nested is not None:
        raise DataError(
            f"{name} has columns of several parts, such as {nested}.\n"
            f"Hint: keep the labels: {name}.columns = {name}.columns.get_level_values(-1)."
        )
    columns = [str(column) for column in frame.columns]
    if len(set(columns)) < len(columns):
        again = [column for column, n in Counter(columns).items() if n > 1]
        raise DataError(
            f"{name} has repeated columns: {quote_names(again)}.\n"
            "Hint: numbers and their text, such as 1 and '1', are the same label; rename one."
        )
    frame = frame.rename(dict(zip(frame.columns, columns, strict=True)))
    if SAMPLE_COLUMN in columns and (names is None or SAMPLE_COLUMN not in names):
        samples: tuple[str, ...] | None = tuple(map(str, frame[SAMPLE_COLUMN].to_list()))
        columns.remove(SAMPLE_COLUMN)
    else:
        samples = frames.index_names(frame)
    wanted = tuple(columns) if names is None else _wanted(columns, names, whole)
    _check_columns(columns, wanted, name, hierarchy, samples or (), whole)
    for column in wanted:
        dtype = frame[column].dtype
        # Object columns may hold True, False and None; columns of nulls have no type.
        if not (dtype.is_numeric() or dtype in (nw.Boolean, nw.Object, nw.Unknown)):
            hint = f"only a column named {SAMPLE_COLUMN!r} may hold text."
            raise DataError(
                f"{name}: column {column!r} holds {dtype}, not numbers.\n"
                f"Hint: {'write 1 for yes and 0 for no; ' if name == 'truth' else ''}{hint}"
            )
    values = check_real_array(frame.select(wanted).to_numpy(), name=name)
    return Table(values, wanted, samples, frame.implementation.value)


def _wanted(
    columns: Sequence[str], names: Sequence[str], whole: Hierarchy | None
) -> tuple[str, ...]:
    """Return the labels, without those that may lack a column and do."""
    if whole is not None:
        part = tuple(label for label in names if label in set(columns))
        if part and not labels_without_scores(whole, part):
            return part
    return tuple(names)


def _check_columns(
    columns: Sequence[str],
    labels: Sequence[str],
    name: str,
    hierarchy: Hierarchy | None = None,
    rows: Sequence[str] = (),
    whole: Hierarchy | None = None,
) -> None:
    """Raise if the columns are not the labels; those of `whole` may follow from others."""
    label_set, column_set = set(labels), set(columns)
    missing = [label for label in labels if label not in column_set]
    extra = [column for column in columns if column not in label_set]
    if label_set == column_set:
        return
    problems, hint = [], ""
    has_none = len(missing) == len(labels)
    if whole is not None and not has_none:
        missing = labels_without_scores(whole, label_set & column_set)
    if missing:
        problems.append(f"{len(missing):,} label(s) have no column: {quote_names(missing)}")
        hint = (
            "without the leaves that have none, labels above are rolled up: hierarchy.subset([x "
            f"for x in hierarchy.labels if x in {name}.columns or hierarchy.children(x)])."
        )
    if extra:
        problems.append(f"{len(extra):,} column(s) are not labels: {quote_names(extra)}")
        hint = f"choose the columns that are labels, {name}[list(hierarchy.labels)]."
    if has_none:
        hint = "name the columns as in the hierarchy (hierarchy.labels)"
        hint += ", or sample, label and score if a row is a pair." if len(columns) < 4 else "."
    likely = mismatch_hint(extra, missing, hierarchy, rows)
    hint = likely or (not has_none and missing and extra and nearest(extra[0], missing)) or hint
    raise DataError(f"{name} does not fit the hierarchy: {'; '.join(problems)}.\nHint: {hint}")


def mismatch_hint(
    extra: Sequence[str],
    missing: Sequence[str],
    hierarchy: Hierarchy | None,
    rows: Sequence[str] = (),
) -> str:
    """Return why columns are probably not the labels, as one sentence; empty if that is unclear.

    `extra` are columns that are not labels, `missing` labels without a column, `rows` row names.
    """
    if hierarchy is not None and missing:
        if rows and 2 * sum(row in hierarchy for row in rows) > len(rows):
            return "the table is transposed: samples must be rows, and labels columns."
        label_of = {name: label for label, name in hierarchy.names.items()}
        name_columns = [column for column in extra if column in label_of]
        if 2 * len(name_columns) > len(extra):
            return (
                "the columns are names of labels; use the labels instead, such as "
                f"{label_of[name_columns[0]]!r} for {name_columns[0]!r}."
            )
    if extra and not missing and frames.names_cluster(extra[0]):
        what = "seems to say which samples belong together"
        return f"column {extra[0]!r} {what}: leave it out here, and give it as clusters."
    is_index = len(extra) == 1 and extra[0].lower().startswith(("unnamed:", "index", "level_0"))
    if is_index and not missing:
        return f"column {extra[0]!r} seems to be an index that was saved with the table; remove it."
    return ""


def _reorder(
    table: Table, names: tuple[str, ...], name: str, whole: Hierarchy | None = None
) -> Table:
    if table.labels == names:
        return table
    names = _wanted(table.labels, names, whole)
    _check_columns(table.labels, names, name, whole=whole)
    place = {label: i for i, label in enumerate(table.labels)}
    values = table.values[:, [place[label] for label in names]]
    if not isinstance(values, np.ndarray):
        values.sort_indices()
    return replace(table, values=values, labels=names)
