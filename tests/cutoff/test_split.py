"""Samples to fit on and samples for the cutoff: whole clusters, copies together, seeded."""

import numpy as np
import pytest

from hierlpr import Hierarchy
from hierlpr.cutoff.split import calibration_share, split_for_cutoff, split_samples
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError


@pytest.mark.parametrize("share", [1 / 3, 0.5, 0.1])
def test_about_this_share_is_kept_and_every_sample_is_used_once(share):
    fitted, kept = split_samples(101, share, 0)
    assert np.array_equal(np.sort(np.concatenate([fitted, kept])), np.arange(101))
    assert kept.size == round(share * 101)
    assert np.array_equal(kept, split_samples(101, share, 0)[1])
    assert not np.array_equal(kept, split_samples(101, share, 1)[1])
    assert split_samples(101, share, 0, limit=7)[1].size == 7
    unit = np.random.default_rng(0).integers(0, 40, 101)
    parts = split_samples(101, share, 0, unit=unit)
    assert not np.intersect1d(unit[parts[0]], unit[parts[1]]).size
    assert np.unique(unit[parts[1]]).size == round(share * np.unique(unit).size)
    unit = np.append(np.zeros(500), np.arange(101))  # one large cluster, in any part
    for seed in range(10):
        kept = split_samples(601, share, seed, unit=unit)[1]
        assert np.unique(unit[kept]).size == round(share * 101)


def test_what_cannot_be_split_is_refused():
    with pytest.raises(DataError, match=r"2 sample\(s\) cannot be split"):
        split_samples(2, 0.5, 0)
    with pytest.raises(DataError, match=r"X: 2 different sample\(s\) or cluster\(s\)"):
        split_samples(50, 0.5, 0, unit=np.arange(50) % 2, name="X")
    with pytest.raises(DataError, match="calibration_share must lie strictly between 0 and 1"):
        split_samples(50, 1.0, 0)


@pytest.mark.parametrize("names", [None, "repeated"])
def test_copies_and_samples_of_one_name_stay_together(names):
    values = np.random.default_rng(0).normal(size=(90, 4))
    values = values if names else np.tile(values[:45], (2, 1))
    samples = tuple(f"s{i % 45}" for i in range(90)) if names else None
    h = Hierarchy(labels=list("ABCD"))
    fitted, kept = split_for_cutoff(Table(values, h.labels, samples), h, None)
    assert not np.intersect1d(fitted % 45, kept % 45).size
    coarse = np.round(np.random.default_rng(0).random((90, 1)))  # equal by chance
    assert split_for_cutoff(Table(coarse, ("A",)), Hierarchy(labels=["A"]), None)[1].size == 68


def test_few_samples_keep_half_for_a_certificate():
    assert calibration_share(300) == calibration_share(3000, 300) == 0.5
    assert 1 / 3 < calibration_share(450) < 0.5
    assert calibration_share(600) == calibration_share(300, promise="sets") == 1 / 3
    assert calibration_share(300, n_labels=1) == 3 / 4
