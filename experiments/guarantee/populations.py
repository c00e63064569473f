"""Stress tests on block scores: each function builds a population that is hard at a target.

A level is either far below target, so that a lucky start may certify it, or just below target, so
that a correct test fails as often as it is allowed to.
"""

import numpy as np
from attack import Population, kinds, population
from former import sample_keys
from scipy import sparse
from scipy.stats import binom

from hierlpr import consistent_scores, simulate

N_KINDS = 5_000  # of a continuous population


def rng_of(seed):
    """Return the seed of a fixed population; only the draws from it are random."""
    return np.random.default_rng(seed)


# -- few kinds of samples: every score is tied ------------------------------------------------


@population
def two_kinds(target):
    """Thirty percent of samples score high and are correct, half of the others are correct."""
    return kinds((0.3, 0.9, 1.0), (0.7, 0.8, 0.5))


@population
def two_kinds_close(target):
    """Two scores, correct and mostly correct, together a hundredth below the target."""
    return kinds((0.6, 0.9, 1.0), (0.4, 0.7, (target - 0.01 - 0.6) / 0.4))


@population
def three_kinds(target):
    """Three scores, the middle one the best and the lowest the most common."""
    return kinds((0.2, 0.9, target + 0.02), (0.2, 0.6, 1.0), (0.6, 0.3, target - 0.2))


@population
def seven_kinds(target):
    """Seven scores whose chance falls evenly through the target."""
    chance = np.linspace(min(1.0, target + 0.15), target - 0.3, 7)
    return kinds(*[(1.0, (9 - i) / 10, c) for i, c in enumerate(chance)])


@population
def rare_good_kind(target):
    """One sample in ten is certain; all others, tied below it, are just below target."""
    return kinds((0.1, 0.95, 1.0), (0.9, 0.5, target - 0.02))


@population
def all_tied(target):
    """Every sample has the same score, a hundredth below the target."""
    return kinds((1.0, 0.5, target - 0.01))


@population
def all_tied_labels(target):
    """All scores are equal, and the labels of a sample are all correct or all incorrect."""
    return Population(np.full((1, 5), 0.5), np.full((1, 5), target - 0.02), together=True)


def _unluckiest_tie(target, *, n_samples, n_labels=1, groups=None):
    """Tie all samples at the score, of many, at which the test fails most often.

    As all are tied, only the number of correct samples is random, so the chance of a violation is
    an exact binomial sum. A test that takes the samples in an order computed from them has one
    order for each term, and may fail in none of them by luck.
    """
    number = np.arange(n_samples + 1)
    weight = binom.pmf(number, n_samples, target)

    def tied(score):
        short = np.full((1, n_labels), target - 1e-9)
        return Population(np.full((1, n_labels), score), short, together=True, groups=groups)

    def chance_of_violation(score):
        victim = tied(score)
        plan = victim.plan(rng_of(19))
        samples = np.full((n_samples, n_labels), score)
        chance = 0.0
        for right in number[weight > 1e-4]:
            truth = np.arange(n_samples)[:, None] < np.full(n_labels, right)
            cutoff = victim.certify(plan, samples, truth, target=target, confidence=0.9)
            chance += weight[right] * cutoff.reachable
        return chance

    return tied(max(np.linspace(0.3, 0.9, 40), key=chance_of_violation))


@population
def unlucky_tie(target):
    """All samples tied, a billionth below target: the worst of forty scores for the test."""
    return _unluckiest_tie(target, n_samples=50)


@population
def unlucky_tie_of_labels(target):
    """All samples tied, three labels correct or incorrect together: the worst of forty scores."""
    return _unluckiest_tie(target, n_samples=200, n_labels=3)


@population
def unlucky_split(target):
    """All samples tied, some set apart to plan, as for groups: the worst of forty scores."""
    return _unluckiest_tie(target, n_samples=50, groups=("all",))


@population
def five_values(target):
    """Four labels with scores of five values, each a tenth too high."""
    rng = rng_of(1)
    score = rng.integers(1, 6, (N_KINDS, 4)) / 5
    return Population(score, np.clip(score - 0.1, 0, 1))


# -- ties that continuous scores end up with ---------------------------------------------------


@population
def rounded(target):
    """Six labels with scores rounded to one decimal, sorted within a sample."""
    rng = rng_of(2)
    exact = np.sort(rng.beta(3, 1, (N_KINDS, 6)), axis=1)[:, ::-1]
    return Population(np.round(exact, 1), exact - 0.05)


@population
def saturated(target):
    """Eight percent of samples are tied at the top and correct, other scores are too high."""
    rng = rng_of(3)
    score = rng.random((N_KINDS, 3))
    chance = 0.8 * score
    top = rng.random(N_KINDS) < 0.08
    score[top], chance[top] = 1.0, 1.0
    return Population(score, chance)


@population
def flat_curves(target):
    """Scores are the steps of isotonic curves fitted on sixty samples, the truth is smooth."""
    from sklearn.isotonic import IsotonicRegression

    rng = rng_of(4)
    raw = rng.random((N_KINDS, 5))
    score = np.empty_like(raw)
    for k in range(5):
        x = rng.random(60)
        curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        score[:, k] = curve.fit(x, rng.random(60) < x).predict(raw[:, k])
    return Population(score, raw)


@population
def copied_labels(target):
    """Three labels, each present ten times with the same score and truth."""
    rng = rng_of(5)
    score = np.repeat(rng.beta(4, 1, (N_KINDS, 3)), 10, axis=1)
    return Population(score, score - 0.05, together=True)


@population
def ties_past_the_limit(target):
    """A sample has one call, or thirty tied incorrect calls, all of which a limit drops."""
    score, chance = np.zeros((2, 30)), np.zeros((2, 30))
    score[0, 0], chance[0, 0] = 0.8, target + 0.045
    score[1], chance[1] = 0.9, 0.0
    return Population(score, chance, np.array([0.998, 0.002]))


# -- precision near the target, or not monotone ------------------------------------------------


@population
def at_the_boundary(target):
    """Every level is a billionth below the target, the hardest case."""
    return Population(rng_of(6).random((N_KINDS, 1)), np.full((N_KINDS, 1), target - 1e-9))


@population
def just_short(target):
    """Every level is .002 below the target, with three labels per sample."""
    return Population(rng_of(7).random((N_KINDS, 3)), np.full((N_KINDS, 3), target - 0.002))


@population
def falls_through(target):
    """Precision starts just above the target and falls through it slowly."""
    score = np.linspace(0, 1, N_KINDS)[:, None]
    return Population(score, np.clip(target - 0.02 + 0.06 * (score - 0.5), 0, 1))


@population
def dips_and_recovers(target):
    """The highest and the lowest scores are incorrect, those in the middle correct."""
    score = np.linspace(0, 1, N_KINDS)[:, None]
    chance = np.where(score > 0.95, 0.3, np.where(score > 0.4, min(1.0, target + 0.08), 0.4))
    return Population(score, chance)


# -- heavy tails and dependent labels ------------------------------------------------------------


@population
def heavy_tail(target):
    """One sample in 400 has two hundred calls, all false, scored above all others."""
    rng = rng_of(8)
    score, chance = np.zeros((4000, 200)), np.zeros((4000, 200))
    score[:, :2] = 0.5 + 0.4 * rng.random((4000, 2))
    chance[:, :2] = 0.97
    score[:10], chance[:10] = 0.9 + 0.1 * rng.random((10, 200)), 0.0
    return Population(sparse.csr_array(score), chance, n_planning=1500)


@population
def tail_below(target):
    """One sample in 400 has two hundred calls, all false, scored between the good and the poor."""
    rng = rng_of(9)
    score, chance = np.zeros((4000, 200)), np.zeros((4000, 200))
    score[:, :2] = rng.random((4000, 2))
    chance[:, :2] = 0.75 + 0.25 * score[:, :2]
    score[:10], chance[:10] = 0.4 + 0.3 * rng.random((10, 200)), 0.0
    return Population(sparse.csr_array(score), chance)


@population
def uneven_calls(target):
    """Samples have one to a hundred calls, and those with many are incorrect more often."""
    rng = rng_of(10)
    n_calls = np.exp(rng.uniform(0, np.log(100), N_KINDS)).astype(int)
    listed = np.arange(100) < n_calls[:, None]
    score = np.where(listed, rng.random((N_KINDS, 100)), 0.0)
    chance = np.broadcast_to(1.0 - 0.04 * np.log(n_calls)[:, None], score.shape)
    return Population(sparse.csr_array(score), np.where(listed, chance, 0.0))


@population
def one_fate(target):
    """Twenty labels per sample correct or incorrect together, .01 below target everywhere."""
    score = np.repeat(rng_of(11).random((4000, 1)), 20, axis=1)
    score = score - 1e-3 * np.arange(20)
    return Population(score, np.full(score.shape, target - 0.01), together=True)


@population
def mostly_silent(target):
    """Nineteen samples in twenty have very low scores; the others are just below target."""
    rng = rng_of(12)
    score, chance = np.zeros((N_KINDS, 4)), np.zeros((N_KINDS, 4))
    loud = rng.random(N_KINDS) < 0.05
    score[loud] = 0.5 + 0.5 * rng.random((int(loud.sum()), 4))
    chance[loud] = target - 0.01
    return Population(score, chance)


# -- a plan that misleads --------------------------------------------------------------------------


def _overstated(by, **options):
    score = rng_of(13).beta(2, 1, (N_KINDS, 3))
    return Population(score, np.clip(score - by, 0, 1), **options)


@population
def plan_too_bright(target):
    """The plan comes from samples with calibrated scores; the precision in use is .15 lower."""
    return _overstated(0.15, planning=_overstated(0.0))


@population
def plan_from_a_mixture(target):
    """The plan comes from samples half of which are of another population."""
    good, bad = _overstated(0.0), _overstated(0.25)
    both = Population(np.vstack([good.score, bad.score]), np.vstack([good.chance, bad.chance]))
    return _overstated(0.25, planning=both)


@population
def plan_upside_down(target):
    """In the plan high scores are incorrect and low ones correct; in use it is the reverse."""
    score = np.linspace(0, 1, N_KINDS)[:, None]
    return Population(score, score, planning=Population(score, 1 - score))


@population
def plan_with_an_outlier(target):
    """One of the 1,500 samples of the plan has all of four hundred labels called."""
    rng = rng_of(14)
    score, chance = np.zeros((4001, 400)), np.zeros((4001, 400))
    score[:, :2] = rng.beta(6, 1, (4001, 2))
    chance[:, :2] = score[:, :2]
    score[-1], chance[-1] = 0.999, 0.0
    usual = np.append(np.full(4000, 1 / 4000), 0.0)
    planning = Population(sparse.csr_array(score), chance, usual, outlier=4000)
    return Population(sparse.csr_array(score[:-1]), chance[:-1], planning=planning, n_planning=1500)


# -- hierarchies, sparse tables, groups, and the former hash ---------------------------------------


@population
def dag(target):
    """Block scores of a DAG of 12 labels, from local precision rates that are too high."""
    graph = simulate.random_dag(12, n_roots=2, several_parents=0.4, rng=15)
    drawn = simulate.random_model(graph, rng=15).draw(N_KINDS, rng=15)
    score = consistent_scores(drawn.lpr_true**0.7, graph)
    return Population(score, drawn.truth.astype(float), hierarchy=graph)


@population
def sparse_table(target):
    """Three hundred labels of which a sample lists a handful, scored in twenty steps."""
    rng = rng_of(16)
    score = np.where(rng.random((4000, 300)) < 0.015, rng.integers(1, 21, (4000, 300)) / 20, 0.0)
    return Population(sparse.csr_array(score), np.clip(score - 0.08, 0, 1))


@population
def six_groups(target):
    """Six groups of two labels, each tied at two scores: no group may be below target."""
    weight = np.array([0.4, 0.6])
    score = np.array([[0.9] * 12, [0.7] * 12])
    chance = np.array([[1.0] * 12, [(target - 0.03 - 0.4) / 0.6] * 12])
    return Population(score, chance, weight, groups=tuple(f"g{k // 2}" for k in range(12)))


@population
def thirty_groups(target):
    """Thirty groups of one label, scored in eight steps, that fall through the target."""
    score = np.ceil(8 * rng_of(17).random((N_KINDS, 30))) / 8
    chance = np.clip(target - 0.02 + 0.3 * (score - 0.5), 0, 1)
    return Population(score, chance, groups=tuple(f"g{k}" for k in range(30)))


@population
def truth_follows_the_hash(target):
    """Continuous scores without ties, correct where the former hash of the score is small."""
    score = rng_of(18).random((N_KINDS, 1))
    key = sample_keys(score.ravel(), np.arange(N_KINDS), N_KINDS)
    early = key < np.quantile(key, 0.5)
    return Population(score, np.where(early, 1.0, 2 * target - 1.02)[:, None])
