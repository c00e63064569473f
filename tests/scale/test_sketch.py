"""Sketches of too many scores: counts are exact, ranks within the stated bound."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hierlpr._base.order_free import row_keys
from hierlpr.lpr import fit_data
from hierlpr.lpr.groups import Gaps, read_training_data
from hierlpr.scale.store import Segment, Store, sketch, write_segment
from hierlpr.scale.stored_labels import StoredLabels


def blocks_of(scores, truth, size):
    ones = np.ones(scores.size)
    return lambda: ((scores[i : i + size], truth[i : i + size], ones[i : i + size])
                    for i in range(0, scores.size, size))  # fmt: skip


def slow_ranks(scores):
    """Share of the scores below each, and at most it: everything a rank may be made of."""
    below = np.array([np.mean(scores < x) for x in scores])
    upto = np.array([np.mean(scores <= x) for x in scores])
    return below, upto


def sketched_ranks(found, scores):
    """The same, from the group that each score was put into."""
    share = np.cumsum(found.total) / found.total.sum()
    # Groups are runs of neighbouring scores: their sizes say which.
    group = np.empty(scores.size, dtype=int)
    group[np.argsort(scores, kind="stable")] = np.repeat(
        np.arange(found.total.size), found.total.astype(int)
    )
    return (share - found.total / found.total.sum())[group], share[group]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(-3, 3), st.floats(-1, 1)), min_size=1, max_size=120),
    st.integers(1, 6),
    st.integers(1, 50),
    st.integers(0, 2**32 - 1),
)
def test_ranks_are_within_the_bound(values, n_edges, size, seed):
    scores = np.array(values, dtype=float)
    truth = np.random.default_rng(seed).random(scores.size) < 0.4
    found = sketch(blocks_of(scores, truth, size), scores.size, n_edges=n_edges)
    assert found.total.sum() == scores.size
    assert found.positive.sum() == truth.sum()
    assert np.all(np.diff(found.score) > 0.0)
    for exact, rough in zip(slow_ranks(scores), sketched_ranks(found, scores), strict=True):
        assert np.max(np.abs(exact - rough)) <= found.rank_error + 1e-12


@pytest.mark.parametrize("kind", ["continuous", "atoms", "sorted", "periodic"])
def test_heavy_atoms_stay_exact_and_the_rest_is_even(kind):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200_000)
    if kind == "atoms":
        scores[rng.random(scores.size) < 0.7] = 0.25
        scores[rng.random(scores.size) < 0.2] = -7.0
    elif kind == "sorted":
        scores.sort()
    elif kind == "periodic":
        scores = np.tile(np.sort(scores[:1000]), 200) + rng.normal(size=200_000) * 1e-9
    truth = rng.random(scores.size) < 0.1
    found = sketch(blocks_of(scores, truth, 30_000), scores.size, n_edges=512)
    assert found.rank_error < 4 / 512
    for x in (0.25, -7.0) if kind == "atoms" else ():
        at = np.flatnonzero(found.score == x)
        assert found.total[at] == np.count_nonzero(scores == x)
        assert found.positive[at] == np.count_nonzero(truth[scores == x])


def test_with_few_distinct_scores_nothing_is_lost():
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 100, 50_000) / 10
    truth = rng.random(scores.size) < scores / 20
    found = sketch(blocks_of(scores, truth, 1000), scores.size, n_edges=2000)
    assert found.rank_error == 0.0
    assert found.score.tolist() == np.unique(scores).tolist()
    assert found.total.tolist() == np.unique(scores, return_counts=True)[1].tolist()


def stored(file, matrix, bounds):
    """A store of the rows between bounds, each stretch a segment."""
    segments = []
    with file.open("wb") as stream:
        for start, stop in pairwise(bounds):
            place = write_segment(stream, matrix[start:stop], np.arange(start, stop))
            segments.append(Segment(str(file), *place, start))
    return Store(segments, matrix.shape[1], matrix.shape[0] if sparse.issparse(matrix) else None)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_any_labels_and_samples_of_a_store(tmp_path, is_sparse):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(40, 9)) * (rng.random((40, 9)) < 0.5)
    matrix = sparse.csr_array(scores) if is_sparse else scores
    store = stored(tmp_path / "scores", matrix, [0, 7, 8, 30, 40])
    rows = np.sort(rng.permutation(40)[:25])
    taken = store.take(rows)
    assert np.array_equal(taken.toarray() if is_sparse else taken, scores[rows])
    assert np.array_equal(store.keys, row_keys(matrix))
    for labels in ([0], [8], [2, 3, 4], [0, 2, 3, 8], range(9)):
        if not is_sparse:
            assert np.array_equal(store.dense(list(labels), rows), scores[rows][:, labels].T)
            continue
        found = store.columns(list(labels), store.places(rows))
        for label, (place, score) in zip(labels, found, strict=True):
            column = scores[rows, label]
            assert np.array_equal(place, np.flatnonzero(column))
            assert np.array_equal(score, column[place])
            blocks = list(store.column_blocks(label, store.places(rows)))
            assert np.array_equal(np.concatenate([s for _, s in blocks]), score)
            assert store.size_of(label) == np.count_nonzero(scores[:, label])
    assert store.stored_in(rows) == (np.count_nonzero(scores[rows]) if is_sparse else None)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_fit_on_sketches_is_close_to_the_exact_one(tmp_path, is_sparse):
    rng = np.random.default_rng(2)
    truth = rng.random((6000, 2)) < 0.2
    scores = np.abs(rng.normal(size=truth.shape) + 1.5 * truth)
    rows = np.sort(rng.permutation(6000)[:5000])
    if is_sparse:
        scores *= rng.random(scores.shape) < 0.6
    matrix = sparse.csr_array(scores) if is_sparse else scores
    store = stored(tmp_path / "scores", matrix, [0, 2500, 2500, 6000])
    held = sparse.csc_array(truth[rows])
    # Samples that imply a label are no part of its curve: say that 50 do, 10 of them rightly.
    gaps = Gaps.none(2)
    if is_sparse:
        gaps.total[0], gaps.positive[0] = 50.0, 10.0
    exact = StoredLabels(store, rows, held, gaps, most_scores=10**9)
    rough = StoredLabels(store, rows, held, gaps, most_scores=100)
    whole = fit_data(read_training_data(matrix[rows], truth[rows], None, None, gaps))
    assert np.array_equal(fit_data(exact).curves.knot_lpr, whole.curves.knot_lpr)
    assert not exact.rank_error.any()
    found = fit_data(rough)
    # So few scores are all edges of the sketch, but for the draw: nearly nothing is lost.
    assert rough.rank_error.max() < 0.01
    assert np.abs(found.predict(matrix) - whole.predict(matrix)).max() < 0.01
    assert np.array_equal(found.report.positives, whole.report.positives)
