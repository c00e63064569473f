"""For scores that are probabilities already: a label's own curve, pulled to the score itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.lpr.auto import Auto
from hierlpr.lpr.base import GroupFit, ScoreGroups


@dataclass(frozen=True, slots=True)
class Probability:
    r"""The mean of the "auto" curve and of the score, which must be a probability.

    Parameters
    ----------
    trust : float
        What the scores are worth, in positives. With :math:`s` positives (or negatives, if they are
        fewer) the curve counts :math:`s / (s + \mathrm{trust})` and the score the rest.
    curve : Auto
        How the label's own curve is fitted.

    Notes
    -----
    The other estimators look at the order of the scores alone, and have to learn from the positives
    of one label how sure a score is. A first stage that sees all labels says that itself, and for
    rare labels better than a few positives can (``docs/first-stage.md``). Here the values of the
    scores matter, not only their order.
    """

    trust: float = 30.0
    curve: Auto = field(default_factory=Auto)

    name: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        if not 0.0 <= self.trust < np.inf:
            raise DataError(f"trust must be a number >= 0, got {self.trust!r}.")

    def without_weak(self) -> Probability:
        """Return the estimator whose curve leaves weak labels for `with_pool`."""
        return replace(self, curve=self.curve.without_weak())

    def with_pool(self, slopes: NDArray[np.float64]) -> Probability | None:
        """Return the estimator whose curve learns rare labels from the slopes of others."""
        curve = self.curve.with_pool(slopes)
        return None if curve is None else replace(self, curve=curve)

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label."""
        listed = groups.score > -np.inf  # the others have no score to speak of
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
