"""PooledInstances as users have them: truth, values and weights as arrays of one shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_real_array, check_sample_weight, is_sparse, quote_names
from hierlpr.data.frames import as_frame
from hierlpr.exceptions import DataError

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


class PooledInstances(NamedTuple):
    """Truth (False where unknown), where it is known, values, and weights unless all are equal."""

    truth: Bool
    is_known: Bool
    values: Float
    weight: Float | None

    @classmethod
    def of(cls, truth: Any, values: Any, name: str, sample_weight: Any = None) -> PooledInstances:
        """Take truth and values of one shape, and the weights of its rows.

        Columns of frames are matched by name. Without values, those are equal.
        """
        array = truth.toarray() if is_sparse(truth) else truth
        if type(array) is not np.ndarray or array.dtype.kind not in "biu":
            array = check_real_array(array, name="truth")
        is_known = ~np.isnan(array)
        status = check_status(np.where(is_known, array, 0), "truth")
        numbers = np.zeros(status.shape)
        if values is not None:
            numbers = check_real_array(_match_columns(truth, values, name), name=name)
        if numbers.shape != status.shape:
            raise DataError(
                f"{name} has shape {numbers.shape}, truth {status.shape}; they must agree."
            )
        weight = check_sample_weight(sample_weight, len(status))
        if weight is not None:
            by_row = weight.reshape(-1, *[1] * (status.ndim - 1))
            weight = np.broadcast_to(by_row, status.shape)
        return cls(status, is_known, numbers, weight)

    def some(self, at: Any) -> PooledInstances:
        """Return some of the instances."""
        return PooledInstances(*(None if x is None else x[at] for x in self))  # type: ignore[arg-type]


def check_status(values: NDArray[Any], name: str) -> Bool:
    """Return truth or calls as statuses; refuse what is neither 0 nor 1."""
    status: Bool = values != 0
    if not np.array_equal(status, values):
        raise DataError(f"{name} must hold only 0 and 1.")
    return status


def _match_columns(truth: Any, values: Any, name: str) -> Any:
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
