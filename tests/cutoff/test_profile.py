import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import reference_certify as twin
from hierlpr.cutoff.profile import LevelProfile

tied_scores = hnp.arrays(np.int64, (12, 4), elements=st.integers(0, 4)).map(lambda k: k / 4)
truths = hnp.arrays(bool, (12, 4))


@given(tied_scores, truths)
def test_the_profile_holds_the_moments_at_every_level_and_limit(score, truth):
    profile = LevelProfile.of(score, truth)
    assert np.all(np.diff(profile.level) < 0)
    assert profile.limit.tolist() == list(range(1, max(2, 1 + (score > 0).sum(1).max())))
    for i, limit in enumerate(profile.limit.tolist()):
        for k, level in enumerate(profile.level.tolist()):
            calls, hits = np.array(twin.count(score.tolist(), truth.tolist(), level, limit)).T
            gain = hits - 0.9 * calls
            assert profile.calls[i, k] == calls.mean()
            assert profile.hits[i, k] == hits.mean()
            assert profile.drift(0.1)[i, k] == pytest.approx(gain.mean())
            assert profile.square(0.1)[i, k] == pytest.approx((gain**2).mean())
    for k, level in enumerate(profile.level.tolist()):
        most = (score >= level).sum(1).max()
        assert most <= profile.most_calls(level) <= max(most + 1, 1.5 * most), k


def test_a_profile_in_parts_is_that_of_the_whole(monkeypatch):
    rng = np.random.default_rng(1)
    score = rng.random((500, 7))
    truth = rng.random((500, 7)) < score
    whole = LevelProfile.of(score, truth)
    monkeypatch.setattr("hierlpr.cutoff.profile._INSTANCES", 20)
    parts = LevelProfile.of(sparse.csr_array(score), truth)
    for field in ("level", "limit", "calls", "hits", "calls2", "hits2", "calls_hits"):
        np.testing.assert_allclose(getattr(parts, field), getattr(whole, field))
