"""How good are calls, scores and rankings: curves and scalars on plain arrays.

Names end in ``_score`` (higher is better), ``_error`` (lower is better) or ``_curve`` (arrays).
"""

from hierlpr.metrics.cafa import (
    CafaCurve,
    cafa_curve,
    cafa_f_max_score,
    information_accretion,
    s_min_error,
)
from hierlpr.metrics.calls import (
    brier_error,
    calibration_error,
    f_curve,
    f_max_score,
    f_score,
    label_au_prc_scores,
    mean_au_prc_score,
    precision_score,
    recall_score,
)
from hierlpr.metrics.hierarchical import (
    h_error,
    hierarchical_f_score,
    hierarchical_hamming_error,
    hierarchical_precision_score,
    hierarchical_recall_score,
    order_violations_error,
    violations_error,
)
from hierlpr.metrics.hits import (
    au_prc_score,
    early_precision_score,
    eauc_score,
    hit_area_score,
    hit_curve,
    normalized_hit_area_score,
    precision_recall_curve,
)

__all__ = [
    "CafaCurve",
    "au_prc_score",
    "brier_error",
    "cafa_curve",
    "cafa_f_max_score",
    "calibration_error",
    "early_precision_score",
    "eauc_score",
    "f_curve",
    "f_max_score",
    "f_score",
    "h_error",
    "hierarchical_f_score",
    "hierarchical_hamming_error",
    "hierarchical_precision_score",
    "hierarchical_recall_score",
    "hit_area_score",
    "hit_curve",
    "information_accretion",
    "label_au_prc_scores",
    "mean_au_prc_score",
    "normalized_hit_area_score",
    "order_violations_error",
    "precision_recall_curve",
    "precision_score",
    "recall_score",
    "s_min_error",
    "violations_error",
]
