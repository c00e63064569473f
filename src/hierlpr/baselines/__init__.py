"""Competing methods: the paper's competitors and simple alternatives.

Ranking methods have the signature of `hierlpr.rank`. Methods that learn are classes with
``fit(scores, truth, hierarchy)`` whose method `rank` has the same signature. Procedures on p-values
have the signature of `hierlpr.discover`.
"""

from hierlpr.baselines.learned import BayesianCorrection, ClusHMC
from hierlpr.baselines.p_value_procedures import (
    benjamini_hochberg,
    dagger,
    meinshausen,
    simes_max_bh,
    yekutieli,
)
from hierlpr.baselines.rank_functions import (
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
    "benjamini_hochberg",
    "dagger",
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
