"""Models: of scores (ScoreModel, HierLPR) and of features (HierarchicalClassifier); save, load.

HierLPR and HierarchicalClassifier are scikit-learn estimators and load it on first use.
"""

from typing import TYPE_CHECKING

from hierlpr._base import loader
from hierlpr.model.core import ScoreModel
from hierlpr.model.persistence import load_model, load_score_model

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.estimator import HierLPR

__all__ = [
    "HierLPR",
    "HierarchicalClassifier",
    "ScoreModel",
    "load_model",
    "load_score_model",
]


__getattr__ = loader(__name__, {"HierLPR": "estimator", "HierarchicalClassifier": "classifier"})
