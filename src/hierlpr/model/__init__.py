"""The scikit-learn faces: HierLPR over scores, HierarchicalClassifier over features; save, load."""

from hierlpr.model.classifier import HierarchicalClassifier
from hierlpr.model.estimator import HierLPR
from hierlpr.model.persistence import load_model

__all__ = ["HierLPR", "HierarchicalClassifier", "load_model"]
