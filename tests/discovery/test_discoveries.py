"""discover(): inputs, results, what it promises about them."""

import numpy as np
import pytest

import reference_discovery as reference
from hierlpr import Hierarchy, HierlprError, discover

KINDS = ("positive", "independent", "arbitrary")
H = Hierarchy([("A", "B"), ("A", "C"), ("C", "D")])
P = [0.001, 0.2, 0.004, 0.01]


@pytest.mark.parametrize("kind", [*KINDS, "bayes"])
def test_rejections_are_closed_and_follow_the_levels(kind):
    rng = np.random.default_rng(1)
    n_rejected = 0
    for case in range(24):
        h = reference.random_dag(rng, int(rng.integers(1, 30)), forest=case % 3 == 0)
        p = np.where(rng.random(h.n_labels) < 0.6, rng.random(h.n_labels) ** 8, 1.0)
        p = np.round(p, 2) if case % 2 else p
        p[rng.random(h.n_labels) < 0.2 * (case % 4 == 0)] = np.nan
        if np.isnan(p).all():
            continue
        bayes = kind == "bayes"
        fdr = float(rng.choice([0.02, 0.1, 0.3, 0.7]))
        found = discover(p, h, fdr, "positive" if bayes else kind, bayes=bayes)
        n_rejected += len(found.rejected)
        rejected = set(found.rejected)
        assert all(rejected.issuperset(h.parents(x)) for x in rejected)
        assert rejected == {h.labels[k] for k in np.flatnonzero(found.level <= fdr)}
        for parent, child in h.edges:
            assert found.level[h.index(parent)] <= found.level[h.index(child)]
            assert found.lpr[h.index(parent)] >= found.lpr[h.index(child)] - 1e-12
            assert found.ranking.index(parent) < found.ranking.index(child)
        assert sorted(found.ranking) == sorted(h.labels)
        assert np.all((found.level >= 0) & (found.level <= 1))
        # The level is the smallest fdr: asked for, it rejects the node; a bit less does not.
        for value in np.unique(found.level[(found.level > 1e-6) & (found.level < 0.999)])[:2]:
            again = discover(p, h, float(value), "positive" if bayes else kind, bayes=bayes)
            less = discover(
                p, h, float(value) * (1 - 1e-9), "positive" if bayes else kind, bayes=bayes
            )
            np.testing.assert_array_equal(again.is_rejected, found.level <= value)
            np.testing.assert_array_equal(less.is_rejected, found.level < value)
    assert n_rejected > 50


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_labels_does_not_matter(kind):
    rng = np.random.default_rng(9)
    h = reference.random_dag(rng, 40)
    p = rng.random(40) ** 4
    found = discover(p, h, dependence=kind)
    other = Hierarchy(h.edges, labels=sorted(h.labels))
    mapped = discover(dict(zip(h.labels, p, strict=True)), other, dependence=kind)
    assert set(found.rejected) == set(mapped.rejected)
    by_name = dict(zip(other.labels, mapped.level, strict=True))
    np.testing.assert_allclose([by_name[x] for x in h.labels], found.level, rtol=1e-9)


def frames():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    columns = {"label": ["D", "A", "C", "B"], "p": [0.01, 0.001, 0.004, 0.2]}
    return [
        dict(zip(*columns.values(), strict=True)),
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        pl.LazyFrame(columns),
        pa.table(columns),
        pd.Series(columns["p"], index=columns["label"]),
    ]


@pytest.mark.parametrize("given", frames(), ids=lambda x: type(x).__module__.split(".")[0])
def test_p_values_by_label_in_any_container(given):
    found = discover(given, H)
    np.testing.assert_array_equal(found.p, P)
    np.testing.assert_array_equal(found.level, discover(np.array(P), H).level)


def test_missing_p_values_in_every_spelling():
    import pandas as pd

    expected = [0.001, np.nan, 0.004, np.nan]
    for given in (
        {"A": 0.001, "C": 0.004},
        {"A": 0.001, "B": None, "C": 0.004, "D": float("nan")},
        [0.001, None, 0.004, np.nan],
        pd.DataFrame({"label": ["A", "B", "C"], "p": pd.array([0.001, None, 0.004], "Float64")}),
    ):
        np.testing.assert_array_equal(discover(given, H).p, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [-1e-17, 0.0, 0.5, 1.0 + 1e-15])
def test_all_p_values_alike(kind, value):
    rng = np.random.default_rng(2)
    h = reference.random_dag(rng, 30)
    found = discover(np.full(30, value), h, dependence=kind)
    assert len(found.rejected) == (30 if value <= 0.0 else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_label_alone(kind):
    h = Hierarchy([], labels=["only"])
    found = discover([0.03], h, dependence=kind)
    assert found.rejected == (("only",) if kind != "independent" else ())
    assert discover([0.03], h, 0.02, dependence=kind).rejected == ()


def test_ties_are_broken_by_rng_alone():
    h = Hierarchy([("r", f"v{i}") for i in range(60)])
    p = np.append(1e-4, np.repeat([0.01, 0.99, 0.3], 20))
    assert (
        discover(p, h, dependence="independent").rejected
        == discover(p, h, dependence="independent").rejected
    )
    seeds = [discover(p, h, 0.2, "independent", rng=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(seeds[0].level, seeds[1].level)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.1, 0.2], "expected one p-value for each"),
        ([[0.1, 0.2, 0.3, 0.4]], "shape"),
        ([0.1, 0.2, -0.1, 0.4], "outside [0, 1]: -0.1 at label 'C'"),
        ([0.1, 0.2, 1.5, 0.4], "1.5 at label 'C'"),
        ([0.1, np.inf, 0.1, 0.4], "inf at label 'B'"),
        ([np.nan] * 4, "all are missing"),
        (["a", "b", "c", "d"], "p_values must hold"),
        ({"A": 0.1, "Z": 0.2}, "not in the hierarchy: 'Z'"),
        ({"A": "0.1"}, "'0.1', which is not a number"),
        ({"A": True}, "not a number"),
        ({"A": [0.1]}, "not a number"),
        ({}, "all are missing"),
    ],
)
def test_bad_p_values_are_refused_with_their_place(given, message):
    with pytest.raises(HierlprError, match=r"(?s).*") as error:
        discover(given, H)
    assert message in str(error.value)


def test_bad_frames_and_options_are_refused():
    import pandas as pd

    for arguments, message in [
        ((pd.DataFrame({"label": ["A"], "pvalue": [0.1]}), H), "no column 'p'"),
        ((pd.DataFrame({"label": ["A", "A"], "p": [0.1, 0.2]}), H), "more than once: 'A'"),
        ((P, 7), "hierarchy must be a Hierarchy"),
        ((P, H, 0.0), "fdr must lie strictly between 0 and 1"),
        ((P, H, 1.0), "fdr"),
        ((P, H, "x"), "fdr"),
        ((P, H, 0.1, "none"), "'positive', 'independent', 'arbitrary'"),
        ((P, H, 0.1, "independent", "seed"), "rng must be"),
    ]:
        with pytest.raises(HierlprError) as error:
            discover(*arguments)
        assert message in str(error.value)


def test_bayes_takes_the_longest_prefix():
    rng = np.random.default_rng(3)
    h = reference.random_dag(rng, 60, forest=True)
    found = discover(rng.random(60) ** 6, h, 0.2, bayes=True)
    mean = np.cumsum(1 - found.lpr[found.order]) / np.arange(1, 61)
    n = int(np.flatnonzero(mean <= 0.2)[-1]) + 1
    assert found.rejected == found.ranking[:n]
