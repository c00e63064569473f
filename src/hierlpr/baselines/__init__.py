"""Competing methods: everything the paper compares with, with the signature of `hierlpr.rank`.

Each says whether its order is `consistent`, that is never puts a label before one of its parents.
Those that learn from data are classes with ``fit(scores, truth, hierarchy)``; their method `rank`
then has the same signature.
"""

from hierlpr.baselines.clus import ClusHMC
from hierlpr.baselines.cssa import cssa
from hierlpr.baselines.first_stage import BayesianCorrection, FirstStageCalls
from hierlpr.baselines.flat import lpr_alone, raw_scores
from hierlpr.baselines.propagated import (
    gpav,
    gpav_scores,
    max_propagation,
    propagate_max,
    propagate_min,
    top_down,
)
from hierlpr.baselines.single_parent import single_parent

__all__ = [
    "BayesianCorrection",
    "ClusHMC",
    "FirstStageCalls",
    "cssa",
    "gpav",
    "gpav_scores",
    "lpr_alone",
    "max_propagation",
    "propagate_max",
    "propagate_min",
    "raw_scores",
    "single_parent",
    "top_down",
]
