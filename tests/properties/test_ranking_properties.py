"""What must not change the ranking, and what every ranking satisfies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from cases import hierarchy_of, random_forest, scored_forests
from hierlpr import Hierarchy, consistent_scores, rank


def listed(r):
    return list(zip(r.sample.tolist(), r.label.tolist(), strict=True))


@given(scored_forests())
def test_parents_first_scores_never_rise_and_every_instance_once(case):
    h, lpr = case
    r = rank(lpr, h)
    assert sorted(listed(r)) == [(m, k) for m in range(lpr.shape[0]) for k in range(h.n_labels)]
    place = np.empty(lpr.shape, dtype=int)
    place[r.sample, r.label] = np.arange(lpr.size)
    assert len(h.violations(-place)) == 0
    assert np.all(np.diff(r.score) <= 0)
    assert np.array_equal(r.lpr, lpr[r.sample, r.label])
    assert np.array_equal(consistent_scores(lpr, h)[r.sample, r.label], r.score)


@given(scored_forests(), st.randoms(use_true_random=False))
def test_permuting_samples_permutes_the_ranking_but_for_their_ties(case, random):
    h, lpr = case
    shuffled = list(range(lpr.shape[0]))
    random.shuffle(shuffled)
    r, s = rank(lpr, h), rank(lpr[shuffled], h)
    assert np.array_equal(r.score, s.score)
    back = np.array(shuffled)[s.sample]
    for m in range(lpr.shape[0]):
        assert r.label[r.sample == m].tolist() == s.label[back == m].tolist()


@given(scored_forests(), st.randoms(use_true_random=False))
def test_permuting_and_renaming_labels_keeps_scores_and_area(case, random):
    h, lpr = case
    columns = list(range(h.n_labels))
    random.shuffle(columns)
    names = [f"new {k}" for k in columns]
    renamed = dict(zip((h.labels[k] for k in columns), names, strict=True))
    other = Hierarchy([(renamed[p], renamed[c]) for p, c in h.edges], labels=names)
    assert np.array_equal(
        consistent_scores(lpr[:, columns], other), consistent_scores(lpr, h)[:, columns]
    )
    r, s = rank(lpr, h), rank(lpr[:, columns], other)
    assert np.array_equal(r.score, s.score)
    assert abs(r.eauc() - s.eauc()) < 1e-9


@given(scored_forests())
def test_threads_change_nothing(case):
    h, lpr = case
    many = np.tile(lpr, (7, 1))
    expected = listed(rank(many, h, n_jobs=1))
    with pytest.MonkeyPatch.context() as patch:
        # Few as they are, share them among threads and merge them in small batches.
        patch.setattr("hierlpr._kernels._jit.WORTH_SHARING", 1)
        patch.setattr("hierlpr.ranking.blocks.BATCH", 8)
        for n_jobs in (1, 2, 3, 5):
            assert listed(rank(many, h, n_jobs=n_jobs)) == expected
            scores = consistent_scores(many, h, n_jobs=n_jobs)
            assert np.array_equal(scores, consistent_scores(many, h, n_jobs=1))


@given(scored_forests())
def test_sparse_equals_dense_on_what_it_lists(case):
    h, lpr = case
    lpr = np.where(lpr < 0.4, 0.0, lpr)
    stored = rank(sparse.csr_array(lpr), h)
    closure = h.close_upward(lpr > 0)
    dense = [(m, k) for m, k in listed(rank(lpr, h)) if closure[m, k]]
    assert listed(stored) == dense
    assert np.array_equal(stored.lpr, lpr[stored.sample, stored.label])
    scores = consistent_scores(sparse.csr_array(lpr), h)
    assert np.array_equal(scores.toarray(), consistent_scores(lpr, h))
    assert abs(stored.eauc() - rank(lpr, h).eauc()) < 1e-9


@given(scored_forests(), st.integers(0, 30))
def test_top_is_a_prefix(case, top):
    h, lpr = case
    for matrix in (lpr, sparse.csr_array(lpr)):
        whole = rank(matrix, h)
        short = rank(matrix, h, top=top)
        assert listed(short) == listed(whole)[:top]
        assert np.array_equal(short.score, whole.score[:top])
        assert np.array_equal(short.lpr, whole.lpr[:top])


def test_threads_change_nothing_on_a_large_matrix_with_ties():
    rng = np.random.default_rng(0)
    h = hierarchy_of(random_forest(rng, 60))
    for lpr in (rng.random((8000, 60)), rng.integers(0, 4, size=(8000, 60)) / 3):
        one, two = rank(lpr, h, n_jobs=1), rank(lpr, h, n_jobs=2)
        assert np.array_equal(one.sample, two.sample)
        assert np.array_equal(one.label, two.label)
        assert np.array_equal(one.score, two.score)
