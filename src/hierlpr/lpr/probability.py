"""For scores that are probabilities: the label's own curve averaged with the score itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from hierlpr.exceptions import DataError
from hierlpr.lpr.auto import Auto
from hierlpr.lpr.base import GroupFit, ScoreGroups


@dataclass(frozen=True, slots=True)
class Probability:
    r"""Weighted mean of the label's own curve and its score, which must be a probability.

    Parameters
    ----------
    trust : float
        With :math:`s` positives (or negatives, if they are fewer) the curve has the weight
        :math:`s / (s + \mathrm{trust})` and the score the rest.
    curve : Auto
        How the label's own curve is fitted; nothing is shared between labels.

    Notes
    -----
    A first stage that sees all labels estimates probabilities of rare labels better than a curve of
    a few positives can (``docs/first-stage.md``).
    """

    trust: float = 30.0
    curve: Auto = field(default_factory=Auto)

    name: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        if not 0.0 <= self.trust < np.inf:
            raise DataError(f"trust must be a number >= 0, got {self.trust!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label."""
        listed = groups.score > -np.inf
        score = groups.score[listed]
        if score.size and not (score.min() >= 0.0 and score.max() <= 1.0):
            worst = score.min() if score.min() < 0.0 else score.max()
            raise DataError(
                f"lpr='probability' needs scores from 0 to 1, got {worst:.6g}.\n"
                "Hint: 'auto' takes scores of any range."
            )
        fit = self.curve.fit_groups(groups)
        positive = groups.sum_by_label(groups.positive)
        support = np.minimum(positive, groups.sum_by_label(groups.total) - positive)
        own = np.repeat(support / np.maximum(support + self.trust, 1e-9), groups.n_groups)[listed]
        fit.lpr[listed] = own * fit.lpr[listed] + (1.0 - own) * score
        fit.estimator = [f"{name} and score" for name in fit.estimator]
        return fit
