"""Exponentials and logarithms of plain arithmetic against those of the C library."""

import math

import numpy as np
import pytest

from hierlpr._kernels.elementary import exponential, log_one_plus, logarithm


def units_off(found, exact):
    """Largest error in units of the last place."""
    return float(np.max(np.abs(np.array(found) - exact) / np.spacing(np.abs(exact))))


def test_exponentials():
    x = np.random.default_rng(0).uniform(-700.0, 700.0, 3000)
    x[:1500] /= 100.0
    x[:4] = 0.0, 700.0, -700.0, -0.0
    assert units_off([exponential(v) for v in x], np.exp(x)) <= 2.0
    assert exponential(np.float64(0.0)) == 1.0
    assert exponential(np.float64(-1e9)) == exponential(np.float64(-700.0)) > 0.0


def test_logarithms():
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-690.0, 690.0, 3000))
    x[:1000] = 1.0 + rng.normal(0.0, 1e-3, 1000)
    x[1000:1004] = 1e-300, 1e300, np.sqrt(0.5), np.sqrt(2.0)
    assert units_off([logarithm(v) for v in x], np.log(x)) <= 3.0
    assert logarithm(np.float64(1.0)) == 0.0
    assert logarithm(np.float64(8.0)) == pytest.approx(math.log(8.0), rel=1e-15)


def test_logarithms_of_one_plus():
    x = np.exp(-np.random.default_rng(2).uniform(0.0, 700.0, 3000))
    x[:1000] = np.linspace(0.001, 1.0, 1000)
    assert units_off([log_one_plus(v) for v in x], np.log1p(x)) <= 3.0
    assert log_one_plus(np.float64(0.0)) == 0.0
