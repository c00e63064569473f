"""Validation shared by public functions: return a clean value or raise a `DataError`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.exceptions import DataError

Matrix: TypeAlias = NDArray[np.float64] | sparse.csr_array

MOST_WEIGHT = 1e100  # its square must be finite too


def is_sparse(x: Any) -> bool:
    """Return whether `x` is a sparse matrix of SciPy."""
    return bool(sparse.issparse(x))


def quote_names(names: Sequence[Any], *, most: int = 5) -> str:
    """Quote the first names and count the rest: ``'a', 'b' and 7 more``."""
    quoted = ", ".join(repr(str(name)) for name in names[:most])
    return quoted if len(names) <= most else f"{quoted} and {len(names) - most:,} more"


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a question that suggests the most similar known name; empty if none is similar."""
    end, names = str(name), list(islice(known, 50_000))
    last = (x for x in names if x.endswith(end) and x.removesuffix(end)[-1:] in tuple("/|>;\\:"))
    near = list(islice(last, 1)) or get_close_matches(end, names, n=1)  # the end of a path first
    return f"did you mean {near[0]!r}?" if near else ""


def check_level(value: float, *, name: str) -> float:
    """Return a number strictly between 0 and 1."""
    try:
        level = float(value)
    except (TypeError, ValueError, OverflowError):
        text = f"{name} must be a number between 0 and 1, such as 0.9; got {value!r}."
        raise DataError(text, options=(name,)) from None
    if not 0.0 < level < 1.0:
        percent = f"\nHint: {level:g} % is {level / 100:g}." if 1.0 < level < 100.0 else ""
        if level == 1.0:
            percent = "\nHint: nothing can be promised without any error; 0.99 is 99 %."
        text = f"{name} must lie strictly between 0 and 1, got {value!r}.{percent}"
        raise DataError(text, options=(name,))
    return level


def check_fraction(value: float, *, name: str) -> float:
    """Return a number from 0 to 1, both included."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(f"{name} must be a number from 0 to 1, got {value!r}.")
    if not 0.0 <= value <= 1.0:
        raise DataError(f"{name} must be from 0 to 1, got {value!r}.")
    return float(value)


def check_count(value: Any, *, name: str, least: int = 1) -> int:
    """Return a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise DataError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_jobs(value: Any) -> int | None:
    """Return `n_jobs` as joblib defines it: None, or a whole number other than 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value == 0:
        raise DataError(f"n_jobs must be None or a whole number that is not 0, got {value!r}.")
    return int(value)


def make_rng(random_state: Any, *, name: str = "random_state") -> np.random.Generator:
    """Return the generator of a seed; a generator is returned as it is."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} must be a whole number of at least 0, a numpy Generator or None; got "
            f"{random_state!r}."
        ) from None


def check_choice(value: Any, choices: Sequence[str], *, name: str) -> str:
    """Return one of `choices`; the error message lists them."""
    if value not in choices:
        near = nearest(value, choices)
        raise DataError(
            f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}."
            + (f"\nHint: {near}" if near else "")
        )
    return str(value)


def check_real_array(values: Any, *, name: str) -> NDArray[np.float64]:
    """Return a C-contiguous float64 array from numbers; None, NA and masked entries become NaN."""
    if is_sparse(values):
        raise DataError(
            f"{name} is a sparse matrix, which cannot be used here.\n"
            f"Hint: give {name}.toarray() if entries that are not stored are 0."
        )
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise DataError(
            f"{name} must be a matrix of numbers, but its rows differ in length.\n"
            "Hint: lists of labels are truth, which comes after the scores."
        ) from None
    if array.dtype.kind == "O":
        try:
            # Only pandas has a missing value that does not convert to NaN.
            pandas = sys.modules.get("pandas")
            array = array if pandas is None else np.where(pandas.isna(array), np.nan, array)
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError(
                f"{name} must hold numbers, but some of its entries are not.\n"
                "Hint: look for text or missing values among them."
            ) from None
    if array.dtype.kind == "c":
        raise DataError(f"{name}: Complex data not supported; give real numbers.")
    if array.dtype.kind not in "biuf":
        hint = "\nHint: read files with hierlpr.io.read_scores." if isinstance(values, str) else ""
        raise DataError(f"{name} must hold real numbers, got dtype {array.dtype}.{hint}")
    return np.ascontiguousarray(array, dtype=np.float64)


def refuse_entries(
    bad: NDArray[np.bool_],
    matrix: Matrix,
    labels: Sequence[str],
    *,
    name: str,
    what: str,
    hint: str,
) -> None:
    """Raise for the first True of `bad`, a mask of the stored values, with sample and label."""
    count = int(np.count_nonzero(bad))
    if count == 0:
        return
    first = int(np.argmax(bad))
    if isinstance(matrix, np.ndarray):
        row, column = divmod(first, matrix.shape[1])
        value = matrix[row, column]
    else:
        row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
        column, value = int(matrix.indices[first]), matrix.data[first]
    raise DataError(
        f"{name} has {what}: {value} at sample {row}, label {labels[column]!r}"
        f" ({count:,} such {'entry' if count == 1 else 'entries'}).\nHint: {hint}"
    )


def stored_values(matrix: Matrix) -> NDArray[np.float64]:
    """Return the values of a dense matrix, or the stored values of a sparse one."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)


def check_finite(
    matrix: Matrix,
    labels: Sequence[str],
    *,
    name: str,
    hint: str = "fill in or drop missing values first.",
) -> None:
    """Refuse NaN and infinity, with the sample and label of the first."""
    values = stored_values(matrix)
    # A finite sum clears the usual case in one pass without a temporary mask.
    with np.errstate(over="ignore", invalid="ignore"):
        if values.size == 0 or np.isfinite(values.sum()):
            return
    what = "a value that is not finite (NaN or infinity)"
    refuse_entries(~np.isfinite(values), matrix, labels, name=name, what=what, hint=hint)


def check_unit_interval(matrix: Matrix, labels: Sequence[str], *, name: str) -> None:
    """Refuse NaN, infinity and values outside [0, 1], with the sample and label of the first."""
    values = stored_values(matrix)
    # NaN fails both comparisons, so this clears the usual case.
    if values.size == 0 or (values.min() >= 0.0 and values.max() <= 1.0):
        return
    check_finite(matrix, labels, name=name)
    hint = "LPRs are probabilities; turn raw scores into LPRs first (HierLPR.transform)."
    bad = (values < 0.0) | (values > 1.0)
    refuse_entries(bad, matrix, labels, name=name, what="a value outside [0, 1]", hint=hint)


def check_label_weights(weight: Any, labels: Sequence[str], *, name: str) -> NDArray[np.float64]:
    """Return one finite, non-negative number per label, from a sequence or a mapping."""
    if isinstance(weight, Mapping):
        known = set(labels)
        unknown = [label for label in weight if label not in known]
        missing = [label for label in labels if label not in weight]
        if unknown or missing:
            raise DataError(
                f"{name} must name every label once: "
                f"{len(missing):,} missing ({quote_names(missing)}), "
                f"{len(unknown):,} unknown ({quote_names(unknown)})."
            )
        weight = [weight[label] for label in labels]
    weights = check_real_array(weight, name=name)
    if weights.shape != (len(labels),):
        raise DataError(f"{name} has shape {weights.shape}, but there are {len(labels):,} labels.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise DataError(
            f"{name} of label {labels[bad[0]]!r} is {weights[bad[0]]}; it must be finite "
            "and not negative."
        )
    return weights


def check_sample_weight(
    weight: Any, n_samples: int, *, keep_equal: bool = False
) -> NDArray[np.float64] | None:
    """Return one non-negative weight per sample; None if none are given or all are equal.

    >>> check_sample_weight([2, 1, 0], 3), check_sample_weight([2, 2], 2)
    (array([2., 1., 0.]), None)
    """
    if weight is None:
        return None
    weights = check_real_array(weight, name="sample_weight")
    if weights.shape != (n_samples,):
        raise DataError(
            f"sample_weight has shape {weights.shape}, expected ({n_samples},): one per sample."
        )
    bad = np.flatnonzero(~((weights >= 0.0) & (weights <= MOST_WEIGHT)))
    rule = f"must lie from 0 to {MOST_WEIGHT:g}, and above 0 for at least one sample"
    if bad.size:
        raise DataError(
            f"sample_weight {rule}; got {weights[bad[0]]} for sample {bad[0]} "
            f"({bad.size:,} such).\n"
            "Hint: 0 leaves a sample out."
        )
    if not weights.any():
        raise DataError(f"sample_weight {rule}; all are zero.")
    if keep_equal:
        return weights
    if weights.max() < 1e-200:  # products would underflow, and only ratios matter
        weights = weights / weights.max()
    return None if np.all(weights == weights[0]) else weights


def effective_number(weight: NDArray[np.float64]) -> float:
    """Return the effective number of samples, (sum w)^2 / sum w^2 (Kish, 1965).

    >>> effective_number(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    share = weight / weight.max()
    return float(share.sum() ** 2 / (share * share).sum())
