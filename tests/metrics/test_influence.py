import numpy as np
import pytest

from hierlpr.metrics import au_prc_score
from hierlpr.metrics.influence import au_prc_influence


@pytest.mark.parametrize("is_weighted", [False, True])
def test_influence_is_the_derivative_by_the_relative_weight_of_a_sample(is_weighted):
    rng = np.random.default_rng(2)
    truth, scores = rng.random((40, 3)) < 0.3, rng.integers(0, 50, (40, 3)) / 64
    weight = rng.integers(1, 4, 40) * 1.0 if is_weighted else np.ones(40)
    area, influence = au_prc_influence(truth, scores, weight[:, None])
    assert area == pytest.approx(au_prc_score(truth, scores, sample_weight=weight))
    for m in range(40):
        more = weight * (1.0 + 1e-6 * (np.arange(40) == m))
        slope = (au_prc_score(truth, scores, sample_weight=more) - area) / 1e-6
        assert influence[m] == pytest.approx(slope, abs=1e-4)
    assert influence.sum() == pytest.approx(0.0, abs=1e-12)  # the area has no scale
