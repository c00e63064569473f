"""The joint posterior: P(label | all scores of its sample)."""

from hierlpr.joint.model import JointModel, fit_joint
from hierlpr.joint.one_path import end_posterior, learn_depth_weights
from hierlpr.joint.posterior import joint_posterior, posteriors
from hierlpr.joint.prior import LabelPrior, fit_prior
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
