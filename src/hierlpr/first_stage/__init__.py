"""Features -> probabilities of all labels, for users without a classifier of their own.

`FirstStage` is the default of :class:`hierlpr.HierarchicalClassifier`: networks, trees and kernels,
averaged with weights learned out of fold. Each member is an estimator of its own.
"""

from hierlpr.first_stage.kernel_ridge import KernelRidgeClassifier
from hierlpr.first_stage.networks import NetworkEnsemble
from hierlpr.first_stage.projection_forest import ProjectionForest
from hierlpr.first_stage.stage import FirstStage

__all__ = ["FirstStage", "KernelRidgeClassifier", "NetworkEnsemble", "ProjectionForest"]
