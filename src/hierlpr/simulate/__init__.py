"""Simulated hierarchies, scores and truth, with the true LPRs and posteriors.

Every function takes ``rng``, a seed or a ``numpy.random.Generator``.
"""

from hierlpr.simulate.generative import (
    QUALITY,
    Model,
    Simulation,
    random_dag,
    random_forest,
    random_model,
    random_tree,
)
from hierlpr.simulate.settings import (
    SETTINGS,
    disease,
    setting_model,
    train_test,
)

__all__ = [
    "QUALITY",
    "SETTINGS",
    "Model",
    "Simulation",
    "disease",
    "random_dag",
    "random_forest",
    "random_model",
    "random_tree",
    "setting_model",
    "train_test",
]
