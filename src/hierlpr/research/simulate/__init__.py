"""Random hierarchies, scores and truth from a seed, with the true LPRs and posteriors.

Every function takes ``rng``, a seed or a ``numpy.random.Generator``: the same seed gives the same
data.
"""

from hierlpr.research.simulate.generative import (
    QUALITY,
    Model,
    Simulation,
    random_dag,
    random_forest,
    random_model,
    random_tree,
)
from hierlpr.research.simulate.settings import (
    SETTINGS,
    disease,
    draw_supported,
    setting,
    setting_model,
    train_test,
)

__all__ = [
    "QUALITY",
    "SETTINGS",
    "Model",
    "Simulation",
    "disease",
    "draw_supported",
    "random_dag",
    "random_forest",
    "random_model",
    "random_tree",
    "setting",
    "setting_model",
    "train_test",
]
