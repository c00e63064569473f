"""The joint posterior by enumeration, and evidence the long way: one fit for all that is asked."""

from collections import defaultdict
from itertools import product

import numpy as np

from hierlpr.data.pair_weights import curve_weights
from hierlpr.data.truth import Truth
from hierlpr.joint import fit_prior, posteriors
from hierlpr.lpr import fit_known


def posterior_by_enumeration(parents, ratio, conditional):
    """P(label | all scores); `parents[i]` lists the parents of label i, which need not be first."""
    n = len(parents)
    mass = np.zeros(n)
    total = 0.0
    for states in product((0, 1), repeat=n):
        weight = 1.0
        for i in range(n):
            possible = all(states[p] for p in parents[i])
            if states[i]:
                weight *= conditional[i] * ratio[i] if possible else 0.0
            elif possible:
                weight *= 1.0 - conditional[i]
        total += weight
        mass += weight * np.array(states)
    return mass / total


def likelihood_ratio(lpr, prevalence):
    """How much more probable the score is if the label holds; 1 if it is missing."""
    ratio = lpr / (1.0 - lpr) * (1.0 - prevalence) / prevalence
    return np.where(np.isnan(ratio), 1.0, ratio)


def log_loss(probability, truth):
    """Mean over samples of the log-loss summed over labels."""
    p = np.clip(probability, 1e-300, 1.0)
    return float(-np.where(truth, np.log(p), np.log1p(-p)).sum(axis=1).mean())


def fold_of(evidence):
    """Fold of each sample."""
    sizes = np.diff(evidence.fold_ptr)
    return np.repeat(np.arange(sizes.size), sizes)


def gathered(evidence, label):
    """Rows (own, others, prior, positive, total) of a label's cells, pair by pair."""

    def interval(x):
        edge, width, number = 0.0, 0.25, 0
        while edge + width <= abs(x) and edge < 40.0 - width:
            edge, number = edge + width, number + 1
            width = 0.25 * 2 ** np.floor(np.log2(1.0 + edge))
        return number, x < 0.0

    cells = defaultdict(list)
    fold = fold_of(evidence)
    for m in range(fold.size):
        weight = evidence.weight[label, m] if evidence.weight.size else 1.0
        a, e = evidence.own[label, m], evidence.others[label, m]
        before = evidence.prior[fold[m], label]
        if weight > 0.0:
            cells[interval(a + before), interval(e)].append(
                (a, e, before, evidence.truth[label, m], weight)
            )
    rows = []
    for pairs in cells.values():
        a, e, prior, held, weight = np.array(pairs, dtype=float).T
        means = (np.average(x, weights=weight) for x in (a, e, prior))
        rows.append((*means, weight[held > 0].sum(), weight.sum()))
    return np.array(rows)


def evidence_directly(scores, truth, h, seen, new, method, weight=None):
    """Own and others' evidence of `new` samples, from LPRs and a prior of the `seen` ones."""
    of_seen, of_new = (None if weight is None else weight[rows] for rows in (seen, new))
    prior = fit_prior(truth[seen], h, of_seen)
    truth = Truth.of(truth)
    model = fit_known(scores[seen], truth[seen], h, method=method, sample_weight=of_seen)
    lpr = model.curves.evaluate(scores[new])
    own = np.log(lpr / (1.0 - lpr)) - prior.log_odds
    pairs = np.empty((0, h.n_labels))
    if weight is not None or not truth.is_complete:
        columns = [curve_weights(truth[new], h, k, of_new) for k in range(h.n_labels)]
        pairs = np.stack(columns, axis=1)
    return (
        np.where(np.isnan(own), 0.0, own),
        posteriors(lpr, prior, h, of_others=True),
        pairs,
    )
