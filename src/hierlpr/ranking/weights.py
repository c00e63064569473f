"""How much each label counts: weights of any size, in units that cannot overflow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Units(NamedTuple):
    """Weights as shares of the largest, `largest`, so that equal ratios give equal numbers.

    Whatever the weights, their products with LPRs then fit the grid of the LPRs themselves.
    `share` is empty if all labels count the same.
    """

    share: NDArray[np.float64]
    largest: float

    def given(self, values: Any) -> Any:
        """Bring numbers in these units back to those of the weights as given.

        Beyond the largest float they are infinite.
        """
        if self.largest == 1.0:  # saves a pass over all instances
            return values
        with np.errstate(over="ignore", under="ignore"):
            return values * np.float64(self.largest)


def in_units(weight: NDArray[np.float64] | None) -> Units:
    """Divide checked weights by the largest of them."""
    if weight is None:
        return Units(np.empty(0), 1.0)
    largest = float(weight.max(initial=0.0))
    if largest == 0.0:
        return Units(weight, 1.0)
    with np.errstate(under="ignore"):
        return Units(weight / largest, largest)
