"""Features as users have them -> one dense float32 matrix without gaps.

Numbers are standardized, and a missing one becomes the mean. Categories (text or categorical
columns) become indicators. Texts, a list or a column of a table, are vectorized by tf-idf. Wide
sparse matrices are projected on their leading singular vectors. `notes` says what was left out.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, Self

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_array

from hierlpr._utils.checks import quote_names
from hierlpr.data.frames import as_frame
from hierlpr.exceptions import DataError

MAX_DENSE = 4_000  # columns of a sparse matrix that are used as they are
COMPONENTS = 500  # singular vectors that replace more columns than that
MAX_CATEGORIES = 100  # indicators per column; rarer categories share one
LIMIT = 10.0  # standard deviations; a stray value must not dominate the others
NUMBERS = (Real, Decimal, np.bool_)
Float = NDArray[np.float64]
Column = NDArray[Any]  # float64 with NaN for gaps, or objects: texts, None for gaps


class FeatureEncoder:
    """Learn how to turn features into numbers, and apply it to new samples.

    `n_features` counts the columns of the user's data (1 for texts), `names` are their names if
    they came in a data frame, and `notes` says what was left out.
    """

    def fit(self, X: Any) -> Self:
        """Learn vocabulary, categories, singular vectors, means and scales."""
        self.notes: list[str] = []
        self.names: tuple[str, ...] | None = None
        self.svd: TruncatedSVD | None = None
        self.kind = _kind(X)
        if self.kind == "dense":
            columns, self.names = _read_columns(X)
            self.n_features = len(columns)
            self.texts = {
                i: FeatureEncoder().fit(_without_gaps(column))
                for i, column in enumerate(columns)
                if _holds_texts(column)
            }
            self.notes += [note for encoder in self.texts.values() for note in encoder.notes]
            self._fit_categories(columns)
        else:
            self.vectorizer = TfidfVectorizer(sublinear_tf=True)
            try:
                if self.kind == "texts":
                    self.vectorizer.fit(_without_gaps(X))
            except ValueError as error:
                raise DataError(f"X: {error}") from None
            self.n_features = 1 if self.kind == "texts" else int(X.shape[1])
            self._fit_svd(self._sparse_matrix(X))
        self._fit_scale(self._numbers(X))
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the matrix that members of the first stage learn from."""
        if (kind := _kind(X)) != self.kind:
            raise DataError(f"X was {self.kind} in fit, and now is {kind}.")
        z = (self._numbers(X)[:, self.used] - self.mean) / self.scale
        np.nan_to_num(z, copy=False, nan=0.0)
        np.clip(z, -LIMIT, LIMIT, out=z)
        if self.kind == "dense" and self.texts:
            columns = self._same_columns(*_read_columns(X))
            texts = (self.texts[i].transform(_without_gaps(columns[i])) for i in self.texts)
            z = np.hstack([z, *texts])
        if z.shape[1] == 0:  # no feature distinguishes the samples
            z = np.zeros((z.shape[0], 1))
        return np.ascontiguousarray(z, dtype=np.float32)

    def _numbers(self, X: Any) -> Float:
        """Return all features as numbers, NaN for gaps: numeric columns, then indicators."""
        if self.kind == "dense":
            columns = self._same_columns(*_read_columns(X))
            others = {*self.categories, *self.texts}
            values = [column for i, column in enumerate(columns) if i not in others]
            parts = [np.stack(values, axis=1)] if values else [np.empty((columns[0].size, 0))]
            if self.categories:
                texts = np.stack([_as_texts(columns[i]) for i in self.categories], axis=1)
                parts.append(self.indicators.transform(texts))
            return np.hstack(parts)
        matrix = self._sparse_matrix(X)
        dense = matrix.toarray() if self.svd is None else self.svd.transform(matrix)
        return np.asarray(dense, dtype=np.float64)

    def _sparse_matrix(self, X: Any) -> Any:
        if self.kind == "texts":
            return self.vectorizer.transform(_without_gaps(X))
        self._check_width(int(X.shape[1]))
        return _checked(X, accept_sparse="csr", dtype=np.float64)

    def _fit_svd(self, matrix: Any) -> None:
        """Learn the singular vectors of a matrix with many columns."""
        if matrix.shape[1] <= MAX_DENSE:
            return
        k = min(COMPONENTS, matrix.shape[0] - 1)
        if k < 1:
            raise DataError("X has one sample; there is nothing to learn from it.")
        self.svd = TruncatedSVD(k, n_iter=4, random_state=0).fit(matrix)
        self.notes.append(f"{matrix.shape[1]:,} sparse features by {k} singular vectors")

    def _fit_categories(self, columns: list[Column]) -> None:
        is_object = [column.dtype == object for column in columns]
        self.categories = [i for i in np.flatnonzero(is_object).tolist() if i not in self.texts]
        if not self.categories:
            return
        self.indicators = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=MAX_CATEGORIES,
            sparse_output=False,
        )
        self.indicators.fit(np.stack([columns[i] for i in self.categories], axis=1))
        rare = self.indicators.infrequent_categories_
        for i, names in zip(self.categories, rare, strict=True):
            if names is not None:
                column = _column_name(self.names, i)
                self.notes.append(f"column {column}: {len(names):,} rare categories as one")

    def _same_columns(self, columns: list[Column], names: tuple[str, ...] | None) -> list[Column]:
        """Return the columns in the order of `fit`, by name where both have names."""
        if self.names is not None and names is not None:
            if missing := [name for name in self.names if name not in names]:
                raise DataError(f"X lacks column(s) it had in fit: {quote_names(missing)}.")
            if extra := sorted(set(names) - set(self.names)):
                raise DataError(f"X has column(s) it did not have in fit: {quote_names(extra)}.")
            columns = [columns[names.index(name)] for name in self.names]
        self._check_width(len(columns))
        for i, column in enumerate(columns):
            if column.dtype == object and i not in self.categories and i not in self.texts:
                name = _column_name(self.names, i)
                raise DataError(f"Column {name} of X held numbers in fit, and now holds text.")
        return columns

    def _fit_scale(self, values: Float) -> None:
        """Learn mean and scale per column; constant columns are not used."""
        is_known = np.isfinite(values)
        count = np.maximum(is_known.sum(axis=0), 1)
        # Scaling first keeps squares of huge numbers finite.
        top = np.max(np.abs(values), axis=0, where=is_known, initial=0.0)
        top = np.where(top > 0.0, top, 1.0)
        unit = np.where(is_known, values / top, 0.0)
        mean = unit.sum(axis=0) / count
        spread = np.sqrt(np.square(np.where(is_known, unit - mean, 0.0)).sum(axis=0) / count)
        self.used = np.flatnonzero(spread > 1e-12)  # constant columns differ by rounding alone
        if self.svd is not None:
            # Singular vectors keep their relative size: the last of them are mostly noise.
            spread = np.full_like(spread, np.sqrt(np.mean((spread * top) ** 2))) / top
        self.mean, self.scale = (mean * top)[self.used], (spread * top)[self.used]
        if (constant := values.shape[1] - self.used.size) > 0:
            self.notes.append(f"{constant:,} constant columns are not used")

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features:  # in the words of scikit-learn
            raise DataError(
                f"X has {n_features} features, but FirstStage is expecting {self.n_features} "
                "features as input."
            )


def _kind(data: Any) -> Literal["texts", "sparse", "dense"]:
    """Return whether features are a sequence of texts, a sparse matrix or a dense table.

    >>> _kind(["a text", "another"]), _kind([["red", "blue"]])
    ('texts', 'dense')
    """
    if sparse.issparse(data):
        return "sparse"
    is_list = isinstance(data, list | tuple) or getattr(data, "ndim", None) == 1
    if not is_list:
        is_list = isinstance(nw.from_native(data, series_only=True, pass_through=True), nw.Series)
    texts = [x for x in data if not _is_gap(x)] if is_list else []
    return "texts" if texts and all(isinstance(text, str) for text in texts) else "dense"


def _without_gaps(texts: Any) -> list[str]:
    """Return texts as a list, an empty text for a missing one."""
    return ["" if _is_gap(text) else str(text) for text in texts]


def _holds_texts(column: Column) -> bool:
    """Whether most values of a column differ and have at least three words: no categories."""
    if column.dtype != object:
        return False
    texts = {text for text in _without_gaps(column) if len(text.split(maxsplit=2)) == 3}
    return 2 * len(texts) > column.size


def _read_columns(data: Any) -> tuple[list[Column], tuple[str, ...] | None]:
    """Return the columns of a table, and their names if it is a data frame."""
    frame = as_frame(data, "X")
    names: tuple[str, ...] | None = None
    if frame is not None:
        names = tuple(str(name) for name in frame.columns)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise DataError(f"X has more than one column named {quote_names(twice)}.")
        columns = [_frame_column(column) for column in frame.iter_columns()]
    else:
        columns = list(_checked(data, dtype=None, ensure_all_finite=False).T)
    if not columns:
        raise DataError(f"X has 0 feature(s) (shape=({len(data)}, 0)) while at least 1 is needed.")
    return [_column(x, _column_name(names, i)) for i, x in enumerate(columns)], names


def _frame_column(series: Any) -> Column:
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return _as_texts(values) if kind in (nw.Categorical, nw.Enum) else values


def _column(values: NDArray[Any], name: str) -> Column:
    """Return float64 with NaN for gaps if all entries are numbers, else texts, None for gaps."""
    if values.dtype.kind not in "biufOUS":
        raise DataError(f"X must hold numbers or categories, got dtype {values.dtype}.")
    if values.dtype.kind in "OUS":
        entries = [None if _is_gap(value) else value for value in values]
        for value in entries:
            if value is not None and not isinstance(value, (str, bytes, *NUMBERS)):
                raise DataError(
                    f"Column {name} of X holds a {type(value).__name__}; an argument must be a "
                    "string or a number.\n"
                    "Hint: convert dates to numbers first, or drop the column."
                )
        if any(isinstance(value, str | bytes) for value in entries):
            return _as_texts(values)
        values = np.array(entries, dtype=object)
    out = values.astype(np.float64)
    if np.isinf(out).any():
        row = int(np.flatnonzero(np.isinf(out))[0])
        raise DataError(
            f"X has an infinite value (inf) in column {name}, row {row}.\n"
            "Hint: use NaN for a missing value."
        )
    return out


def _as_texts(values: NDArray[Any]) -> Column:
    """Return names of categories, None for gaps; 1 and 1.0 are the same category."""
    texts = np.full(values.shape[0], None, dtype=object)
    for row, value in enumerate(values):
        if not _is_gap(value):
            is_whole = isinstance(value, float) and value.is_integer()
            texts[row] = str(int(value) if is_whole else value)
    return texts


def _is_gap(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA, which cannot be compared."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def _column_name(names: tuple[str, ...] | None, column: int) -> str:
    return repr(names[column]) if names else f"number {column}"


def _checked(matrix: Any, **options: Any) -> Any:
    """Apply scikit-learn's `check_array`."""
    try:
        return check_array(matrix, ensure_min_samples=0, **options)
    except ValueError as error:
        hint = "Hint: fill in missing values; only in a dense matrix NaN is a missing value."
        raise DataError(
            f"X: {error}\n{hint}" if sparse.issparse(matrix) else f"X: {error}"
        ) from None
