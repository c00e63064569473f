"""Features as users have them -> one dense float32 matrix without gaps.

Numbers are standardized; a missing one becomes the mean. Categories (text, categorical columns)
become indicators; a missing or new one has none. Wide sparse matrices are projected on their
leading singular vectors. What was left out is said in `notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError

Float = NDArray[np.float64]

MOST_DENSE = 4_000  # columns of a sparse matrix that are used as they are
COMPONENTS = 500  # singular vectors that stand for more
MOST_CATEGORIES = 100  # indicators a column; rarer categories have none
LIMIT = 10.0  # standard deviations; a stray value must not drown the others
NUMBERS = (Real, Decimal, np.bool_)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Features as read: each column numbers with NaN for gaps, or objects with None for gaps."""

    names: tuple[str, ...] | None
    values: list[NDArray[Any]]
    n_samples: int


class FeatureEncoder:
    """Learn how to bring features to numbers, and do it again for new samples.

    Attributes
    ----------
    n_features : int
        Columns of the user's data.
    names : tuple of str or None
        Their names, if they came in a data frame.
    notes : list of str
        What was left out, in words.
    """

    def __init__(self, *, rng: int = 0) -> None:
        self.rng = rng

    def fit(self, X: Any) -> Self:  # noqa: N803
        """Learn means, scales, categories and singular vectors."""
        from scipy import sparse

        self.notes: list[str] = []
        self.names: tuple[str, ...] | None = None
        self.is_sparse = bool(sparse.issparse(X))
        self.categories: dict[int, tuple[str, ...]] = {}
        self.basis: Float | None = None
        if self.is_sparse:
            matrix = _sparse_values(X)
            self.n_features = int(matrix.shape[1])
            values = self._fit_sparse(matrix)
        else:
            columns = _read(X)
            self.n_features, self.names = len(columns.values), columns.names
            self.categories = {
                i: self._categories(i, column)
                for i, column in enumerate(columns.values)
                if column.dtype == object
            }
            values = self._wide(columns)
        self._fit_scale(values)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Bring features to the matrix that members learn from."""
        from scipy import sparse

        if bool(sparse.issparse(X)) != self.is_sparse:
            kind = "a sparse matrix" if self.is_sparse else "dense"
            raise DataError(f"X was {kind} in fit; give the same kind again.")
        if self.is_sparse:
            matrix = _sparse_values(X)
            self._check_width(int(matrix.shape[1]))
            values = matrix.toarray() if self.basis is None else np.asarray(matrix @ self.basis)
        else:
            columns = _read(X)
            values = self._wide(self._same_columns(columns))
        z = (values[:, self.used] - self.mean) / self.scale
        np.nan_to_num(z, copy=False, nan=0.0)
        np.clip(z, -LIMIT, LIMIT, out=z)
        if z.shape[1] == 0:  # nothing to tell samples apart by: all are equal
            z = np.zeros((z.shape[0], 1))
        return np.ascontiguousarray(z, dtype=np.float32)

    # -- fitting ----------------------------------------------------------------------------

    def _fit_sparse(self, matrix: Any) -> Float:
        if matrix.shape[1] <= MOST_DENSE:
            return np.asarray(matrix.toarray())
        from sklearn.utils.extmath import randomized_svd

        k = min(COMPONENTS, matrix.shape[0] - 1)
        if k < 1:
            raise DataError("X has one sample; there is nothing to learn from it.")
        _, _, vt = randomized_svd(matrix, n_components=k, random_state=self.rng)
        self.basis = np.ascontiguousarray(vt.T)
        self.notes.append(f"{matrix.shape[1]:,} sparse features by {k} singular vectors")
        return np.asarray(matrix @ self.basis)

    def _fit_scale(self, values: Float) -> None:
        """Means and scales by column; columns that tell nothing are not used."""
        known = np.isfinite(values)
        count = known.sum(axis=0)
        # Scaling first keeps squares of huge numbers finite.
        top = np.max(np.abs(values), axis=0, where=known, initial=0.0)
        top = np.where(top > 0.0, top, 1.0)
        unit = np.where(known, values / top, 0.0)
        mean = unit.sum(axis=0) / np.maximum(count, 1)
        gap = np.where(known, unit - mean, 0.0)
        spread = np.sqrt((gap * gap).sum(axis=0) / np.maximum(count, 1))
        # A column of one value differs from its mean by rounding alone.
        self.used = np.flatnonzero(spread > 1e-12)
        if self.basis is not None:
            # Singular vectors keep their relative size: the last of them are mostly noise.
            whole = spread * top
            spread = np.full_like(spread, np.sqrt(np.mean(whole**2))) / top
        self.mean, self.scale = (mean * top)[self.used], (spread * top)[self.used]
        if (left := values.shape[1] - self.used.size) > 0:
            self.notes.append(f"{left:,} columns without two different values are not used")

    def _categories(self, column: int, values: NDArray[Any]) -> tuple[str, ...]:
        counts = Counter(value for value in values if value is not None)
        kept = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_CATEGORIES]
        if len(counts) > len(kept):
            name = _column_name(self.names, column)
            self.notes.append(
                f"column {name} has {len(counts):,} categories; the {len(kept)} most frequent are "
                "told apart"
            )
        return tuple(sorted(kept))

    # -- using ------------------------------------------------------------------------------

    def _wide(self, columns: _Columns) -> Float:
        """Numbers as they are, then indicators; NaN where a number is missing."""
        parts: list[Float] = []
        for i, column in enumerate(columns.values):
            kinds = self.categories.get(i)
            if kinds is None:
                parts.append(_as_numbers(column, _column_name(self.names, i))[:, None])
                continue
            place = {kind: k for k, kind in enumerate(kinds)}
            shown = np.zeros((columns.n_samples, len(kinds)))
            for row, value in enumerate(column):
                k = None if _is_gap(value) else place.get(_as_text(value))
                if k is not None:
                    shown[row, k] = 1.0
            parts.append(shown)
        return np.hstack(parts) if parts else np.zeros((columns.n_samples, 0))

    def _same_columns(self, columns: _Columns) -> _Columns:
        if self.names is not None and columns.names is not None:
            place = {name: i for i, name in enumerate(columns.names)}
            if missing := [name for name in self.names if name not in place]:
                raise DataError(f"X lacks column(s) it had in fit: {listed(missing)}.")
            if extra := sorted(set(place) - set(self.names)):
                raise DataError(f"X has column(s) it did not have in fit: {listed(extra)}.")
            values = [columns.values[place[name]] for name in self.names]
            return _Columns(self.names, values, columns.n_samples)
        self._check_width(len(columns.values))
        return columns

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features:
            # scikit-learn's words, which its checks ask for
            raise DataError(
                f"X has {n_features} features, but FeatureEncoder is expecting "
                f"{self.n_features} features as input."
            )


def _read(data: Any) -> _Columns:
    """Columns of a data frame, array or list of rows."""
    frame = _as_frame(data)
    if frame is not None:
        names = tuple(str(name) for name in frame.columns)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise DataError(f"X has more than one column named {listed(twice)}.")
        pairs = zip(names, frame.iter_columns(), strict=True)
        columns = _Columns(names, [_frame_column(c, name) for name, c in pairs], frame.shape[0])
    else:
        array = _as_array(data)
        if array.dtype.kind == "f":
            values = list(array.T)
        else:
            values = [_object_column(array[:, i], f"number {i}") for i in range(array.shape[1])]
        columns = _Columns(None, values, array.shape[0])
    _refuse_infinite(columns)
    if not columns.values:
        raise DataError(
            f"X has 0 feature(s) (shape=({columns.n_samples}, 0)) while a minimum of 1 is required."
        )
    return columns


def _as_frame(data: Any) -> Any:
    """Return a narwhals data frame, or None if `data` is something else."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals.stable.v1 as nw

    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        twice = [name for name, count in Counter(map(str, data.columns)).items() if count > 1]
        raise DataError(f"X has more than one column named {listed(twice)}.") from None
    if isinstance(frame, nw.LazyFrame):
        raise DataError("X is a lazy frame.\nHint: collect it first, X.collect().")
    return frame if isinstance(frame, nw.DataFrame) else None


def _as_array(data: Any) -> NDArray[Any]:
    """Return a matrix of float64 with NaN for gaps, or of objects and texts."""
    try:
        array = np.ma.asarray(data) if np.ma.isMaskedArray(data) else np.asarray(data)
    except ValueError:
        raise DataError(
            "X must be a matrix of shape (n_samples, n_features); its rows differ in length."
        ) from None
    if array.dtype.kind == "c":
        raise DataError("X: Complex data not supported; give real numbers.")
    if array.ndim == 1 and array.size and isinstance(array[0], str):
        raise DataError(
            "X is a list of texts, and features are numbers.\nHint: put a vectorizer before it, "
            "make_pipeline(TfidfVectorizer(), HierarchicalClassifier(...)), or give embeddings."
        )
    if array.ndim != 2:
        raise DataError(
            f"X must be a matrix of shape (n_samples, n_features), got shape {array.shape}.\n"
            "Hint: Reshape your data; a single sample is one row, [[...]]."
        )
    if array.dtype.kind not in "biufOUS":
        raise DataError(f"X must hold numbers or categories, got dtype {array.dtype}.")
    numeric = array.dtype.kind in "biuf"
    array = array.astype(np.float64 if numeric else object, copy=False)
    if np.ma.isMaskedArray(array):  # what is masked is missing
        gap: Any = np.nan if numeric else None
        return np.where(np.ma.getmaskarray(array), gap, array.data)
    return array


def _frame_column(series: Any, name: str) -> NDArray[Any]:
    import narwhals.stable.v1 as nw

    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if kind in (nw.Categorical, nw.Enum, nw.String, nw.Object, nw.Unknown):
        values = np.empty(len(series), dtype=object)
        values[:] = series.to_list()
        return _object_column(values, repr(name), named=kind in (nw.Categorical, nw.Enum))
    raise DataError(
        f"Column {name!r} of X is of type {kind}; only numbers and categories can be used.\n"
        "Hint: turn dates into numbers first, or drop the column."
    )


def _object_column(values: NDArray[Any], name: str, *, named: bool = False) -> NDArray[Any]:
    """Numbers if every entry is one, else categories as text; None, NaN and NA are gaps.

    `named`: the column says itself that its numbers are names of categories.
    """
    given = values.tolist()
    gap = [_is_gap(value) for value in given]
    entries = [value for value, missing in zip(given, gap, strict=True) if not missing]
    if not named and all(isinstance(value, NUMBERS) for value in entries):
        out = np.full(values.shape[0], np.nan)
        try:
            out[~np.array(gap, dtype=bool)] = np.array(entries, dtype=np.float64)
        except OverflowError:
            raise DataError(f"Column {name} of X holds a number too large for a float.") from None
        return out
    for value in entries:
        if not isinstance(value, (str, bytes, *NUMBERS)):
            raise DataError(
                f"Column {name} of X holds a {type(value).__name__}; an argument must be a string "
                "or a number."
            )
    text = np.empty(values.shape[0], dtype=object)
    for row, (value, missing) in enumerate(zip(given, gap, strict=True)):
        text[row] = None if missing else _as_text(value)
    return text


def _column_name(names: Sequence[str] | None, column: int) -> str:
    return repr(names[column]) if names else f"number {column}"


def _is_gap(value: Any) -> bool:
    """None, NaN, NaT, and pandas.NA, which says neither yes nor no when compared."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def _as_text(value: Any) -> str:
    """Name of a category; 1 and 1.0 are the same one."""
    is_whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value) if is_whole else value)


def _as_numbers(column: NDArray[Any], name: str) -> Float:
    if column.dtype != object:
        return np.asarray(column, dtype=np.float64)
    if all(value is None for value in column):
        return np.full(column.shape[0], np.nan)
    raise DataError(f"Column {name} of X held numbers in fit, and now holds text.")


def _refuse_infinite(columns: _Columns) -> None:
    for i, column in enumerate(columns.values):
        if column.dtype != object and np.isinf(column).any():
            name = _column_name(columns.names, i)
            row = int(np.flatnonzero(np.isinf(column))[0])
            raise DataError(
                f"X has an infinite value (inf) in column {name}, row {row}.\n"
                "Hint: NaN stands for a missing value; infinity is no measurement."
            )


def _sparse_values(matrix: Any) -> Any:
    from scipy import sparse

    if matrix.ndim != 2:
        raise DataError("X must be a matrix of shape (n_samples, n_features).")
    if matrix.dtype.kind not in "biuf":
        raise DataError("X: Complex data not supported; give real numbers.")
    out = sparse.csr_array(matrix, dtype=np.float64)
    if not np.isfinite(out.data).all():
        raise DataError(
            "X is sparse and holds NaN or infinity.\nHint: fill in missing values, or give a dense "
            "matrix, where NaN stands for a missing value."
        )
    if out.shape[1] == 0:
        raise DataError(f"X has 0 feature(s) (shape={out.shape}) while a minimum of 1 is required.")
    return out
