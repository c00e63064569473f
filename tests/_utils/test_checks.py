"""Values that no float can hold are refused like any other; weights with their place."""

import numpy as np
import pytest

from hierlpr import HierLPR
from hierlpr._utils import checks
from hierlpr.exceptions import DataError

HUGE = 10**400


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.check_real_array, [[0, HUGE]]),
        (checks.check_level, HUGE),
        (checks.check_fraction, HUGE),
    ],
)
def test_integers_beyond_floats(check, value):
    with pytest.raises(DataError, match="x must"):
        check(value, name="x")


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, -1.0, 1.0], r"from 0 to 1e\+100.*got -1.0 for sample 1"),
        ([1.0, np.nan, 1.0], r"from 0.*got nan for sample 1"),
        ([1.0, 1.0, 1e101], r"from 0.*got 1e\+101 for sample 2"),
        ([0.0, 0.0, 0.0], r"all are zero"),
        ([1.0, 1.0], r"shape \(2,\), expected \(3,\)"),
        ([[1.0, 1.0, 1.0]], r"shape \(1, 3\), expected \(3,\)"),
        (["a", "b", "c"], r"sample_weight"),
    ],
)
def test_bad_weights_are_refused_with_their_place(weight, message):
    with pytest.raises(DataError, match=message):
        checks.check_sample_weight(weight, 3)
    model = HierLPR([("A", "B")], joint=False)
    with pytest.raises(DataError, match=message):
        model.fit([[0.1, 0.2], [0.5, 0.1], [0.9, 0.8]], [[0, 0], [1, 0], [1, 1]], weight)
