"""Names for the array types in the signatures of kernels; Numba infers the types by itself.

All arrays are C-contiguous unless a docstring says otherwise.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Float32s: TypeAlias = NDArray[np.float32]
Int8s: TypeAlias = NDArray[np.int8]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Integers: TypeAlias = NDArray[np.integer[Any]]  # int32 or int64
UInt64s: TypeAlias = NDArray[np.uint64]
Records: TypeAlias = NDArray[Any]  # a structured dtype

# Two and three dimensions; the same to a type checker.
Bools2D: TypeAlias = NDArray[np.bool_]
Floats2D: TypeAlias = NDArray[np.float64]
Float32s2D: TypeAlias = NDArray[np.float32]
Int8s2D: TypeAlias = NDArray[np.int8]
Int64s2D: TypeAlias = NDArray[np.int64]
Floats3D: TypeAlias = NDArray[np.float64]
