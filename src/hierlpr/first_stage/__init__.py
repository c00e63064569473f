"""Features -> probabilities of all labels, for users without a classifier of their own.

`FirstStage` is the default of :class:`hierlpr.HierarchicalClassifier`: networks, trees and kernels,
averaged with weights learned out of fold.
"""

from hierlpr.first_stage.stage import FirstStage

__all__ = ["FirstStage"]
