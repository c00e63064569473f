"""Values that no float can hold are refused like any other."""

import pytest

from hierlpr._utils import checks
from hierlpr.exceptions import DataError

HUGE = 10**400


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.check_real_array, [[0, HUGE]]),
        (checks.check_level, HUGE),
        (checks.check_amount, HUGE),
        (checks.check_fraction, HUGE),
    ],
)
def test_integers_beyond_floats(check, value):
    with pytest.raises(DataError, match="x must"):
        check(value, name="x")
