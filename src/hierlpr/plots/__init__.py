"""Display objects in the style of scikit-learn, with the numbers of the report.

Each is created by ``from_model``, drawn by ``plot(ax=None)``, and keeps the matplotlib objects as
``ax_`` and ``figure_``.
"""

from hierlpr.plots.displays import (
    CalibrationDisplay,
    HitDisplay,
    PrecisionDisplay,
    RecallDisplay,
)
from hierlpr.plots.names import NamesDisplay

__all__ = [
    "CalibrationDisplay",
    "HitDisplay",
    "NamesDisplay",
    "PrecisionDisplay",
    "RecallDisplay",
]
