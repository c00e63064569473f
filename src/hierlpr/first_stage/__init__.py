"""Features -> probabilities of all labels at once, where no classifier is given.

`FirstStage` is the default of :class:`hierlpr.HierarchicalClassifier`: networks, trees and kernels,
averaged with weights learned out of fold. Each member is an estimator of its own.
"""

from typing import TYPE_CHECKING

from hierlpr._base import loader

if TYPE_CHECKING:
    from hierlpr.first_stage.kernel_ridge import KernelRidgeClassifier
    from hierlpr.first_stage.networks import NetworkEnsemble
    from hierlpr.first_stage.projection_forest import ProjectionForest
    from hierlpr.first_stage.stage import FirstStage

__all__ = ["FirstStage", "KernelRidgeClassifier", "NetworkEnsemble", "ProjectionForest"]


__getattr__ = loader(
    __name__,
    {
        "FirstStage": "stage",
        "KernelRidgeClassifier": "kernel_ridge",
        "NetworkEnsemble": "networks",
        "ProjectionForest": "projection_forest",
    },
)
