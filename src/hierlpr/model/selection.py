"""Choose the best of several models without losing its certificate."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from hierlpr.cutoff.outcome import Cutoff
from hierlpr.exceptions import DataError, UnreachableWarning, warn
from hierlpr.model.estimator import HierLPR


def certify(
    models: Sequence[HierLPR], X: Any, y: Any, *, confidence: float = 0.9, **options: Any
) -> HierLPR:
    """Return a calibrated copy of the model with the highest certified recall.

    Each of several models may be certified by mistake with the allowed probability, and choosing
    the best of them finds such a model more often: the promise is lost. Here the models share the
    error, so the promise holds for all of them together, whichever is chosen.

    Parameters
    ----------
    models : sequence of HierLPR
        Fitted on other samples. They are not changed.
    X : matrix or data frame, or a list of one for each model
        As in :meth:`HierLPR.calibrate`; a list if the models take the scores of different
        classifiers for the same samples.
    y : matrix or data frame
        Truth, as in :meth:`HierLPR.calibrate`.
    confidence : float
        The probability with which the chosen model reaches its target.
    **options
        Other arguments of :meth:`HierLPR.calibrate`, such as ``precision=0.9``.

    Examples
    --------
    >>> from hierlpr import simulate
    >>> fit, rest = simulate.train_test(1, rng=0)
    >>> models = [HierLPR(fit.hierarchy, joint=joint) for joint in (False, True)]
    >>> models = [model.fit(fit.scores, fit.truth) for model in models]
    >>> best = certify(models, rest.scores, rest.truth, precision=0.9, confidence=0.9)
    >>> best.cutoff_.goal.confidence, best.joint_ is not None
    (0.9, True)
    """
    if not models:
        raise DataError("certify needs at least one model.")
    each = 1.0 - (1.0 - confidence) / len(models)
    has_many = isinstance(X, list | tuple) and all(np.ndim(part) == 2 for part in X)
    if has_many and len(X) != len(models):
        raise DataError(f"X has {len(X)} matrices of scores for {len(models)} models.")
    calibrated = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachableWarning)
        for model, scores in zip(models, X if has_many else repeat(X), strict=False):
            calibrated.append(copy.copy(model).calibrate(scores, y, confidence=each, **options))
    best = max(calibrated, key=lambda m: (m.cutoff_.is_certified, m.cutoff_.recall or 0.0))
    if not best.cutoff_.reachable:
        warn(best.cutoff_.reason, UnreachableWarning)
    best.cutoff_ = _with_all_models(best.cutoff_, len(models))
    return best


def _with_all_models(cutoff: Cutoff, n_models: int) -> Cutoff:
    """Return a cutoff, with its groups and targets, at the confidence for all models together."""
    goal, groups = cutoff.goal, cutoff.groups or {}
    assert goal.confidence is not None
    goal = replace(goal, confidence=round(1.0 - (1.0 - goal.confidence) * n_models, 12))
    return replace(
        cutoff,
        goal=goal,
        groups={k: _with_all_models(x, n_models) for k, x in groups.items()} or None,
        targets=cutoff.targets and tuple(_with_all_models(x, n_models) for x in cutoff.targets),
    )
