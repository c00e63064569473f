import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from hierlpr.cutoff.instances import list_instances, random_order, sample_places, split_at_random
from hierlpr.data.duplicates import log_chance
from hierlpr.exceptions import DataError


@given(
    hnp.arrays(np.int64, (24, 3), elements=st.integers(0, 2)),
    hnp.arrays(bool, (24, 3)),
    st.permutations(range(24)),
    st.booleans(),
)
def test_random_order_and_split_forget_how_the_rows_came(score, truth, rows, is_sparse):
    score = score / 2
    moved = score[rows], truth[rows]
    if is_sparse:
        moved = sparse.csr_array(moved[0]), sparse.csr_array(moved[1])

    def held(score, truth, order):
        return [sorted(zip(score[i], truth[i], strict=True)) for i in order]

    def listed(score, truth):
        # What is not above 0 is not listed in a CSR matrix.
        return held(score, truth & (score > 0), random_order(list_instances(score, truth)).order)

    if is_sparse:
        again = held(
            score[rows], (truth & (score > 0))[rows], random_order(list_instances(*moved)).order
        )
    else:
        again = listed(*moved)
    assert again == listed(score, truth)
    if not random_order(list_instances(score, truth)).is_fair:
        return
    moved = [m.toarray() if sparse.issparse(m) else m for m in moved]
    whole, other = np.hstack([score, truth]), np.hstack(moved)
    parts = zip(split_at_random(score, truth), split_at_random(*moved), strict=True)
    for first, second in parts:
        assert sorted(whole[first].tolist()) == sorted(other[second].tolist())


def test_the_random_order_does_not_follow_what_the_samples_hold():
    # 40 good and 60 bad samples, over and over: the good ones come first no more than by chance.
    mean_places = []
    for run in range(200):
        score = np.repeat([0.9, 0.4], [40, 60])[:, None] + run * 1e-6
        order = random_order(list_instances(score, score > 0.6)).order
        mean_places.append(np.flatnonzero(order < 40).mean())
    spread = math.sqrt((100 + 1) * 60 / (12 * 40))  # of the mean of 40 places drawn from 100
    assert abs(np.mean(mean_places) - 49.5) < 4 * spread / math.sqrt(200)
    assert 0.8 * spread < np.std(mean_places) < 1.2 * spread


def test_a_third_is_split_off_unless_the_samples_are_too_few_or_too_alike():
    score, truth = np.full((90, 5), 0.7), np.random.default_rng(0).random((90, 5)) < 0.5
    apart, rest = split_at_random(score, truth)
    assert (apart.size, rest.size) == (30, 60)
    assert 5 < truth[apart, 0].sum() < 25
    for few in [(score, truth > 2), (score[:16], truth[:16]), (score[:0], truth[:0])]:
        with pytest.raises(DataError, match="too few or too similar"):
            split_at_random(*few)


def chance_of(counts):
    """Exact largest chance of a multiset with these counts, over all populations."""
    n = sum(counts)
    chance = Fraction(math.factorial(n))
    for m in counts:
        chance *= Fraction(m, n) ** m / math.factorial(m)
    return float(chance)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_the_chance_of_a_set_of_samples_is_bounded(counts):
    score = np.repeat(np.arange(1, len(counts) + 1) / 9, counts)[:, None]
    shuffle = random_order(list_instances(score, score > 0.4))
    assert math.exp(log_chance(np.array(counts))) == pytest.approx(chance_of(counts))
    assert shuffle.is_fair == (chance_of(counts) <= 1e-6)


@given(
    hnp.arrays(np.float64, (5, 4), elements=st.integers(0, 4).map(lambda k: k / 4)),
    st.integers(1, 4),
)
def test_limited_calls_are_the_best_whole_ties_of_each_sample(score, most):
    instances = list_instances(score, score > 2)
    order, _, needed = sample_places(instances.score, instances.sample)
    kept = (needed[np.argsort(order)] <= most).reshape(score.shape)
    for row, allowed in zip(score, kept, strict=True):
        fit = [level for level in set(row.tolist()) if (row >= level).sum() <= most]
        np.testing.assert_array_equal(allowed, row >= min(fit) if fit else np.zeros(4, dtype=bool))
