"""Data frames of any library, and labels of samples given as lists, sets or strings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import check_real_array, is_sparse, nearest, quote_names
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy

SAMPLE_COLUMN, LABEL_COLUMN = "sample", "label"  # of long frames
_PATH_SEPARATORS = ("/", "|", ";", ">")
_LIST_SEPARATORS = (";", "|", ",", "\t")  # between labels in one cell of a table

# Words for what samples have in common, and words that may stand beside them.
CLUSTER_WORDS = frozenset((
    "patient", "subject", "participant", "person", "individual", "donor", "animal", "family",
    "batch", "plate", "station", "deployment", "camera", "site", "recording", "recorder",
    "session", "burst", "location",
))  # fmt: skip
ID_WORDS = frozenset(("id", "ids", "no", "nr", "number", "code", "name", "key", "uuid", ""))

# Labels of each sample, sample names, and the library of a series.
SampleLabels = tuple[list[Any], tuple[str, ...] | None, str | None]


def as_frame(data: Any, name: str, *, allow_series: bool = False) -> Any:
    """Return a narwhals data frame (or series), or None if `data` is something else."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    try:
        frame = nw.from_native(data, pass_through=True, allow_series=allow_series or None)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"{name} has repeated columns. {error}") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, nw.DataFrame | nw.Series) else None


def index_names(frame: Any) -> tuple[str, ...] | None:
    """Return the index of a narwhals frame or series as names; None for a default index."""
    index = nw.maybe_get_index(frame)
    if index is None:
        return None
    names = tuple(str(name) for name in index)
    return None if names == tuple(map(str, range(len(names)))) else names


def row_names(data: Any, name: str) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the index of a data frame or series as names, and its library; None for other data."""
    frame = as_frame(data, name, allow_series=True)
    return (None, None) if frame is None else (index_names(frame), frame.implementation.value)


def names_cluster(column: str) -> bool:
    """Return whether a column is named like a cluster id, such as ``patient_id``."""
    words = re.split(r"[^0-9a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).casefold())
    rest = [word for word in words if word not in ID_WORDS and not word.isdigit()]
    return len(rest) == 1 and rest[0] in CLUSTER_WORDS


def new_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return a data frame of the library `backend`; by default pandas if installed, else Arrow."""
    library: Any = backend or ("pandas" if find_spec("pandas") else "pyarrow")
    return nw.from_dict(columns, backend=library).to_native()


def in_container_of(
    data: Any, values: Any, labels: Sequence[str], *, samples_column: bool = True
) -> Any:
    """Return a matrix of `values` (samples x labels) in the container of `data`.

    A data frame gives a frame of the same library with the labels as columns, the same index and,
    with `samples_column`, the column ``sample``; a long frame gives one row per sample. Anything
    else, and a sparse matrix of values, gives the matrix.
    """
    frame = None if isinstance(data, np.ndarray) else as_frame(data, "data")
    if frame is None or is_sparse(values):
        return values
    if samples_column and long_columns(frame, labels):
        samples = list(dict.fromkeys(map(str, frame[SAMPLE_COLUMN].to_list())))
        frame = nw.from_dict({SAMPLE_COLUMN: samples}, backend=frame.implementation)
    is_named = samples_column and SAMPLE_COLUMN in frame.columns and SAMPLE_COLUMN not in labels
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        out = type(native)(values, index=native.index, columns=list(labels))
        if is_named:
            out.insert(0, SAMPLE_COLUMN, native[SAMPLE_COLUMN])
        return out
    columns: dict[str, Any] = {SAMPLE_COLUMN: frame[SAMPLE_COLUMN]} if is_named else {}
    columns |= {label: values[:, i] for i, label in enumerate(labels)}
    return nw.from_dict(columns, backend=frame.implementation).to_native()


# -- lists of labels ----------------------------------------------------------------------------


def sample_labels(data: Any, labels: Hierarchy | Sequence[str] | None) -> SampleLabels | None:
    """Return the labels of each sample, and the names of the samples; None for other data.

    Accepts lists, tuples, series and object arrays of strings, lists, tuples or sets; arrays of
    strings with one row per sample; mappings of sample to labels; and whole numbers, one per
    sample, whose texts are labels.
    """
    samples = backend = None
    if isinstance(data, Mapping):
        return list(data.values()), tuple(map(str, data)), None
    if hasattr(data, "to_pylist") and not hasattr(data, "columns"):  # an Arrow array
        data = data.to_pylist()
    if isinstance(data, np.ndarray):
        is_column = data.ndim == 1 or data.shape[1:] == (1,)
        if data.ndim not in (1, 2) or data.dtype.kind not in ("OUTiu" if is_column else "OUT"):
            return None
        data = (data.reshape(-1) if data.dtype.kind in "iu" else data).tolist()
    elif not isinstance(data, list | tuple):
        series = as_frame(data, "truth", allow_series=True)
        if not isinstance(series, nw.Series):
            return None
        samples, backend = row_names(data, "truth")
        is_null = series.is_null().to_list()
        data = [None if null else x for x, null in zip(series.to_list(), is_null, strict=True)]
    rows = list(data)
    if rows and all(type(row) is int for row in rows):
        names = set(labels.labels if isinstance(labels, Hierarchy) else labels or ())
        texts = [str(row) for row in rows]  # of a single label, 0 and 1 are its truth
        return (texts, samples, backend) if len(names) > 1 and set(texts) <= names else None
    # The first row that is not empty decides; without one, all rows must be collections.
    first = next((row for row in rows if not _is_empty(row)), None)
    if first is None:
        is_labels = bool(rows) and all(isinstance(row, list | tuple | set) for row in rows)
    elif isinstance(first, np.ndarray):
        is_labels = first.dtype.kind in "OUT"
    elif isinstance(first, list | tuple):
        is_labels = any(isinstance(item, str) for item in first)
    else:
        is_labels = isinstance(first, str | set | frozenset)
    return (rows, samples, backend) if is_labels else None


def _is_empty(row: Any) -> bool:
    is_collection = isinstance(row, list | tuple | set | frozenset)
    return row is None or isinstance(row, float) or (is_collection and not row)


def label_matrix(
    rows: list[Any], labels: Hierarchy | Sequence[str] | None, *, name: str
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Return a matrix with 1 where a sample has a label, and the labels of its columns.

    A path such as ``A/B`` names all its labels. Without `labels`, the columns are the labels that
    occur, sorted.
    """
    texts = [_labels_of(row, i, name) for i, row in enumerate(rows)]
    if isinstance(labels, Hierarchy):
        texts = [[label for text in row for label in path_labels(text, labels)] for row in texts]
    sample = np.repeat(np.arange(len(rows)), [len(row) for row in texts])
    flat = [text for row in texts for text in row]
    return _pair_matrix(sample, flat, np.ones(len(flat)), len(rows), labels, name)


def _columns_of(
    texts: Sequence[str],
    sample: Sequence[Any],
    labels: Hierarchy | Sequence[str] | None,
    name: str,
) -> tuple[tuple[str, ...], list[int]]:
    """Return the labels, by default those that occur, and the place of each text among them."""
    names = labels.labels if isinstance(labels, Hierarchy) else labels
    names = tuple(sorted(set(texts)) if names is None else names)
    column = {label: i for i, label in enumerate(names)}
    unknown = [(text, i) for text, i in zip(texts, sample, strict=True) if text not in column]
    if unknown:
        text, first = unknown[0]
        distinct = list(dict(unknown))
        raise DataError(
            f"{name} names {len(distinct):,} label(s) that the hierarchy does not have: "
            f"{quote_names(distinct)}; the first in sample {first}.\n"
            f"Hint: {_unknown_label_hint(text, column)}"
        )
    return names, [column[text] for text in texts]


def path_labels(text: str, hierarchy: Hierarchy) -> list[str]:
    """Return the labels of a path from parent to child; anything else is one label."""
    if text in hierarchy:
        return [text]
    for separator in _PATH_SEPARATORS:
        parts = [part.strip() for part in text.split(separator)]
        are_labels = len(parts) > 1 and all(part in hierarchy for part in parts)
        if are_labels and all(x in hierarchy.parents(part) for x, part in pairwise(parts)):
            return parts
    return [text]


def _labels_of(row: Any, sample: int, name: str) -> list[str]:
    """Return the labels of one sample; empty values, which fill rows of a table, are skipped."""
    if isinstance(row, str):
        row = [row]
    elif not isinstance(row, list | tuple | set | frozenset | np.ndarray):
        raise DataError(
            f"{name}: sample {sample} has {row!r}, where the labels of a sample are expected.\n"
            "Hint: give a list of labels for each sample; an empty list if it has none."
        )
    labels = [x for x in row if not (x is None or x == "" or (isinstance(x, float) and x != x))]
    for item in labels:
        if not isinstance(item, str):
            raise DataError(
                f"{name}: sample {sample} has the label {item!r} ({type(item).__name__}), but "
                "labels are strings.\nHint: convert them with str()."
            )
    return [str(item) for item in labels]


def _unknown_label_hint(text: str, labels: Mapping[str, int]) -> str:
    for sep in _LIST_SEPARATORS:
        parts = [part for part in text.split(sep) if part]
        if len(parts) > 1 and all(part.strip() in labels for part in parts):
            shown = sep if all(part.strip() == part for part in parts) else f"{sep} "
            return f"{text!r} is several labels: give lists, [x.split({shown!r}) for x in truth]."
    return nearest(text, labels) or "the labels are those of hierarchy.labels."


# -- pairs of samples and labels ------------------------------------------------------------------

# A CSR matrix with the value of each pair, its labels, its samples, and the library of a frame.
PairValues = tuple[sparse.csr_array, tuple[str, ...], tuple[str, ...] | None, str | None]


def long_columns(frame: Any, labels: Hierarchy | Sequence[str] | None) -> list[str] | None:
    """Return the column of values of a long frame, if it has one; None if the frame is wide."""
    names = labels.labels if isinstance(labels, Hierarchy) else labels
    if not isinstance(frame, nw.DataFrame) or (names is not None and LABEL_COLUMN in names):
        return None
    others = [x for x in frame.columns if x not in (SAMPLE_COLUMN, LABEL_COLUMN)]
    return others if len(frame.columns) == len(others) + 2 and len(others) < 2 else None


def label_pairs(
    data: Any,
    labels: Hierarchy | Sequence[str] | None,
    samples: Sequence[str] | None,
    *,
    name: str,
) -> PairValues | None:
    """Read truth from a frame with the columns ``sample`` and ``label``, and perhaps a value.

    Returns None for other data. The samples are those wanted, by default those of the frame.
    """
    frame = None if is_sparse(data) else as_frame(data, name)
    if long_columns(frame, labels) is None:
        return None
    pairs = _pair_values(frame, labels, samples, name)
    n_samples, n_silent = len(pairs[2] or ()), int((np.diff(pairs[0].indptr) == 0).sum())
    if n_silent:
        warn(
            f"{n_silent:,} of {n_samples:,} samples are not in the {name}; they are taken to have "
            "no label."
        )
    return pairs


def pair_values(
    data: Any, labels: Hierarchy | Sequence[str] | None, *, name: str
) -> PairValues | None:
    """Read scores from a frame ``sample,label,score`` or mappings of labels to scores, else None.

    The mappings are a list, one for each sample, or the values of a mapping of samples. Lists of
    ``{"label": ..., "score": ...}``, as Hugging Face pipelines give them, are mappings too.
    """
    names, rows = None, data
    if isinstance(data, Mapping):
        names, rows = tuple(map(str, data)), list(data.values())
    if isinstance(rows, list | tuple):
        rows = [_scores_of(row) for row in rows]
        if not rows or not all(isinstance(row, Mapping) for row in rows):
            return None
        texts = [str(label) for row in rows for label in row]
        sample = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        value = check_real_array([x for row in rows for x in row.values()], name=name)
        return *_pair_matrix(sample, texts, value, len(rows), labels, name), names, None
    frame = None if is_sparse(data) else as_frame(data, name)
    return _pair_values(frame, labels, None, name) if long_columns(frame, labels) else None


def _scores_of(row: Any) -> Any:
    """Return ``{label: score}`` for the items ``{"label": ..., "score": ...}`` of pipelines."""
    items = row if isinstance(row, list | tuple) else [row]
    are_pairs = all(isinstance(x, Mapping) and {"label", "score"} <= x.keys() for x in items)
    return {x["label"]: x["score"] for x in items} if items and are_pairs else row


def _pair_values(
    frame: Any,
    labels: Hierarchy | Sequence[str] | None,
    samples: Sequence[str] | None,
    name: str,
) -> PairValues:
    """Read a long frame; without a column of values they are 1."""
    columns = (SAMPLE_COLUMN, LABEL_COLUMN)
    sample_names, texts = (list(map(str, frame[x].to_list())) for x in columns)
    value = np.ones(len(sample_names))
    for column in long_columns(frame, labels) or ():
        value = check_real_array(frame[column].to_numpy(), name=f"{name}: {column!r}")
    row = {x: i for i, x in enumerate(dict.fromkeys(sample_names) if samples is None else samples)}
    unknown = list(dict.fromkeys(x for x in sample_names if x not in row))
    if unknown:
        raise DataError(
            f"{name} names {len(unknown):,} sample(s) without scores: {quote_names(unknown)}.\n"
            "Hint: samples are matched by name: a column 'sample', the index of a pandas frame, or "
            "the row number; leave out the pairs of other samples."
        )
    sample = np.array([row[x] for x in sample_names], dtype=np.int64)
    matrix, names = _pair_matrix(sample, texts, value, len(row), labels, name, list(row))
    return matrix, names, tuple(row), None if samples is not None else frame.implementation.value


def _pair_matrix(
    sample: NDArray[Any],
    texts: Sequence[str],
    value: Any,
    n_samples: int,
    labels: Hierarchy | Sequence[str] | None,
    name: str,
    samples: Sequence[Any] | None = None,
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Return a CSR matrix with the value of each pair, and its labels."""
    names, at = _columns_of(
        texts, [samples[i] for i in sample] if samples else sample.tolist(), labels, name
    )
    key, first, place = np.unique(
        sample * len(names) + np.array(at, np.int64), return_index=True, return_inverse=True
    )
    is_other = (value != value[first][place]) & ~np.isnan(value)
    if is_other.any():
        again = int(np.argmax(is_other))
        who = samples[sample[again]] if samples else str(sample[again])
        raise DataError(f"{name} gives two values for sample {who!r}, {texts[again]!r}.")
    number, column = np.divmod(key, max(1, len(names)))
    ptr = np.cumsum(np.bincount(number + 1, minlength=n_samples + 1))
    return sparse.csr_array((value[first], column, ptr), shape=(n_samples, len(names))), names
