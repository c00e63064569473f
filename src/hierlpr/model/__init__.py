"""Models: of scores (`HierLPR`) and of features (`HierarchicalClassifier`); `load_model`."""

from typing import TYPE_CHECKING

from hierlpr._utils import loader
from hierlpr.model.estimator import HierLPR
from hierlpr.model.persistence import load_model

if TYPE_CHECKING:
    from hierlpr.model.classifier import HierarchicalClassifier
    from hierlpr.model.selection import certify

__all__ = ["HierLPR", "HierarchicalClassifier", "certify", "load_model"]

# Commands work on scores: the first stage is imported by those who use it.
__getattr__ = loader(__name__, {"HierarchicalClassifier": "classifier", "certify": "selection"})
