"""Models and pages shared by the tests of the report."""

import os
import shutil
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from watching import HOSTILE

from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.exceptions import HierlprWarning

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Case:
    model: HierLPR
    scores: np.ndarray
    truth: np.ndarray


def fitted(data, *, n_fit, n_calibration, **goal):
    """Fit, calibrate and report on three parts of the same samples."""
    middle = n_fit + n_calibration
    model = HierLPR(data.hierarchy).fit(data.scores[:n_fit], data.truth[:n_fit])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        model.calibrate(data.scores[n_fit:middle], data.truth[n_fit:middle], **goal)
    return Case(model, data.scores[middle:], data.truth[middle:])


@pytest.fixture(scope="session")
def disease():
    data = simulate.disease(n_samples=900, rng=1)
    return fitted(data, n_fit=400, n_calibration=300, fdr=0.1)


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


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the package playwright is not installed (extra: browser)"
    )
    found = os.environ.get("HIERLPR_CHROMIUM") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )
    if found is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        # A sandbox needs rights that containers lack; the page under test is our own.
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()
