"""Models: of scores (ScoreModel, HierLPR) and of features (HierarchicalClassifier); save, load.

HierLPR and HierarchicalClassifier are scikit-learn estimators and load it on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hierlpr.model.core import ScoreModel
from hierlpr.model.persistence import load_model, load_score_model

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.estimator import HierLPR

_HOMES = {
    "HierLPR": "hierlpr.model.estimator",
    "HierarchicalClassifier": "hierlpr.model.classifier",
}

__all__ = [
    "HierLPR",
    "HierarchicalClassifier",
    "ScoreModel",
    "load_model",
    "load_score_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hierlpr.model' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
