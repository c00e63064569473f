"""Local precision rates: score to P(label | score), comparable across labels."""

from hierlpr.lpr.curves import LPRCurves
from hierlpr.lpr.diagnostics import LabelReport
from hierlpr.lpr.estimators import ESTIMATORS, Estimator, GroupFit, make_estimator
from hierlpr.lpr.fitting import (
    LPRModel,
    fit_data,
    fit_known,
    fit_lpr,
    own_lpr,
    refit,
    with_sharing,
    without_gaps,
)
from hierlpr.lpr.implied import ImpliedLPR, fit_listed
from hierlpr.lpr.shared import SharedCurves
from hierlpr.lpr.training import ScoreGroups

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "GroupFit",
    "ImpliedLPR",
    "LPRCurves",
    "LPRModel",
    "LabelReport",
    "ScoreGroups",
    "SharedCurves",
    "fit_data",
    "fit_known",
    "fit_listed",
    "fit_lpr",
    "make_estimator",
    "own_lpr",
    "refit",
    "with_sharing",
    "without_gaps",
]
