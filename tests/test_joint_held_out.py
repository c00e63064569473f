"""Evidence from fits that did not see a sample: valid, and the same as the long way."""

import numpy as np
import pytest

from hierlpr import Hierarchy, simulate
from hierlpr._kernels.coarse_scores import coarsen_scores, count_codes, look_up_codes
from hierlpr._kernels.forest_evidence import forest_evidence
from hierlpr.data.partial_truth import align_known
from hierlpr.joint import LabelPrior, posteriors
from hierlpr.joint.held_out import N_CODES, HeldOut
from hierlpr.joint.posterior import BOUNDS, main_tree
from hierlpr.lpr.auto import Auto
from hierlpr.lpr.p_spline import normal_table
from reference_joint import coarsened, evidence_directly


def population(n=160, *, steps=None, seed=0):
    rng = np.random.default_rng(seed)
    model = simulate.random_model(simulate.random_tree(9, rng=rng), rng=rng)
    drawn = model.draw(n, rng)
    scores = drawn.scores if steps is None else np.round(drawn.scores * steps) / steps
    return scores, drawn.truth, model.hierarchy, rng.permutation(n) % 4


def column_of(part):
    """Where each sample stands when they are sorted by part."""
    return np.argsort(np.argsort(part, kind="stable"))


@pytest.mark.parametrize("seed", range(8))
def test_codes_equal_the_slow_ones(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 400))
    scores = rng.normal(size=(3, n))
    scores[0] = np.round(scores[0], 1)
    scores[1, : n // 2] = 0.25  # half of all in one score, among many others
    scores[:, rng.random(n) < 0.1 * (seed % 3)] = np.nan
    scores[2, 0] = -0.0
    code, place = np.full((5, n), 9, dtype=np.int8), np.zeros((5, n))
    order, n_scores = np.argsort(scores, axis=1), np.zeros(5, dtype=np.int64)
    column, middle = rng.permutation(n), np.zeros((5, 17))
    coarsen_scores(scores, order, column, normal_table(n), 1, code, place, middle, n_scores)
    for k in range(3):
        slow_code, slow_place = coarsened(scores[k], 17, normal_table(n))
        np.testing.assert_array_equal(code[k + 1, column], slow_code)
        np.testing.assert_allclose(place[k + 1, column], slow_place, atol=1e-9)
        assert n_scores[k + 1] == np.unique(scores[k][~np.isnan(scores[k])]).size
        for c in range(slow_code.max() + 1):
            mine = np.sort(scores[k][slow_code == c])
            assert middle[k + 1, c] == mine[(mine.size - 1) // 2]
        assert np.all(middle[k + 1, slow_code.max() + 1 :] == middle[k + 1, slow_code.max()])
    assert np.all(code[[0, 4]] == 9)


def test_a_code_is_for_a_score_and_whatever_order():
    scores, truth, h, part = population(500)
    scores[:250, 0] = 0.5
    one = HeldOut(scores, truth, h, part, method="auto", n_threads=1)
    swap = np.random.default_rng(1).permutation(500)
    two = HeldOut(scores[swap], truth[swap], h, part[swap], method="auto", n_threads=2)
    first, second = column_of(part), column_of(part[swap])
    np.testing.assert_array_equal(one.code[:, first[swap]], two.code[:, second])
    np.testing.assert_array_equal(one.place[:, first[swap]], two.place[:, second])
    assert np.unique(one.place[0, first[:250]]).size == 1
    for k in range(h.n_labels):  # rises with the score
        by_score = first[np.argsort(scores[:, k])]
        assert np.all(np.diff(one.place[k, by_score]) >= 0.0)
        assert np.all(np.diff(one.code[k, by_score].astype(int)) >= 0)
    assert 40 < one.code.max() < N_CODES


def test_counts_and_lookups_equal_the_slow_ones():
    rng = np.random.default_rng(3)
    code = rng.integers(-1, 7, (70, 200)).astype(np.int8)
    truth, use = rng.random((70, 200)) < 0.3, np.arange(200)
    use = (use >= 30) & (use < 170)
    for weight in (np.empty((0, 0)), rng.random((70, 200))):
        positive, total = np.zeros((2, 70, 7))
        count_codes(code, truth, weight, 30, 170, positive, total)
        counted = weight if weight.size else np.ones((70, 200))
        for k, c in ((0, 0), (69, 6), (33, 3)):
            mine = use & (code[k] == c)
            assert total[k, c] == pytest.approx(counted[k, mine].sum())
            assert positive[k, c] == pytest.approx(counted[k, mine & truth[k]].sum())
    place, table, prior = 6.0 * rng.random((3, 320)), rng.normal(size=(3, 7)), rng.normal(size=3)
    place[1, 4], place[2, 205], place[0, 206] = np.nan, 6.0, 0.0
    lpr, own = np.empty((300, 3)), np.zeros((3, 330))
    look_up_codes(place, 2, 302, table, prior, lpr, own, 20)
    for k in range(3):
        slow = np.interp(place[k, 2:302], np.arange(7.0), table[k])
        np.testing.assert_allclose(lpr[:, k], 1.0 / (1.0 + np.exp(-slow)))
        slow_own = np.where(np.isnan(slow), 0.0, slow - prior[k])
        np.testing.assert_allclose(own[k, 20:320], slow_own)
    assert np.all(own[:, :20] == 0.0)
    assert np.all(own[:, 320:] == 0.0)


@pytest.mark.parametrize("kind", ["small", "missing", "chain", "star"])
def test_evidence_on_forests_equals_look_up_and_pass(kind):
    rng = np.random.default_rng(4)
    n_labels, n = {"small": (9, 300), "missing": (9, 70)}.get(kind, (900, 5))
    tree = simulate.random_tree(n_labels, rng=rng)
    if kind == "chain":
        tree = Hierarchy([(str(k), str(k + 1)) for k in range(n_labels - 1)])
    if kind == "star":  # products of messages leave the range of floats, up and down
        tree = Hierarchy([("root", str(k)) for k in range(n_labels - 1)])
    table = np.sort(rng.normal(-2.0, 4.0 if n_labels < 10 else 9.0, (n_labels, 7)), axis=1)
    prior = LabelPrior(rng.uniform(0.01, 0.6, n_labels), rng.uniform(0.1, 0.9, n_labels))
    place = 6.0 * rng.random((n_labels, n + 9))
    if kind == "missing":
        place[rng.random(place.shape) < 0.3] = np.nan
    lpr, own, others = np.empty((n, n_labels)), *np.zeros((2, n_labels, n + 5))
    look_up_codes(place, 4, n + 4, table, prior.log_odds, lpr, own, 3)
    slow = posteriors(lpr, prior, tree, with_others=True)[1].T
    found = np.zeros_like(own)
    main = main_tree(prior, tree)
    forest_evidence(place, 4, n + 4, table, prior.log_odds, main, BOUNDS, found, others, 3)
    np.testing.assert_array_equal(found, own)
    np.testing.assert_allclose(others[:, 3:-2], slow, atol=1e-6)
    assert np.all(others[:, [0, 1, 2, -2, -1]] == 0.0)
    # Whichever samples are side by side, a sample's evidence is the same.
    again = np.zeros_like(others)
    for a, b in ((0, 2), (2, n)):
        forest_evidence(
            place, 4 + a, 4 + b, table, prior.log_odds, main, BOUNDS, found, again, 3 + a
        )
    np.testing.assert_array_equal(again, others)


@pytest.mark.parametrize("kind", ["whole", "missing scores", "unknown truth", "weights"])
def test_evidence_of_few_scores_equals_a_fit_for_each_part(kind):
    scores, truth, h, part = population(steps=6)
    rng = np.random.default_rng(7)
    if kind == "missing scores":
        scores[rng.random(scores.shape) < 0.2] = np.nan
    if kind == "unknown truth":
        partial = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
        truth = align_known(scores, partial, h)
    weight = rng.integers(0, 4, len(scores)) / 2.0 if kind == "weights" else None
    parts = HeldOut(scores, truth, h, part, method="auto", n_threads=1, sample_weight=weight)
    asked = {0: frozenset((0,)), 2: frozenset((1, 2)), 3: frozenset((3,))}
    found = parts.evidence(asked)
    for fold, (own, without) in enumerate(asked.items()):
        seen = np.flatnonzero(~np.isin(part, list(without)))
        new = np.flatnonzero(part == own)
        slow = evidence_directly(scores, truth, h, seen, new, Auto().coarser(), weight)
        mine = slice(*found.fold_ptr[fold : fold + 2])
        # Scores that the fit has not seen lie between its neighbours, by rank here.
        used = seen if weight is None else seen[weight[seen] > 0.0]
        there = np.stack([np.isin(scores[new, k], scores[used, k]) for k in range(h.n_labels)], 1)
        if kind != "unknown truth":
            there &= there.all(axis=1, keepdims=True) | np.isnan(scores[new])
            np.testing.assert_allclose(found.own[:, mine].T[there], slow[0][there], atol=1e-9)
        whole = there.all(axis=1)
        assert kind == "missing scores" or whole.any()
        np.testing.assert_allclose(found.others[:, mine].T[whole], slow[1][whole], atol=1e-6)
        held = truth if isinstance(truth, np.ndarray) else truth.held
        np.testing.assert_array_equal(found.truth[:, mine].T, held[new])
        if found.weight.size:
            np.testing.assert_array_equal(found.weight[:, mine].T, slow[2])


def test_coarse_scores_hardly_move_the_evidence():
    scores, truth, h, part = population(3000, seed=2)
    parts = HeldOut(scores, truth, h, part, method="auto")
    found = parts.evidence({1: frozenset((1,))})
    seen, new = np.flatnonzero(part != 1), np.flatnonzero(part == 1)
    own, _, _ = evidence_directly(scores, truth, h, seen, new, "auto")
    assert np.abs(found.own.T - own).mean() < 0.05


def test_codes_stand_for_scores_of_their_own():
    scores, truth, h, part = population(300, seed=4)
    scores[:, 0], scores[:5, 1] = np.round(scores[:, 0], 1), np.nan
    parts = HeldOut(scores, truth, h, part, method="probability", n_threads=2)
    for k in range(h.n_labels):
        code = parts.code[k, column_of(part)]
        size = code.max() + 1
        for c in range(size):
            assert parts.score[k, c] in scores[code == c, k]
        assert np.all(np.diff(parts.score[k, :size]) > 0.0)
        assert np.all(parts.score[k, size:] == parts.score[k, size - 1])
    assert np.isfinite(parts.evidence({0: frozenset((0,))}).own).all()


@pytest.mark.parametrize("method", ["auto", "isotonic", ["auto", "p-spline"] * 4 + ["isotonic"]])
def test_no_truth_of_a_part_left_out_has_a_part_in_it(method):
    scores, truth, h, part = population(120, seed=5)
    parts = HeldOut(scores, truth, h, part, method=method)
    flipped = truth.copy()
    flipped[part < 2] = h.close_upward(~truth[part < 2])
    other = HeldOut(scores, flipped, h, part, method=method)
    alone = {0: frozenset((0, 1)), 1: frozenset((0, 1))}
    before, after = parts.evidence(alone), other.evidence(alone)
    np.testing.assert_array_equal(before.own, after.own)
    np.testing.assert_array_equal(before.others, after.others)
    np.testing.assert_array_equal(before.prior, after.prior)
    single = {0: frozenset((0,))}  # has seen part 1
    assert not np.array_equal(parts.evidence(single).own, other.evidence(single).own)


def test_every_judge_is_new_to_what_it_judges(monkeypatch):
    from hierlpr.joint import model as module

    asked = []
    original = module.HeldOut.evidence
    monkeypatch.setattr(
        module.HeldOut,
        "evidence",
        lambda self, out, *room: asked.append(out) or original(self, out, *room),
    )
    scores, truth, h, _ = population(80)
    module.fit_joint(scores, truth, h)
    final, *judged = asked
    assert final == {own: {own} for own in range(4)}
    assert len(judged) == 4
    for judges, learning in enumerate(judged):
        assert learning == {own: {own, judges} for own in range(4) if own != judges}


def test_a_label_without_any_score_in_the_other_parts():
    h = Hierarchy([("A", "B")])
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(40, 2)), rng.random((40, 2)) < [0.8, 0.0]
    part = np.arange(40) % 4
    scores[part != 0, 1] = np.nan
    found = HeldOut(scores, truth, h, part, method="auto").evidence({0: frozenset((0,))})
    assert np.isfinite(found.own).all()
    assert np.unique(found.own[1]).size == 1


def test_the_layout_of_the_input_has_no_part_in_it():
    scores, truth, h, part = population(60, seed=8)
    asked = {1: frozenset((1,))}
    one = HeldOut(scores, truth, h, part, method="auto").evidence(asked)
    two = HeldOut(np.asfortranarray(scores), np.asfortranarray(truth), h, part, method="auto")
    np.testing.assert_array_equal(one.own, two.evidence(asked).own)
    np.testing.assert_array_equal(one.truth, two.evidence(asked).truth)
