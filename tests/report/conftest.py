"""Models and pages shared by the tests of the report."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from watching import HOSTILE, Watched

from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.exceptions import HierlprWarning


@dataclass(frozen=True)
class Case:
    model: HierLPR
    scores: np.ndarray
    truth: np.ndarray


@pytest.fixture
def watch(browser):
    """Open a page; at the end of the test it must have been quiet."""
    watched = []

    def opened(path, **options):
        watched.append(Watched(browser, path, **options))
        return watched[-1].page

    yield opened
    for page in watched:
        page.close()


def fitted(data, *, n_fit, n_calibration, joint="auto", **goal):
    """Fit, calibrate and report on three parts of the same samples."""
    middle = n_fit + n_calibration
    model = HierLPR(data.hierarchy, joint=joint).fit(data.scores[:n_fit], data.truth[:n_fit])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        model.calibrate(data.scores[n_fit:middle], data.truth[n_fit:middle], **goal)
    return Case(model, data.scores[middle:], data.truth[middle:])


@pytest.fixture(scope="session")
def disease():
    data = simulate.disease(n_samples=900, rng=1)
    # Without the joint posterior, which may leave no blocks of more than one label.
    return fitted(data, n_fit=400, n_calibration=300, joint=False, fdr=0.1)


@pytest.fixture(scope="session")
def hostile():
    names = HOSTILE
    edges = [(names[i // 3], names[i]) for i in range(1, len(names))]
    model = simulate.random_model(
        Hierarchy(edges), quality="high", conditional=0.7, root=0.8, rng=3
    )
    case = fitted(model.draw(300, rng=4), n_fit=150, n_calibration=100, precision=0.8)
    labels = list(model.hierarchy.labels)
    import pandas as pd

    samples = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(len(case.scores))]
    frames = [
        pd.DataFrame(np.asarray(values), columns=labels, index=samples)
        for values in (case.scores, case.truth)
    ]
    return Case(case.model, *frames)
