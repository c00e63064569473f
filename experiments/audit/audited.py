"""Populations whose certificate is easy to get wrong: chances, truth, and units of one draw.

Each function takes a generator and returns ``(score, truth, cluster)``: matrices of scores (chances
that a model claims) and truth, and the cluster of each sample or None. Truth below the edge is made
so that the precision is just below the target, at every level or where a certificate would end.
"""

import numpy as np
from scipy.special import expit, logit

from hierlpr.audit.bets import count_passed
from hierlpr.audit.plan import list_by_unit, plan_audit

EDGE = 0.899  # precision of a population that must not be certified at a target of .9


def single(rng, chance, p_true, n=2000):
    """One call per sample."""
    truth = rng.permutation(n) < round(p_true * n)
    return np.broadcast_to(chance, n)[:, None].copy(), truth[:, None], None


def one_call_at_the_edge(rng):
    """One call per sample, calibrated, precision .899 at every level."""
    return single(rng, rng.uniform(0.85, 0.95, 2000), EDGE)


def all_tied(rng):
    """The same with one score for all."""
    return single(rng, 0.9, EDGE)


def few_ties(rng):
    """Five labels, three different scores, calls independent."""
    score = rng.choice([0.8, 0.9, 0.97], (800, 5))
    return score, rng.random((800, 5)) < EDGE - 0.004, None


def independent_calls(rng):
    """Five calls per sample, independent, at the edge at every level."""
    return rng.uniform(0.8, 1.0, (800, 5)), rng.random((800, 5)) < EDGE - 0.004, None


def together(rng):
    """All calls of a sample are correct, or none: 10.1 % of the samples, at every level."""
    score = rng.uniform(0.8, 1.0, (1000, 1)) * np.linspace(1.0, 0.95, 6)
    truth = (rng.permutation(1000) < round(EDGE * 1000))[:, None]
    return score, np.broadcast_to(truth, score.shape).copy(), None


def calls_in_few_samples(rng):
    """Two percent of the samples have 60 % of the calls, and all the errors."""
    score = np.zeros((1000, 75))
    score[:, 0] = rng.uniform(0.85, 0.99, 1000)
    score[:20] = rng.uniform(0.85, 0.99, (20, 75))
    truth = np.ones(score.shape, dtype=bool)
    truth[:20] = rng.random((20, 75)) > 0.101 * (980 + 1500) / 1500 + 0.01
    return score, truth, None


def one_huge_sample(rng):
    """One sample has a tenth of all calls, all incorrect."""
    score = np.zeros((900, 101))
    score[:, 0] = rng.uniform(0.85, 0.99, 900)
    score[0] = rng.uniform(0.85, 0.99, 101)
    truth = np.ones(score.shape, dtype=bool)
    truth[0] = False
    return score, truth, None


def rare_disasters(rng):
    """One percent of the samples have 30 calls, all incorrect and as sure as the others."""
    score = np.zeros((1000, 30))
    score[:, :3] = rng.uniform(0.85, 0.99, (1000, 3))
    score[:12] = rng.uniform(0.85, 0.99, (12, 30))
    truth = np.ones(score.shape, dtype=bool)
    truth[:12] = False
    return score, truth, None


def chances(rng, shift, n=1000, k=6):
    """Chances from .3 to .999 whose log-odds are too high by `shift`."""
    score = expit(rng.normal(2.0, 1.5, (n, k)))
    return score, rng.random((n, k)) < expit(logit(score) - shift), None


def log_odds_1_too_high(rng):
    """A model that claims too much."""
    return chances(rng, 1.0)


def log_odds_3_too_high(rng):
    """A model that claims far too much: nothing can be certified."""
    return chances(rng, 3.0)


def log_odds_2_too_low(rng):
    """A model that claims too little."""
    return chances(rng, -2.0)


def reversed_order(rng):
    """The surest calls are the worst."""
    score = expit(rng.normal(2.0, 1.5, (1000, 4)))
    return score, rng.random(score.shape) < np.clip(0.99 - 0.2 * score**4, 0.0, 1.0), None


def chances_of_nearly_one(rng):
    """Every chance is .999; precision is at the edge."""
    return np.full((600, 4), 0.999), rng.random((600, 4)) < EDGE - 0.004, None


def control_variates_mislead(rng):
    """Samples with the highest chances are all incorrect, the others all correct."""
    score = np.where(np.arange(1000)[:, None] < 102, 0.99, rng.uniform(0.75, 0.9, (1000, 3)))
    truth = np.broadcast_to(np.arange(1000)[:, None] >= 102, score.shape).copy()
    return score, truth, None


def errors_at_loose_levels(rng):
    """Sure calls are correct; those of samples without any sure call are not."""
    score = np.zeros((1500, 2))
    score[:1000] = rng.uniform(0.95, 0.99, (1000, 2))
    score[1000:, 0] = rng.uniform(0.80, 0.82, 500)
    truth = np.ones(score.shape, dtype=bool)
    truth[1000:, 0] = rng.random(500) < 0.49
    return score, truth, None


def a_step_below_the_edge(rng):
    """Precision 1 at strict levels falls to .899 at a single level."""
    score = np.concatenate([rng.uniform(0.95, 0.99, 900), np.full(1100, 0.85)])[:, None]
    truth = np.ones(2000, dtype=bool)
    truth[900 + rng.permutation(1100)[:203]] = False
    return score, truth[:, None], None


def eight_samples(rng):
    """Eight samples of three calls; three calls are incorrect."""
    truth = np.ones(24, dtype=bool)
    truth[rng.permutation(24)[:3]] = False
    return rng.uniform(0.85, 0.99, (8, 3)), truth.reshape(8, 3), None


def forty_samples(rng):
    """Forty samples with one call; five are incorrect."""
    truth = rng.permutation(40) >= 5
    return np.full((40, 1), 0.9), truth[:, None], None


def two_samples(rng):
    """Two samples, one of them incorrect."""
    return np.full((2, 1), 0.95), (rng.permutation(2) > 0)[:, None], None


def clusters(rng):
    """Eighty clusters of ten samples that are all correct or all incorrect."""
    cluster = np.repeat(np.arange(80), 10)
    good = rng.permutation(80) >= 9
    return rng.uniform(0.85, 0.99, (800, 2)), np.repeat(good[cluster][:, None], 2, axis=1), cluster


def clusters_of_unequal_size(rng):
    """One cluster has an eighth of all samples, all incorrect."""
    cluster = np.concatenate([np.zeros(100, dtype=np.intp), 1 + rng.integers(0, 60, 700)])
    score = rng.uniform(0.85, 0.99, (800, 2))
    return score, np.repeat((cluster > 0)[:, None], 2, axis=1), cluster


def one_name_per_sample(rng):
    """A path of up to six ranks per sample, correct down to some rank."""
    score = np.cumprod(rng.uniform(0.9, 1.0, (1200, 6)), axis=1)
    depth = rng.geometric(0.055, 1200)
    return score, np.arange(6) < depth[:, None], None


def an_unknown_group(rng):
    """One name per sample; a tenth of the samples belong to a group no model has met."""
    score = rng.uniform(0.9, 0.99, (1500, 1)) * np.array([1.0, 0.98, 0.96])
    truth = np.ones(score.shape, dtype=bool)
    truth[:155, 1:] = False
    truth[:155, 0] = rng.random(155) < 0.05
    return score, truth, None


def names_at_the_edge(rng):
    """One name per sample; 10.1 % of the first ranks are wrong, the others hardly ever."""
    score = np.cumprod(rng.uniform(0.93, 1.0, (1500, 5)), axis=1)
    truth = np.broadcast_to((rng.permutation(1500) >= 152)[:, None], score.shape).copy()
    return score, truth, None


def names_with_few_named(rng):
    """A third of the samples has a name; three in ten of these are wrong."""
    score = np.zeros((900, 3))
    score[:300] = np.cumprod(rng.uniform(0.8, 1.0, (300, 3)), axis=1)
    truth = np.zeros(score.shape, dtype=bool)
    truth[:300] = (rng.permutation(300) >= 91)[:, None]
    return score, truth, None


def names_wrong_where_sure(rng):
    """One name per sample; those with the highest chances are wrong."""
    score = np.cumprod(rng.uniform(0.85, 1.0, (1000, 4)), axis=1)
    surest = np.argsort(-score[:, -1])[:102]
    truth = np.ones(score.shape, dtype=bool)
    truth[surest, 1:] = False
    return score, truth, None


def names_long_paths(rng):
    """One name per sample; paths of very different length, wrong below some rank."""
    score = np.cumprod(rng.uniform(0.9, 1.0, (1000, 12)), axis=1)
    score[np.arange(12) >= rng.integers(1, 13, 1000)[:, None]] = 0.0
    depth = rng.geometric(0.02, 1000)
    return score, (np.arange(12) < depth[:, None]) & (score > 0.0), None


def groups_at_the_edge(rng):
    """Five groups of one label, each with a precision of .899 at every level."""
    score = np.sort(rng.uniform(0.85, 1.0, (1500, 5)), axis=1)[:, ::-1]
    truth = np.stack([rng.permutation(1500) >= 152 for _ in range(5)], axis=1)
    return score.copy(), truth, None


def groups_that_differ(rng):
    """One group is always correct, one at the edge, one with few calls is mostly wrong."""
    score = rng.uniform(0.85, 1.0, (1200, 3))
    score[60:, 2] = 0.0
    truth = np.ones(score.shape, dtype=bool)
    truth[:, 1] = rng.permutation(1200) >= 122
    truth[:60, 2] = rng.random(60) < 0.4
    return score, truth, None


def groups_in_clusters(rng):
    """Three groups; clusters of ten samples are all correct or all incorrect."""
    score, truth, cluster = clusters(rng)
    return np.hstack([score, score[:, :1]]), np.hstack([truth, truth[:, :1]]), cluster


POPULATIONS = (
    one_call_at_the_edge, all_tied, few_ties, independent_calls, together, calls_in_few_samples,
    one_huge_sample, rare_disasters, log_odds_1_too_high, log_odds_3_too_high, log_odds_2_too_low,
    reversed_order, chances_of_nearly_one, control_variates_mislead, errors_at_loose_levels,
    a_step_below_the_edge, eight_samples, forty_samples, two_samples, clusters,
    clusters_of_unequal_size, one_name_per_sample, an_unknown_group,
)  # fmt: skip
NAMED = (
    one_call_at_the_edge, all_tied, one_name_per_sample, an_unknown_group, eight_samples,
    names_at_the_edge, names_with_few_named, names_wrong_where_sure, names_long_paths,
)  # fmt: skip
GROUPED = (groups_at_the_edge, groups_that_differ, groups_in_clusters)


class Audited:
    """One population with a plan, and what its answers certify.

    `group` numbers the group of each column. With `is_named`, the columns are the path of each
    sample, and the share of wrong names is bounded instead of the precision.
    """

    def __init__(self, score, truth, cluster, promise, checks, rng, group=None, is_named=False):
        n_samples = len(score)
        sample, label = np.nonzero(score > 0.0)
        options = {"group": None if group is None else np.asarray(group)[label]}
        options["allowed"] = promise.alpha * n_samples if is_named else None
        value = score[sample, label]
        self.population = list_by_unit(sample, label, value, n_samples, cluster, **options)
        self.plan = plan_audit(self.population, promise, checks, rng)
        self.truth, self.correct = (
            np.asarray(truth)[x.sample, x.label] for x in (self.population, self.plan.listed)
        )
        self.n_positives, self.n_samples = np.count_nonzero(truth), n_samples
        self.tests = self.plan.tests
        self.n_units = self.plan.time.size

    def passed(self, n_answers, horizons):
        """Return how many tests of each group pass after some answers."""
        size = np.searchsorted(self.plan.listed.unit, n_answers)
        return count_passed(self.plan, self.correct[:size], n_answers, horizons)

    def certified(self, test):
        """Return precision (of names: the share of samples without a wrong one) and recall."""
        pair = self.tests.level[test], self.tests.limit[test], self.tests.group[test]
        called = self.population.called(*pair)
        hits = np.count_nonzero(self.truth[called])
        if self.population.allowed is not None:
            wrong = np.unique(self.population.unit[called & ~self.truth]).size
            return 1.0 - wrong / self.n_samples, hits / max(1, self.n_positives)
        return hits / np.count_nonzero(called), hits / max(1, self.n_positives)

    def reached(self, n_answers, horizons):
        """Return precision and recall of every test that passed."""
        passed = self.passed(n_answers, horizons)
        at = [np.flatnonzero(self.tests.group == g)[:k] for g, k in enumerate(passed.tolist())]
        return [self.certified(test) for test in np.concatenate(at).tolist()]
