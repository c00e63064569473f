"""Sums that do not depend on the order of their terms."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierlpr._base import order_free
from hierlpr._base.order_free import ExactSums

TERMS = st.lists(st.floats(-4096, 4096), min_size=1, max_size=40)


def total(terms):
    sums = ExactSums(1)
    sums.add(np.array(terms)[:, None])
    return sums.values()[0]


@given(TERMS, st.randoms())
def test_any_order_and_any_parts_give_the_same(terms, rnd):
    shuffled = terms.copy()
    rnd.shuffle(shuffled)
    assert total(shuffled) == total(terms)
    cut = rnd.randrange(len(terms) + 1)
    parts = [ExactSums(1), ExactSums(1)]
    for part, some in zip(parts, (shuffled[:cut], shuffled[cut:]), strict=True):
        part.add_at(np.zeros(len(some), dtype=int), np.array(some))
    parts[0].merge(parts[1].words)
    assert parts[0].values()[0] == total(terms)


@given(TERMS)
def test_terms_count_to_the_last_of_60_bits(terms):
    exact = sum((Fraction(x) for x in terms), Fraction(0))
    assert total(terms) == pytest.approx(float(exact), rel=2**-52, abs=len(terms) * 2.0**-60)


def test_many_terms(monkeypatch):
    rng = np.random.default_rng(0)
    terms = rng.random((5000, 3)) * [1.0, 1e-9, 4096.0]
    sums = ExactSums(3)
    sums.add(terms)
    monkeypatch.setattr(order_free, "_MOST", 7)
    again = ExactSums(3)
    again.add(terms[::-1])
    assert (sums.words == again.words).all()
    assert sums.values() == pytest.approx(terms.sum(axis=0), rel=1e-13)
