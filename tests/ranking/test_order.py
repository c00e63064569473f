"""`rank`, `consistent_scores` and `Ranking` as a user meets them."""

import numpy as np
import pytest
from scipy import sparse

from cases import hierarchy_of, random_dag, random_forest
from hierlpr import Hierarchy, HierlprError, consistent_scores, metrics, rank
from hierlpr.ranking import blocks

H = Hierarchy([("A", "B"), ("A", "C")])
DIAMOND = Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("C", "E")])
LPR = [[0.2, 0.8, 0.1], [0.9, 0.3, 0.4]]


def test_the_ranking_reads_like_the_contract():
    r = rank(LPR, H)
    assert len(r) == 6
    assert r.sample.tolist() == [1, 0, 0, 1, 1, 0]
    assert r.label.tolist() == [0, 0, 1, 2, 1, 2]
    assert r.lpr.tolist() == [0.9, 0.2, 0.8, 0.4, 0.3, 0.1]
    assert r.score.tolist() == pytest.approx([0.9, 0.5, 0.5, 0.4, 0.3, 0.1])
    assert r.eauc() == pytest.approx(6 * 0.9 + 5 * 0.2 + 4 * 0.8 + 3 * 0.4 + 2 * 0.3 + 0.1)
    assert r[0] == (1, r.labels[0], 0.9, pytest.approx(0.9))
    assert [call.lpr for call in r] == r.lpr.tolist()
    assert "6 of 6 instances" in repr(r)


def test_a_slice_keeps_the_scores_of_blocks_it_cuts():
    r = rank(LPR, H)
    starts = np.flatnonzero(r.first)
    for start in range(7):
        for stop in range(start, 7):
            part = r[start:stop]
            assert part.score.tolist() == r.score[start:stop].tolist()
            assert part.lpr.tolist() == r.lpr[start:stop].tolist()
            inside = (starts >= start) & (starts < stop)
            assert part.block_score.tolist() == r.block_score[inside].tolist()
            assert part.certified.size == inside.sum()
    with pytest.raises(HierlprError, match="without a step"):
        r[::2]


def test_frames_go_by_name_and_come_back_in_the_same_library():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    plain = rank(LPR, H)
    data = {"C": [0.1, 0.4], "A": [0.2, 0.9], "B": [0.8, 0.3]}
    by_pandas = rank(pd.DataFrame(data, index=["s0", "s1"]), H)
    by_polars = rank(pl.DataFrame({"sample": ["s0", "s1"], **data}), H)
    for r in (by_pandas, by_polars):
        assert r.label.tolist() == plain.label.tolist()
        assert r.samples == ("s0", "s1")
    frame = by_pandas.to_frame()
    assert list(frame.columns) == ["rank", "sample", "label", "lpr", "score"]
    assert frame["sample"].tolist() == ["s1", "s0", "s0", "s1", "s1", "s0"]
    assert frame["label"].tolist()[:3] == ["A", "A", "B"]
    assert isinstance(by_polars.to_frame(), pl.DataFrame)
    assert plain.to_frame(backend="pyarrow").column_names == list(frame.columns)


@pytest.mark.parametrize("name", ["chain", "star", "random"])
def test_a_hundred_thousand_labels(name):
    n = 100_000
    rng = np.random.default_rng(0)
    parent = {
        "chain": np.arange(-1, n - 1),
        "star": np.r_[-1, np.zeros(n - 1, dtype=int)],
        "random": np.r_[-1, rng.integers(0, np.arange(1, n))],
    }[name]
    h = hierarchy_of(parent.tolist())
    lpr = rng.random((2, n))
    r = rank(lpr, h)
    place = np.empty((2, n), dtype=int)
    place[r.sample, r.label] = np.arange(2 * n)
    assert np.all(place[:, 1:] > place[:, parent[1:]])
    scores = consistent_scores(lpr, h)
    assert np.all(scores[:, 1:] <= scores[:, parent[1:]])
    assert np.array_equal(scores[r.sample, r.label], r.score)


def test_one_label_one_instance_all_ties_all_zero_all_one():
    alone = Hierarchy([], labels=["only"])
    assert rank([[0.3]], alone).score.tolist() == pytest.approx([0.3])
    for value in (0.0, 0.5, 1.0):
        r = rank(np.full((4, 3), value), H)
        assert r.label.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert r.sample.tolist() == [0, 1, 2, 3] * 3
        assert set(r.score.tolist()) == {value}


def test_zero_samples_give_an_empty_ranking():
    r = rank(np.empty((0, 3)), H)
    assert len(r) == 0
    assert r.eauc() == 0.0
    assert r.score.size == 0
    assert consistent_scores(np.empty((0, 3)), H).shape == (0, 3)
    empty = rank(sparse.csr_array((2, 3)), H)
    assert len(empty) == 0
    assert empty.n_instances == 6


def test_sparse_rows_list_stored_entries_and_their_ancestors():
    lpr = sparse.csr_array(np.array([[0.0, 0.8, 0.0], [0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]))
    r = rank(lpr, H)
    listed = list(zip(r.sample.tolist(), r.label.tolist(), r.score.tolist(), strict=True))
    near = pytest.approx(0.4)
    assert listed == [(2, 0, 0.5), (0, 0, near), (0, 1, near)]
    assert r.lpr.tolist() == [0.5, 0.0, 0.8]
    assert consistent_scores(lpr, H).toarray()[0].tolist() == [near, near, 0.0]


def test_weights_by_name_and_by_position_agree_and_scale_does_not_matter():
    rng = np.random.default_rng(2)
    lpr = rng.random((5, 3))
    r = rank(lpr, H, weight=[1.0, 3.0, 0.5])
    named = rank(lpr, H, weight={"C": 0.5, "A": 1.0, "B": 3.0})
    tiny = rank(lpr, H, weight=np.array([1.0, 3.0, 0.5]) * 2.0**-40)
    for other in (named, tiny):
        assert np.array_equal(r.sample, other.sample)
        assert np.array_equal(r.label, other.label)
    assert tiny.score == pytest.approx(r.score * 2.0**-40)
    scores = consistent_scores(lpr, H, weight=[1.0, 3.0, 0.5])
    assert np.array_equal(scores[r.sample, r.label], r.score)


@pytest.mark.parametrize("h", [H, DIAMOND], ids=["forest", "dag"])
@pytest.mark.parametrize("factor", [5e-324, 1e-320, 2.0**-1022, 1e-9, 1e300, 4e307], ids=str)
def test_weights_of_any_size_give_the_order_of_their_ratios(h, factor):
    rng = np.random.default_rng(7)
    lpr = rng.integers(0, 5, (30, h.n_labels)) / 4.0
    ratio = rng.integers(1, 5, h.n_labels).astype(float)
    plain, scaled = rank(lpr, h, weight=ratio), rank(lpr, h, weight=ratio * factor)
    for name in ("sample", "label", "first"):
        assert np.array_equal(getattr(plain, name), getattr(scaled, name)), name
    assert metrics.order_violations_error(scaled.sample, scaled.label, h) == 0
    assert np.isfinite(scaled.score).all()
    assert (np.diff(scaled.score) <= 0.0).all()
    scores = consistent_scores(lpr, h, weight=ratio * factor)
    assert np.array_equal(scores[scaled.sample, scaled.label], scaled.score)
    if factor >= 2.0**-1022:  # below it, floats have fewer digits
        assert scaled.score == pytest.approx(plain.score * factor, rel=1e-12, abs=0.0)
        if factor < 1e300:
            assert scaled.eauc() == pytest.approx(plain.eauc() * factor, rel=1e-12)
            assert scaled.eauc_gap() == 0.0
        elif factor == 4e307:
            assert scaled.eauc() == np.inf


@pytest.mark.parametrize("h", [H, DIAMOND], ids=["forest", "dag"])
@pytest.mark.parametrize(
    "extremes",
    [(1e-320, 1e308), (0.0, 1e-300), (0.0, 5e-324), (0.0, 1e308), (1e-300, 1.0), (0.0, 0.0)],
    ids=str,
)
def test_mixed_extreme_weights_keep_parents_first_and_count_the_small_as_zero(h, extremes):
    rng = np.random.default_rng(8)
    lpr = rng.integers(0, 5, (30, h.n_labels)) / 4.0
    for _ in range(5):
        large = rng.permutation(h.n_labels) < 2
        r = rank(lpr, h, weight=np.where(large, extremes[1], extremes[0]))
        assert metrics.order_violations_error(r.sample, r.label, h) == 0
        assert len(r) == lpr.size
        zeroed = rank(lpr, h, weight=np.where(large & (extremes[1] > 0.0), 1.0, 0.0))
        assert np.array_equal(r.sample, zeroed.sample)
        assert np.array_equal(r.label, zeroed.label)


def test_means_that_differ_beyond_the_bits_of_a_key_are_still_ordered():
    # 40,000 labels and 200,000 samples leave 25 bits for the mean, so most keys tie in it.
    rng = np.random.default_rng(4)
    h = Hierarchy([], labels=[f"n{i}" for i in range(40_000)])
    n_samples, n_stored = 200_000, 20_000
    flat = rng.choice(n_samples * h.n_labels, size=n_stored, replace=False)
    sample, label = np.divmod(flat, h.n_labels)
    value = 0.5 + rng.integers(0, 50, size=n_stored) / 2.0**30
    lpr = sparse.csr_array((value, (sample, label)), shape=(n_samples, h.n_labels))
    expected = np.lexsort([sample, h.position[label], -value])
    for n_jobs in (1, 2):
        r = rank(lpr, h, n_jobs=n_jobs)
        assert np.array_equal(r.sample, sample[expected])
        assert np.array_equal(r.label, label[expected])
        assert np.array_equal(r.score, value[expected])


@pytest.mark.parametrize(
    ("lpr", "message"),
    [
        ([[0.1, np.nan, 0.2]], r"not finite .*: nan at sample 0, label 'B'"),
        ([[0.1, 0.2, 0.2], [0.1, 0.1, np.inf]], r"not finite .*: inf at sample 1, label 'C'"),
        ([[0.1, 1.2, -0.1]], r"outside \[0, 1\]: 1.2 at sample 0, label 'B' \(2 such entries\)"),
        ([0.1, 0.2, 0.3], r"must be a matrix .* got shape \(3,\)"),
        ([["a", "b", "c"]], "real numbers, got dtype"),
        ([[None, 0.1, 0.2]], "not finite"),
        ([[[0.1, 0.9]] * 3] * 3, r"got shape \(3, 3, 2\)[^$]*p\[:, 1\]"),
    ],
)
def test_bad_lprs_say_what_and_where(lpr, message):
    with pytest.raises(HierlprError, match=message):
        rank(lpr, H)
    with pytest.raises(HierlprError, match=message):
        consistent_scores(lpr, H)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": -1}, "top must be a whole number"),
        ({"weight": [1.0, -2.0, 1.0]}, "weight of label 'B' is -2.0"),
        ({"weight": [1.0, np.nan, 1.0]}, "weight of label 'B' is nan"),
        ({"weight": {"A": 1.0, "Z": 2.0}}, r"2 missing \('B', 'C'\), 1 unknown \('Z'\)"),
    ],
)
def test_bad_options_say_what_is_wrong(options, message):
    with pytest.raises(HierlprError, match=message):
        rank(LPR, H, **options)


@pytest.mark.parametrize("shape", ["forest", "chain", "dag"])
@pytest.mark.parametrize("n_values", [2, 7, 2**30])
def test_the_order_does_not_depend_on_batches_and_threads(shape, n_values, monkeypatch):
    rng = np.random.default_rng(n_values % 1000)
    h = {
        "forest": lambda: hierarchy_of(random_forest(rng, 50)),
        "chain": lambda: Hierarchy([(f"L{i}", f"L{i + 1}") for i in range(79)]),
        "dag": lambda: random_dag(rng, 30, density=0.08),
    }[shape]()
    lpr = rng.integers(0, n_values + 1, (130, h.n_labels)) / n_values
    if shape == "chain":
        lpr = np.sort(lpr, axis=1)  # each sample is one block
    listed = sparse.csr_array(lpr * (rng.random(lpr.shape) < 0.3))
    whole = [rank(x, h, n_jobs=1) for x in (lpr, listed)]
    monkeypatch.setattr(blocks, "BATCH", 200)
    monkeypatch.setattr("hierlpr._kernels._jit.WORTH_SHARING", 1)
    for threads in (1, 3):
        for x, expected in zip((lpr, listed), whole, strict=True):
            found = rank(x, h, n_jobs=threads)
            for name in ("place", "first", "lpr", "uncertified_at", "uncertified_gap"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
            for top in (1, 40, len(expected) // 2):
                short = rank(x, h, top=top, n_jobs=threads)
                np.testing.assert_array_equal(short.place, expected.place[:top])
                np.testing.assert_array_equal(short.score, expected.score[:top])


def test_a_short_list_begins_like_the_whole_one_where_keys_cannot_tell_means_apart():
    # So many samples and labels leave 23 bits for the mean; the second label's is larger.
    n_samples, n_labels = 1 << 18, 1 << 18
    h = Hierarchy([], labels=[f"L{i}" for i in range(n_labels)])
    lpr = sparse.csr_array(
        ([0.9, 0.9 + 1e-7, 0.1], ([5, 4, 3], [0, 1, 2])), shape=(n_samples, n_labels)
    )
    whole, short = rank(lpr, h), rank(lpr, h, top=1)
    np.testing.assert_array_equal(whole.label, [1, 0, 2])
    np.testing.assert_array_equal(short.label, whole.label[:1])


def test_long_blocks_tie_and_settle_like_short_ones():
    # Chains whose blocks are longer than a key can tell, with means that differ in the last step.
    h = Hierarchy([(f"L{i}", f"L{i + 1}") for i in range(59)])
    lpr = np.full((40, 60), 0.25)
    lpr[:, -1] += 2.0**-30 * np.arange(40) * 60
    lpr[:, 0] = 0.0  # so that all labels of a sample are one block
    r = rank(lpr, h)
    assert np.count_nonzero(r.first) == 40
    np.testing.assert_array_equal(r.sample, np.repeat(np.arange(40)[::-1], 60))
    np.testing.assert_array_equal(r.label, np.tile(np.arange(60), 40))
