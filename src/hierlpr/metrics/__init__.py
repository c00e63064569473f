"""How good are calls, scores and rankings: curves and scalars on plain arrays.

Names end in ``_score`` (higher is better), ``_error`` (lower is better) or ``_curve`` (arrays).
"""

from hierlpr.metrics.curves import (
    au_prc_score,
    early_precision_score,
    eauc_score,
    hit_area_score,
    hit_curve,
    normalized_hit_area_score,
    precision_recall_curve,
)

__all__ = [
    "au_prc_score",
    "early_precision_score",
    "eauc_score",
    "hit_area_score",
    "hit_curve",
    "normalized_hit_area_score",
    "precision_recall_curve",
]
