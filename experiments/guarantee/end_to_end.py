"""Stress tests of fitted models: raw scores or features in, calls out, with the usual options.

The calibration samples are independent draws from a large table of samples with known truth, and
the calls of the model on that table give its true precision.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from attack import population
from former import FormerProfile, former_cutoff
from sklearn.naive_bayes import GaussianNB

from hierlpr import HierarchicalClassifier, Hierarchy, HierLPR, simulate
from hierlpr.cutoff.decisions import decide
from hierlpr.exceptions import HierlprWarning

N_FIT = 600
N_TABLE = 5_000


@dataclass(frozen=True)
class Fitted:
    """A model, what the former test needs, and the table that samples are drawn from."""

    model: HierLPR
    former: FormerProfile
    scores: np.ndarray
    truth: np.ndarray
    block_score: np.ndarray


@dataclass(frozen=True)
class ModelCase:
    """Draw scores and truth to fit on, and a large table of further samples."""

    draw: Callable[[np.random.Generator], tuple[Hierarchy, np.ndarray, np.ndarray]]
    options: dict[str, Any]

    def plan(self, rng):
        """Draw a population and fit a model on some samples of it."""
        hierarchy, scores, truth = self.draw(rng)
        fit, table = slice(N_FIT), slice(N_FIT, None)
        model = HierLPR(hierarchy, **self.options).fit(scores[fit], truth[fit])
        return Fitted(
            model, FormerProfile(model.predict_proba(scores[fit]), truth[fit]),
            scores[table], truth[table], model.predict_proba(scores[table]),
        )  # fmt: skip

    def cutoffs(self, plan, rng, n_samples, *, target, confidence):
        """Draw calibration samples and return the cutoff of each method."""
        row = rng.integers(len(plan.scores), size=n_samples)
        calibrate(plan.model, plan.scores[row], plan.truth[row], target, confidence)
        former = former_cutoff(
            plan.block_score[row], plan.truth[row], plan.former,
            target=target, confidence=confidence,
        )  # fmt: skip
        return {"certified": plan.model.cutoff_, "former": former}

    def achieved(self, plan, cutoff):
        """Return true precision and recall of the calls at `cutoff`."""
        called = decide(plan.block_score, cutoff, plan.model.hierarchy_)
        return precision_and_recall(called, plan.truth)


def calibrate(model, scores, truth, target, confidence):
    """Calibrate as a user would; nothing is called if the target cannot be reached."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        model.calibrate(
            scores, truth, precision=target, confidence=confidence, unreachable="nothing"
        )


def precision_and_recall(called, truth):
    """Return the share of calls that are correct and of positives that are called."""
    right, calls = np.count_nonzero(called & truth), np.count_nonzero(called)
    return right / calls if calls else math.nan, right / np.count_nonzero(truth)


def _setting(name):
    def draw(rng):
        first, second = simulate.train_test(name, n_train=N_FIT, n_test=N_TABLE, rng=rng)
        scores = np.vstack([first.scores, second.scores])
        return first.hierarchy, scores, np.vstack([first.truth, second.truth])

    return ModelCase(draw, {})


@population
def setting_1(target):
    """The paper's setting 1, a chain of good, poor and good classifiers, all defaults."""
    return _setting("1")


@population
def setting_2(target):
    """The paper's setting 2, a good parent with a poor and a good child, all defaults."""
    return _setting("2")


@population
def setting_3(target):
    """The paper's setting 3, a chain of poor, poor and good classifiers, all defaults."""
    return _setting("3")


@population
def setting_4(target):
    """The paper's setting 4, three standalone labels, all defaults."""
    return _setting("4")


def _forest(rng):
    hierarchy = simulate.random_forest(10, n_trees=4, rng=21)
    drawn = simulate.random_model(hierarchy, rng=21).draw(N_FIT + N_TABLE, rng=rng)
    return hierarchy, drawn.scores.copy(), drawn.truth.copy()


def _saturated_forest(rng):
    hierarchy, scores, truth = _forest(rng)
    top = rng.random(len(scores)) < 0.08
    scores[top], truth[top] = 1.0, True
    return hierarchy, scores, truth


def _forest_with_gaps(rng):
    hierarchy, scores, truth = _forest(rng)
    scores[rng.random(scores.shape) < 0.3] = np.nan
    return hierarchy, scores, truth


@population
def saturated_model(target):
    """Continuous scores of a ten-label forest, eight percent of samples saturated, all defaults."""
    return ModelCase(_saturated_forest, {})


@population
def isotonic_model(target):
    """The saturated forest with isotonic curves: long flat stretches, hence ties."""
    return ModelCase(_saturated_forest, {"lpr": "isotonic", "joint": False})


@population
def missing_scores(target):
    """Scores of a ten-label forest, three in ten of them missing (NaN)."""
    return ModelCase(_forest_with_gaps, {"missing": "allow"})


class ClassifierCase:
    """Start from features: the classifier splits its samples, so every run fits a new one."""

    hierarchy = Hierarchy([("A", "B")], labels=["A", "B", "C"])

    def plan(self, rng):
        """Draw the table of features and truth."""
        x = rng.normal(size=(N_TABLE, 4))
        noisy = x[:, :3] + 0.7 * rng.normal(size=(N_TABLE, 3))
        a, b, c = (noisy > (0.0, 0.0, 0.8)).T
        return {"features": x, "truth": np.stack([a, a & b, c], axis=1)}

    def cutoffs(self, plan, rng, n_samples, *, target, confidence):
        """Fit a classifier on samples drawn anew; `n_samples` is their number, cutoff included."""
        row = rng.integers(N_TABLE, size=n_samples)
        x, truth = plan["features"][row], plan["truth"][row]
        classifier = HierarchicalClassifier(
            GaussianNB(), hierarchy=self.hierarchy, precision=target, confidence=confidence,
            unreachable="nothing", cv=2, random_state=rng,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HierlprWarning)
            classifier.fit(x, truth)
        plan["classifier"] = classifier
        model, apart = classifier.model_, classifier.held_out_
        kept = np.setdiff1d(np.arange(n_samples), apart)
        former = former_cutoff(
            classifier.predict_proba(x[apart]), truth[apart],
            FormerProfile(model.predict_proba(classifier.oof_scores_[kept]), truth[kept]),
            target=target, confidence=confidence,
        )  # fmt: skip
        return {"certified": classifier.cutoff_, "former": former}

    def achieved(self, plan, cutoff):
        """Return true precision and recall of the calls of the classifier fitted last."""
        score = plan["classifier"].predict_proba(plan["features"])
        return precision_and_recall(decide(score, cutoff, self.hierarchy), plan["truth"])


@population
def classifier(target):
    """A HierarchicalClassifier on features; its samples include those for the cutoff."""
    return ClassifierCase()
