"""Other procedures on p-values, against their definitions."""

import numpy as np
import pytest

import reference_discovery as reference
from hierlpr import Hierarchy, HierlprError, baselines


def bh(p, level):
    """Benjamini and Hochberg by trying every number of rejections."""
    for r in range(len(p), 0, -1):
        chosen = {x for x in p if p[x] <= level * r / len(p)}
        if len(chosen) >= r:
            return chosen
    return set()


def cases(n=150, *, forest=False):
    rng = np.random.default_rng(4)
    for _ in range(n):
        h = reference.random_dag(rng, int(rng.integers(1, 12)), forest=forest)
        p = np.round(rng.random(h.n_labels) ** 4, 3)
        yield h, p, float(rng.choice([0.05, 0.2, 0.5]))


def names(mask, h):
    assert mask.dtype == bool
    return {h.labels[k] for k in np.flatnonzero(mask)}


def test_benjamini_hochberg():
    for h, p, fdr in cases():
        expected = bh(dict(zip(h.labels, p, strict=True)), fdr)
        assert names(baselines.benjamini_hochberg(p, h, fdr), h) == expected


def test_dagger():
    for h, p, fdr in cases(60):
        expected = reference.dagger(p, h, fdr * (1 + 1e-12))
        assert names(baselines.dagger(p, h, fdr), h) == expected


def test_yekutieli_tests_families_of_rejected_parents():
    for h, p, fdr in cases(forest=True):
        value = dict(zip(h.labels, p, strict=True))
        expected = set()
        families = [h.roots]
        while families:
            family = families.pop()
            found = bh({x: value[x] for x in family}, fdr / 2.88)
            expected |= found
            families += [h.children(x) for x in found]
        assert names(baselines.yekutieli(p, h, fdr), h) == expected


def test_meinshausen_spends_alpha_by_leaves():
    for h, p, alpha in cases(forest=True):
        expected = set()
        for x in sorted(h.labels, key=lambda x: h.levels[h.index(x)]):
            below = [y for y in (x, *h.descendants(x)) if not h.children(y)]
            passes = p[h.index(x)] * len(h.leaves) <= alpha * len(below)
            if passes and expected.issuperset(h.parents(x)):
                expected.add(x)
        assert names(baselines.meinshausen(p, h, alpha), h) == expected


def test_simes_max_bh_is_closed_and_by_definition():
    for h, p, fdr in cases():
        value = {
            x: max(float(reference.simes(p, h, y)) for y in (x, *h.ancestors(x))) for x in h.labels
        }
        rejected = names(baselines.simes_max_bh(p, h, fdr), h)
        assert rejected == bh(value, fdr * (1 + 1e-12))
        assert all(rejected.issuperset(h.parents(x)) for x in rejected)


def test_what_they_refuse():
    dag = Hierarchy([("A", "C"), ("B", "C")])
    with pytest.raises(HierlprError, match="needs a forest"):
        baselines.yekutieli([0.1, 0.1, 0.1], dag)
    for procedure in (baselines.dagger, baselines.meinshausen):
        with pytest.raises(HierlprError, match="such as 'C'"):
            procedure({"A": 0.1, "B": 0.1}, dag)
    with pytest.raises(HierlprError, match="fdr"):
        baselines.benjamini_hochberg([0.1, 0.1, 0.1], dag, 2.0)
