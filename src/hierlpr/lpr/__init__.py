"""Local precision rates: score to P(label | score), comparable across labels."""

from hierlpr.lpr.choice import refit
from hierlpr.lpr.curves import LPRCurves
from hierlpr.lpr.diagnostics import LabelReport
from hierlpr.lpr.estimators import ESTIMATORS, make_estimator
from hierlpr.lpr.fitting import LPRModel, fit_known, fit_lpr, own_lpr
from hierlpr.lpr.implied import ImpliedLPR, fit_listed
from hierlpr.lpr.shared import SharedCurves
from hierlpr.lpr.training import ScoreGroups

__all__ = [
    "ESTIMATORS",
    "ImpliedLPR",
    "LPRCurves",
    "LPRModel",
    "LabelReport",
    "ScoreGroups",
    "SharedCurves",
    "fit_known",
    "fit_listed",
    "fit_lpr",
    "make_estimator",
    "own_lpr",
    "refit",
]
