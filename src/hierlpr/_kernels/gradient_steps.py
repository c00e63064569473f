"""What the training of networks does between its matrix products: parts of matrices, and Adam."""

import numpy as np

from hierlpr._kernels._arrays import Float32s, Float32s2D, Int64s
from hierlpr._kernels._jit import kernel


@kernel
def take_block(whole: Float32s2D, rows: Int64s, columns: Int64s, part: Float32s2D) -> None:
    """Copy some rows and columns of a matrix; an empty list means all."""
    for i in range(part.shape[0]):
        row = rows[i] if rows.size else i
        for j in range(part.shape[1]):
            part[i, j] = whole[row, columns[j] if columns.size else j]


@kernel
def add_block(whole: Float32s2D, rows: Int64s, columns: Int64s, part: Float32s2D) -> None:
    """Add to some rows and columns of a matrix; an empty list means all."""
    for i in range(part.shape[0]):
        row = rows[i] if rows.size else i
        for j in range(part.shape[1]):
            whole[row, columns[j] if columns.size else j] += part[i, j]


@kernel
def adam_step(
    parameters: Float32s,
    gradient: Float32s,
    mean: Float32s,
    square: Float32s,
    rate: float,
    widen: float,
    decay: float,
) -> None:
    """Move the parameters against the gradient, in place (Kingma and Ba 2015).

    `rate` is the learning rate over ``1 - 0.9**t``, `widen` is ``1 / (1 - 0.999**t)``: both means
    start at zero and are too small at first. The gradient is set to zero for the next step.
    """
    size, wide, pull = np.float32(rate), np.float32(widen), np.float32(decay)
    first, second = np.float32(0.9), np.float32(0.999)
    rest, rest_square = np.float32(0.1), np.float32(0.001)
    tiny, zero = np.float32(1e-8), np.float32(0.0)
    for i in range(parameters.size):
        g = gradient[i] + pull * parameters[i]
        m = first * mean[i] + rest * g
        v = second * square[i] + rest_square * (g * g)
        mean[i] = m
        square[i] = v
        gradient[i] = zero
        parameters[i] -= size * m / (np.sqrt(v * wide) + tiny)
