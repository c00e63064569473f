"""Instances as users have them: statuses, values and weights as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_real_array, check_sample_weight, is_sparse, quote_names
from hierlpr.data.frames import as_frame
from hierlpr.exceptions import DataError

Float = NDArray[np.float64]


def by_instance(sample_weight: Any, status: NDArray[np.bool_]) -> Float | None:
    """Return the weights of rows, broadcast to their instances; None if all are equal."""
    weight = check_sample_weight(sample_weight, len(status))
    if weight is None:
        return None
    return np.broadcast_to(weight.reshape(-1, *[1] * (status.ndim - 1)), status.shape)


def check_values(truth: Any, status: NDArray[np.bool_], values: Any, name: str) -> Float:
    """Return the numbers of the instances of the truth; columns of frames are matched by name."""
    out = check_real_array(match_columns(truth, values, name), name=name)
    if out.shape != status.shape:
        raise DataError(f"{name} has shape {out.shape}, truth {status.shape}; they must agree.")
    return out


def match_columns(truth: Any, values: Any, name: str) -> Any:
    """Return a data frame with its columns in the order of those of the truth."""
    frames = [None if is_sparse(x) else as_frame(x, name) for x in (truth, values)]
    if frames[0] is None or frames[1] is None or frames[0].columns == frames[1].columns:
        return values
    wanted, present = frames[0].columns, frames[1].columns
    if set(wanted) != set(present):
        odd = sorted(set(wanted) ^ set(present), key=str)
        raise DataError(
            f"{name} and truth must have the same columns; only one has {quote_names(odd)}.\n"
            "Hint: choose the same labels of both."
        )
    return frames[1].select(wanted).to_native()


def check_known(truth: Any) -> tuple[NDArray[np.bool_], Any]:
    """Return the status of instances, and an index of those that are known (... if all are)."""
    values = _as_array(truth)
    unknown = np.isnan(values)
    if not unknown.any():
        return check_status(values), ...
    return check_status(np.where(unknown, 0.0, values)), ~unknown


def check_status(truth: Any) -> NDArray[np.bool_]:
    """Return truth as statuses; refuse what is neither 0 nor 1."""
    values = _as_array(truth)
    status: NDArray[np.bool_] = values != 0
    if not np.array_equal(status, values):
        raise DataError("truth must hold only 0 and 1.")
    return status


def _as_array(truth: Any) -> NDArray[Any]:
    """Return truth or calls as an array; what a sparse matrix does not store is 0."""
    values = truth.toarray() if is_sparse(truth) else truth
    is_plain = type(values) is np.ndarray and values.dtype.kind in "biu"
    return values if is_plain else check_real_array(values, name="truth")
