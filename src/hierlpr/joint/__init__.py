"""The joint posterior: P(label | all scores of its sample)."""

from hierlpr.joint.model import JointModel, fit_joint
from hierlpr.joint.posterior import joint_posterior, posteriors
from hierlpr.joint.prior import LabelPrior, end_posterior, fit_prior, learn_depth_weights
from hierlpr.joint.tempering import USES, Tempering

__all__ = [
    "USES",
    "JointModel",
    "LabelPrior",
    "Tempering",
    "end_posterior",
    "fit_joint",
    "fit_prior",
    "joint_posterior",
    "learn_depth_weights",
    "posteriors",
]
