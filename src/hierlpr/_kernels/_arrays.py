"""The types kernels take: their annotations are the signatures they are compiled for.

All arrays are C-contiguous. One that may hold either kind of index has dtype ``np.integer``; then
all such arrays of a call have the same.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bools",
    "Bools2",
    "Floats",
    "Floats2",
    "Index",
    "Ints",
    "Ints2",
    "Places",
    "Sides",
    "Words",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Index = NDArray[np.int32]
Ints = NDArray[np.int64]
Places = NDArray[np.integer]
Sides = NDArray[np.int8]
Words = NDArray[np.uint64]

Bools2 = Annotated[NDArray[np.bool_], 2]
Floats2 = Annotated[NDArray[np.float64], 2]
Ints2 = Annotated[NDArray[np.int64], 2]
