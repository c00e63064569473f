"""Profiles of levels, and caveats about a precision that few calibration samples determine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import reference_certify as twin
from cases import choose_cutoff
from hierlpr.cutoff.estimate import LevelProfile, precision_caveats
from hierlpr.cutoff.instances import list_instances
from hierlpr.data.truth import Truth

tied_scores = hnp.arrays(np.int64, (12, 4), elements=st.integers(0, 4)).map(lambda k: k / 4)
truths = hnp.arrays(bool, (12, 4))


@given(tied_scores, truths)
def test_the_profile_holds_the_moments_at_every_level_and_limit(score, truth):
    profile = LevelProfile.of(list_instances(score, truth), chance_samples=0.0)
    assert np.all(np.diff(profile.level) < 0)
    assert profile.limit.tolist() == list(range(1, max(2, 1 + (score > 0).sum(1).max())))
    for i, limit in enumerate(profile.limit.tolist()):
        for k, level in enumerate(profile.level.tolist()):
            calls, hits = np.array(twin.count(score.tolist(), truth.tolist(), level, limit)).T
            gain = hits - 0.9 * calls
            assert profile.calls[i, k] == calls.mean()
            assert profile.hits[i, k] == hits.mean()
            assert profile.mean_gain(0.1)[i, k] == pytest.approx(gain.mean())
            assert profile.mean_square_gain(0.1)[i, k] == pytest.approx((gain**2).mean())
    for k, level in enumerate(profile.level.tolist()):
        most = (score >= level).sum(1).max()
        assert most <= profile.most_calls(level) <= max(most + 1, 1.5 * most), k


def test_caveats_count_clusters_where_samples_share_them():
    score, truth = np.full((40, 2), 0.9), np.ones((40, 2), dtype=bool)
    clustered = Truth(truth, cluster=np.arange(40) // 2)
    for n, labelled, unit in ((20, truth[:20], "samples"), (40, clustered, "clusters")):
        caveats = precision_caveats(list_instances(score[:n], labelled), level=0.5, target=0.9)
        assert f"fewer than 30 {unit} have a call" in caveats


def test_chances_of_the_model_count_like_some_samples():
    score, truth = np.full((20, 1), 0.8), np.ones((20, 1), dtype=bool)
    profile = LevelProfile.of(list_instances(score, truth), chance_samples=60.0)
    assert profile.hits[0, -1] == pytest.approx((60 * 0.8 + 20 * 1.0) / 80)


def test_a_profile_in_parts_is_that_of_the_whole(monkeypatch):
    rng = np.random.default_rng(1)
    score = rng.random((500, 7))
    truth = rng.random((500, 7)) < score
    whole = LevelProfile.of(list_instances(score, truth))
    monkeypatch.setattr("hierlpr.cutoff.estimate._INSTANCES", 20)
    parts = LevelProfile.of(list_instances(sparse.csr_array(score), truth))
    for field in ("level", "limit", "moments"):
        np.testing.assert_allclose(getattr(parts, field), getattr(whole, field))


def heavy_tailed(n_samples, rng):
    """Four labels of 300 are called and right; in one sample of 400 all are called, all false."""
    score, truth = np.full((n_samples, 300), 0.1), np.zeros((n_samples, 300), dtype=bool)
    score[:, :4] = 0.8 + 0.2 * rng.random((n_samples, 4))
    truth[:, :4] = rng.random((n_samples, 4)) < 0.97
    bad = rng.random(n_samples) < 1 / 400
    score[bad], truth[bad] = 0.8 + 0.2 * rng.random((int(bad.sum()), 300)), False
    return score, truth


def test_a_heavy_tail_has_a_caveat_even_if_the_calibration_samples_do_not_show_it():
    far_off = 0
    for run in range(12):
        rng = np.random.default_rng([50, run])
        profile = LevelProfile.of(list_instances(*heavy_tailed(1200, rng)))
        cutoff = choose_cutoff(*heavy_tailed(300, rng), precision=0.9, profile=profile)
        # At any level from 0.8 on, 0.97 x 3.99 of 3.99 + 0.75 calls per sample are correct: 82 %.
        if cutoff.reachable and cutoff.level >= 0.8 and cutoff.precision > 0.95:
            far_off += 1
            assert "one more sample with" in cutoff.caveats
            assert f"Caveats: {cutoff.caveats}" in str(cutoff)
    assert far_off >= 3  # half of the calibrations have no bad sample


def test_a_target_that_is_barely_reached_has_a_caveat():
    # Scores say nothing and 85 % hold: 90 % is reached by chance alone.
    reached = unsure = 0
    for run in range(100):
        rng = np.random.default_rng([51, run])
        score, truth = rng.random((150, 2)), rng.random((150, 2)) < 0.85
        cutoff = choose_cutoff(score, truth, precision=0.9, unreachable="nothing")
        reached += cutoff.reachable
        unsure += cutoff.reachable and bool(cutoff.caveats)
    assert reached > 15
    assert unsure >= 0.8 * reached


def test_a_target_that_is_clearly_reached_has_no_caveat_and_no_promise():
    rng = np.random.default_rng(52)
    score = rng.random((2000, 3))
    truth = rng.random((2000, 3)) < score
    profile = LevelProfile.of(list_instances(score, truth))
    cutoff = choose_cutoff(score, truth, precision=0.8, profile=profile)
    assert cutoff.caveats == ""
    assert "Without a confidence nothing is promised" in str(cutoff)
    assert "Caveats" not in str(cutoff)
    for other in ({"maximize": "f1"}, {"precision": 0.8, "confidence": 0.9}):
        chosen = choose_cutoff(score, truth, profile=profile, **other)
        assert chosen.caveats == ""
        assert "nothing is promised" not in str(chosen)


@pytest.mark.parametrize(
    ("calls", "hits", "target", "words"),
    [
        ([1] * 29, [1] * 29, 0.5, "fewer than 30 samples have a call."),
        ([1], [1], 0.1, "fewer than 30 samples have a call; at no level is"),
        ([1] * 35, [1] * 35, 0.9, "at no level is the precision 2 standard errors above"),
        ([1] * 37, [1] * 37, 0.9, ""),
        # 400 right calls of one sample carry 100 others, of which 70 are right.
        ([400, *[1] * 100], [400, *[1] * 70, *[0] * 30], 0.9, "without one single sample"),
        ([30, *[1] * 300], [27, *[1] * 300], 0.9, ""),
        (
            [99, *[1] * 300],
            [97, *[1] * 300],
            0.9,
            "one more sample with as many calls as some have",
        ),
    ],
)
def test_each_caveat_by_itself(calls, hits, target, words):
    n_labels = max(calls, default=1)
    place = np.arange(n_labels)
    score = np.where(place < np.array(calls, dtype=int)[:, None], 0.9, 0.0)
    truth = place < np.array(hits, dtype=int)[:, None]
    instances = list_instances(score.reshape(-1, n_labels), truth.reshape(-1, n_labels))
    said = precision_caveats(instances, level=0.5, target=target)
    if words:
        assert said.startswith(words) or f"; {words}" in said
    else:
        assert said == ""
