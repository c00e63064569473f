"""Exponentials and logarithms that a compiler can put in the lanes of a vector.

Loops that call the C library wait for it one number at a time; these are plain arithmetic, two to
four times as fast in a loop of their own, and the same on every machine. Errors are at most two
units in the last place. Polynomials interpolate at Chebyshev's points, to less than rounding.
"""

import numpy as np

from hierlpr._kernels._jit import inner

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # times a whole number below 2**20, free of rounding
LN2_LOW = 1.90821492927058770002e-10
MOST = 700.0  # its exponential and the inverse of that are still normal numbers

ROUNDER = 1.5 * 2.0**52  # added to a number, it leaves the nearest integer in the last bits
ROUNDER_BITS = 0x4338000000000000
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@inner
def exponential(x: float) -> float:
    """Return e to the `x`, which is at most 700 and is taken as -700 if it is less."""
    x = x if x > -MOST else -MOST
    rounded = x * LOG2_E + ROUNDER
    power = np.float64(rounded).view(np.int64) - ROUNDER_BITS
    whole = rounded - ROUNDER
    r = (x - whole * LN2_HIGH) - whole * LN2_LOW  # |r| <= log(2) / 2
    r2 = r * r
    low = (0.5 + 0.16666666666666669 * r) + (0.041666666666624164 + 0.008333333333330065 * r) * r2
    high = (0.0013888888917197209 + 0.00019841269863040922 * r) + (
        2.4801521321606647e-05 + 2.7557268479724004e-06 * r
    ) * r2
    high += (2.7620076242527254e-07 + 2.510037611136142e-08 * r) * (r2 * r2)
    scale = np.int64((power + 1023) << 52).view(np.float64)
    return (1.0 + (r + r2 * (low + (r2 * r2) * high))) * scale


@inner
def log_one_plus(x: float) -> float:
    """Return ``log(1 + x)`` for `x` from 0 to 1."""
    s = x / (2.0 + x)  # log(1 + x) = 2 atanh(s)
    z = s * s
    z2 = z * z
    low = (0.6666666666666666 + 0.40000000000014585 * z) + (
        0.2857142856710876 + 0.22222222717427864 * z
    ) * z2
    high = (0.18181789436132859 + 0.15385570064958623 * z) + (
        0.13314144209654935 + 0.12001072809590713 * z
    ) * z2
    high += (0.08800738486144674 + 0.1616404561194353 * z) * (z2 * z2)
    return 2.0 * s + s * z * (low + (z2 * z2) * high)


@inner
def logarithm(x: float) -> float:
    """Return the logarithm of a positive normal number."""
    bits = np.float64(x).view(np.int64)
    # The power of 2 that leaves a factor between the roots of 1/2 and of 2; what is shifted is
    # positive, as vectors shift in zeros.
    power = ((bits - SQRT_HALF_BITS + (1023 << 52)) >> 52) - 1023
    factor = np.int64(bits - (power << 52)).view(np.float64)
    whole = np.int64(power + ROUNDER_BITS).view(np.float64) - ROUNDER
    s = (factor - 1.0) / (factor + 1.0)
    z = s * s
    z2 = z * z
    low = (0.666666666666667 + 0.39999999999899505 * z) + (
        0.28571428625975487 + 0.2222221113479508 * z
    ) * z2
    high = (0.18182889125261723 + 0.15331721600556042 * z) + 0.14616449685043406 * z2
    series = 2.0 * s + s * z * (low + (z2 * z2) * high)
    return whole * LN2_HIGH + (series + whole * LN2_LOW)
