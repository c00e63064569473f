"""The joint posterior by enumeration: every set of labels that fits the hierarchy."""

from itertools import product

import numpy as np


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
