"""Competing methods: everything the paper compares with, with the signature of `hierlpr.rank`.

Each says whether its order is `consistent`, that is never puts a label before one of its parents.
Those that learn from data are classes with ``fit(scores, truth, hierarchy)``; their method `rank`
then has the same signature. Those on p-values have the signature of `hierlpr.discover`.
"""

from hierlpr.research.baselines.learned import BayesianCorrection, ClusHMC, FirstStageCalls
from hierlpr.research.baselines.p_value_procedures import (
    benjamini_hochberg,
    dagger,
    meinshausen,
    simes_max_bh,
    yekutieli,
)
from hierlpr.research.baselines.rank_functions import (
    cssa,
    gpav,
    gpav_scores,
    lpr_alone,
    max_propagation,
    propagate_max,
    propagate_min,
    raw_scores,
    single_parent,
    top_down,
)

__all__ = [
    "BayesianCorrection",
    "ClusHMC",
    "FirstStageCalls",
    "benjamini_hochberg",
    "cssa",
    "dagger",
    "gpav",
    "gpav_scores",
    "lpr_alone",
    "max_propagation",
    "meinshausen",
    "propagate_max",
    "propagate_min",
    "raw_scores",
    "simes_max_bh",
    "single_parent",
    "top_down",
    "yekutieli",
]
