"""Slow twins of the audit: plain loops over units, tests and draws."""

import math

import reference_certify


def calls_of(score, level, limit):
    """Return the columns called in one sample: none of several ties if not all fit the limit."""
    reached = [j for j, x in enumerate(score) if x >= level]
    return [j for j in reached if sum(x >= score[j] for x in score) <= limit]


def gains(score, truth, target, pair, probability, order, rho, n_answers):
    """Return the gain of each answer and the loss that it cannot exceed, over the units."""
    n = len(score)
    called = [calls_of(row, *pair) for row in score]
    gain = [sum(truth[i][j] - target for j in called[i]) for i in range(n)]
    control = [rho * sum(score[i][j] - target for j in called[i]) for i in range(n)]
    bound = max(
        (target * len(called[i]) + control[i]) / probability[i] for i in range(n) if probability[i]
    )
    out = []
    for k in range(n_answers):
        earlier, i = order[:k], order[k]
        left = sum(probability[j] for j in order[k:])
        base = sum(control) + sum(gain[j] - control[j] for j in earlier)
        value = base + left * (gain[i] - control[i]) / probability[i]
        out.append((value / n, (max(bound, 0.0) * left - base) / n))
    return out


def passes(values, square, delta, horizon, largest, weight, beyond):
    """Bet on the gains in turn; True once the wealth reaches 1/delta."""
    goal, log_wealth, seen = math.log(1.0 / delta), 0.0, 0.0
    for k, (gain, loss) in enumerate(values):
        if goal - log_wealth > 59.9:
            return False
        expected = (weight * square + seen) / (weight + k)
        stake = reference_certify.stake(log_wealth, goal, beyond, horizon - k, expected)
        log_wealth += math.log1p(min(stake, largest / max(loss, 1e-12)) * gain)
        seen += gain * gain
        if log_wealth >= goal:
            return True
    return False


def mean_of_next(score, truth, target, pair, probability, order, rho):
    """Return the mean of the gain of the next draw, given all draws of `order` but the last.

    It averages over every unit that could have come instead of the last one.
    """
    earlier = order[:-1]
    rest = [i for i in range(len(score)) if probability[i] and i not in earlier]
    left, mean = sum(probability[i] for i in rest), 0.0
    for i in rest:
        values = gains(
            score, truth, target, pair, probability,
            [*earlier, i, *(j for j in rest if j != i)], rho, len(order),
        )  # fmt: skip
        mean += probability[i] / left * values[-1][0]
    return mean
