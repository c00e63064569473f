"""Models: of scores (`HierLPR`) and of features (`HierarchicalClassifier`); `load_model`."""

from hierlpr.model.classifier import HierarchicalClassifier
from hierlpr.model.estimator import HierLPR
from hierlpr.model.persistence import load_model

__all__ = ["HierLPR", "HierarchicalClassifier", "load_model"]
