"""Learning how far to trust the joint posterior."""

import numpy as np
import pytest
from scipy import optimize

from hierlpr import Hierarchy, HierLPR, consistent_scores, fit_lpr, metrics, simulate
from hierlpr._kernels.joint import Cells, HeldOutEvidence, fit_weights
from hierlpr.joint import Tempering, fit_joint
from hierlpr.joint.tempering import (
    LOSS_MARGINS,
    gather,
    losses_of,
    ranking_gain,
    trusted_share,
)
from reference_joint import fold_of, gathered, log_loss


def random_evidence(rng, n_labels=4, n_samples=150):
    own = rng.normal(size=(n_labels, n_samples))
    others = rng.normal(size=(n_labels, n_samples)) * 2
    prior = rng.normal(-1.0, 0.5, n_labels) + rng.normal(0.0, 0.1, (2, n_labels))
    fold_ptr = np.array([0, rng.integers(0, n_samples), n_samples])
    weight = np.empty((0, 0))
    evidence = HeldOutEvidence(own, others, own > 0.0, prior, fold_ptr, weight)
    log_odds = prior[fold_of(evidence)].T + 0.8 * own + 0.3 * others
    truth = rng.random((n_labels, n_samples)) < 1 / (1 + np.exp(-log_odds))
    return evidence._replace(truth=truth)


def pair_weights(rng, evidence):
    return evidence._replace(weight=rng.integers(0, 4, evidence.own.shape) / 2.0)


@pytest.mark.parametrize("seed", range(6))
def test_weights_are_the_penalized_maximum(seed):
    rng = np.random.default_rng(seed)
    own, others, truth, prior, _, _ = evidence = random_evidence(rng)
    prior = prior[fold_of(evidence)].T
    counts = pair_weights(rng, evidence).weight if seed % 2 else np.ones_like(own)
    ptr, members = np.array([0, 1, 4]), np.array([2, 0, 1, 3])
    target = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.1]])
    weights = rng.random((2, 3)) if seed < 3 else target.copy()  # where the steps start
    fields = (own, others, prior, counts * truth, counts)
    each = Cells(np.arange(5) * own.shape[1], *(x.ravel() for x in fields))
    fit_weights(each, ptr, members, target, 3.0, 0, 2, weights)
    for g in range(2):
        labels = members[ptr[g] : ptr[g + 1]]

        def cost(w, g=g, k=labels):
            z = prior[k] + w[0] * own[k] + w[1] * others[k] + w[2]
            fit = (counts[k] * np.logaddexp(0, np.where(truth[k], -z, z))).sum()
            return fit + 1.5 * ((w - target[g]) ** 2).sum()

        best = optimize.minimize(cost, target[g], bounds=[(0, 1), (0, 1), (None, None)])
        assert cost(weights[g]) <= best.fun + 1e-4
        assert weights[g, :2].min() >= 0.0
        assert weights[g, :2].max() <= 1.0


@pytest.mark.parametrize("seed", range(40))
def test_no_step_that_goes_too_far_is_kept(seed):
    rng = np.random.default_rng(seed)
    own, others = rng.normal(size=(2, 30)) * rng.choice([1.0, 20.0], (2, 1))
    prior, total = rng.normal(-2.0, 2.0, 30), rng.integers(1, 2000, 30).astype(float)
    wanted = rng.uniform(-1.0, 2.0, 2)
    odds = np.exp(np.clip(prior + wanted[0] * own + wanted[1] * others, -30, 30))
    positive = rng.binomial(total.astype(int), odds / (1 + odds)).astype(float)
    cells = Cells(np.array([0, 30]), own, others, prior, positive, total)
    target = np.array([[1.0, 0.0, 0.0]])
    weights = target.copy()
    fit_weights(cells, np.array([0, 1]), np.array([0]), target, 1.0, 0, 1, weights)

    def cost(w):
        z = prior + w[0] * own + w[1] * others + w[2]
        return (total * np.logaddexp(0, z) - positive * z).sum() + 0.5 * (
            (w - target[0]) ** 2
        ).sum()

    assert cost(weights[0]) <= cost(target[0])


@pytest.mark.parametrize("seed", range(4))
def test_cells_hold_the_pairs_of_near_evidence(seed):
    rng = np.random.default_rng(seed)
    evidence = random_evidence(rng, n_samples=300)
    evidence.own[:, :40] *= 30.0
    evidence.others[:, 20:60] = np.round(evidence.others[:, 20:60])  # on the edges of intervals
    evidence.others[:, 60:70] = -0.0
    evidence = pair_weights(rng, evidence) if seed % 2 else evidence
    cells = gather(evidence)
    for k in range(4):
        at = slice(cells.ptr[k], cells.ptr[k + 1])
        found = np.array([field[at] for field in cells[1:]]).T
        slow = gathered(evidence, k)
        assert len(found) == len(slow)
        np.testing.assert_allclose(
            found[np.lexsort(found.T[::-1])], slow[np.lexsort(slow.T[::-1])], atol=1e-9
        )


def test_losses_are_log_losses():
    rng = np.random.default_rng(1)
    own, others, truth, prior, _, _ = evidence = random_evidence(rng)
    w0, w1, w2 = (weights := rng.uniform(0, 1, (4, 3))).T[:, :, None]
    z = prior[fold_of(evidence)].T + w0 * own + w1 * others + w2
    h, weighted = Hierarchy([("A", "B"), ("A", "C"), ("C", "D")]), pair_weights(rng, evidence)
    raised = np.stack([z.max(axis=0), z[1], z[2:].max(axis=0), z[3]])
    for rise, log_odds in ((0.0, z), (1.0, raised), (0.3, 0.7 * z + 0.3 * raised)):
        pair = np.logaddexp(0, np.where(truth, -log_odds, log_odds))
        for part, expected in ((evidence, pair), (weighted, weighted.weight * pair)):
            each = [losses_of(part, weights, fold, h, n_jobs=2, rise=rise) for fold in range(2)]
            np.testing.assert_allclose(np.concatenate(each), expected.sum(axis=0))


def test_independent_scores_are_trusted_and_gain():
    train, test = simulate.train_test(3, rng=2)
    model = fit_joint(train.scores, train.truth, train.hierarchy)
    assert model.tempering.use != "none"
    assert model.tempering.others.mean() > 0.8
    lpr = fit_lpr(train.scores, train.truth).predict(test.scores)
    plain, joint = log_loss(lpr, test.truth), log_loss(model.transform(lpr), test.truth)
    exact = log_loss(test.posterior_true, test.truth)
    assert joint < plain - 0.8 * (plain - exact)
    assert "is used" in model.tempering.describe()


def test_copied_scores_are_not_counted_twice():
    rng = np.random.default_rng(3)
    n = 4000
    h = Hierarchy([("A", f"B{i}") for i in range(8)])
    truth = np.zeros((n, 9), dtype=bool)
    truth[:, 0] = rng.random(n) < 0.4
    truth[:, 1:] = truth[:, :1] & (rng.random((n, 8)) < 0.9)
    # Every score is the same noisy look at A: eight copies are no more evidence than one.
    scores = np.repeat(truth[:, :1] + rng.normal(0, 0.8, (n, 1)), 9, axis=1)
    scores += rng.normal(0, 1e-6, scores.shape)
    fit, new = slice(0, 3000), slice(3000, n)
    model = fit_joint(scores[fit], truth[fit], h)
    lpr = fit_lpr(scores[fit], truth[fit]).predict(scores[new])
    exact = fit_joint(None, truth[fit], h, use="exact").transform(lpr)
    plain = log_loss(lpr, truth[new])
    assert log_loss(exact, truth[new]) > plain + 0.5
    assert log_loss(model.transform(lpr), truth[new]) < plain + 0.05
    assert model.tempering.others.mean() < 0.2


def test_the_largest_below_is_used_where_scores_contradict_the_hierarchy():
    """Scores of parents are poor; those of leaves are shared, so that weights gain nothing."""
    rng = np.random.default_rng(5)
    h = Hierarchy([("A", f"B{i}") for i in range(3)])
    truth = h.close_upward((rng.random((1500, 4)) < 0.2) & [False, True, True, True])
    scores = 6.0 * truth + rng.normal(size=truth.shape)
    scores[:, 0] = 0.5 * truth[:, 0] + rng.normal(size=1500)
    scores[rng.random(1500) < 0.1, 1:] += 2.0
    model = HierLPR(h).fit(scores[:1000], truth[:1000])
    tempering = model.joint_.tempering
    assert tempering.use.endswith("largest")
    assert "the largest" in model.joint_.describe()
    assert tempering.loss[tempering.use] == min(tempering.loss.values())
    p = model.transform(scores[1000:])
    assert np.all(p[:, 1:] <= p[:, :1] + 1e-12) == (tempering.share == 1.0)
    np.testing.assert_allclose(model.predict_proba(scores[1000:]), p, atol=1e-6)


def test_ranking_gain_is_that_of_block_scores_and_its_error_that_of_resampling():
    rng = np.random.default_rng(0)
    h = Hierarchy([("A", "B"), ("A", "C"), ("C", "D")])
    evidence = random_evidence(rng, n_samples=400)
    weights = [np.tile([0.8, share, 0.1], (4, 1)) for share in (0.1, 0.3)]

    def probabilities(chosen):
        fold = fold_of(evidence)
        each = np.stack(chosen)[fold]  # (samples, labels, 3)
        z = each[..., 0].T * evidence.own + each[..., 1].T * evidence.others
        return (1 / (1 + np.exp(-(z + each[..., 2].T + evidence.prior[fold].T)))).T

    plain = [np.tile([1.0, 0.0, 0.0], (4, 1))] * 2
    before, after = (consistent_scores(probabilities(x), h) for x in (plain, weights))
    truth = evidence.truth.T

    def gain(rows):
        return metrics.au_prc_score(truth[rows], after[rows]) - metrics.au_prc_score(
            truth[rows], before[rows]
        )

    found, error = ranking_gain(evidence, weights, h)
    assert found == pytest.approx(gain(np.arange(400)), abs=2e-3)  # ties apart
    resampled = [gain(rng.integers(0, 400, 400)) for _ in range(100)]
    assert error == pytest.approx(np.std(resampled), rel=0.3)
    weighted = evidence._replace(weight=np.tile(rng.integers(0, 3, 400) * 1.0, (4, 1)))
    rows = np.repeat(np.arange(400), weighted.weight[0].astype(int))
    assert ranking_gain(weighted, weights, h)[0] == pytest.approx(gain(rows), abs=4e-3)


def test_a_posterior_that_ranks_worse_is_not_used():
    """Samples whose scores are all too high: the log-loss improves, the ranking does not."""
    rng = np.random.default_rng(4)
    h = Hierarchy([(p, f"{p}{c}") for p in "ABC" for c in "xyz"])
    used = []
    for by in (0.0, 3.0):
        truth = rng.random((800, 12)) < 0.35
        truth = truth & h.close_upward(truth) & truth[:, [h.index(x[0]) for x in h.labels]]
        scores = 3.0 * truth + rng.normal(size=truth.shape)
        scores[rng.random(800) < 0.15] += by
        model = fit_joint(scores, truth, h)
        used.append(model.is_used)
        assert ("were ranked worse" in model.describe()) == (by > 0.0)
    assert used == [True, False]
    assert model.tempering.loss["none"] > min(model.tempering.loss.values())


def test_too_few_samples_leave_the_lprs():
    h = Hierarchy([("A", "B")])
    truth = np.array([[1, 1], [1, 0], [0, 0], [0, 0]], dtype=bool)
    model = fit_joint(np.random.default_rng(0).random((4, 2)), truth, h)
    assert model.tempering.use == "none"
    assert "not used" in model.tempering.describe()


def test_a_gain_counts_as_far_as_it_is_clear():
    gains = (1.4, 1.5, 1.6, 2.0, 2.5, 3.0, 3.3, 9.0)
    shares = [trusted_share(gain, 1.0, LOSS_MARGINS, 40) for gain in gains]
    assert shares[:2] == [0.0, 0.0]
    assert shares[-2:] == [1.0, 1.0]
    assert np.all(np.diff(shares[1:-1]) > 0)  # 3.0 is not quite enough of 40 samples
    # Of few samples the same number of standard errors says less.
    assert trusted_share(2.0, 1.0, LOSS_MARGINS, 5) < shares[3]
    # Without any noise every gain is clear.
    assert [trusted_share(gain, 0.0, LOSS_MARGINS, 40) for gain in (0.1, 0.0)] == [1.0, 0.0]


def test_an_unclear_gain_is_used_in_part_and_said():
    for seed in range(132, 172):
        train, _ = simulate.train_test(3, n_train=150, n_test=40, rng=seed)
        model = HierLPR(train.hierarchy, n_jobs=1).fit(train.scores, train.truth)
        tempering = model.joint_.tempering
        if 0.1 < tempering.share < 0.9:
            break
    assert 0.1 < tempering.share < 0.9
    assert tempering.use == "label"  # no longer unchanged
    assert np.all(tempering.others <= tempering.share)
    assert f"are moved {tempering.share:.0%} of the way" in model.joint_.describe()


def test_new_labels_start_with_what_is_safe():
    learned = Tempering(np.full(3, 0.7), np.full(3, 0.2), np.full(3, 0.1), "label", {})
    grown = learned.select(np.array([2, 0]), n_new=1)
    assert grown.own.tolist() == [0.7, 0.7, 1.0]
    assert grown.others.tolist() == [0.2, 0.2, 0.0]
    assert Tempering.fixed("exact", 2).select(np.arange(2), 1).others.tolist() == [1.0] * 3
