"""Pictures of a model: Display objects in the manner of scikit-learn, with the report's numbers.

Each is made by ``from_model`` or ``from_ranking``, drawn by ``plot(ax=None)``, and keeps what it
drew on as ``ax_`` and ``figure_``. Drawing needs matplotlib (``hierlpr[report]``).
"""

from typing import TYPE_CHECKING

from hierlpr._base.lazy import loader

if TYPE_CHECKING:
    from hierlpr.plots.curve_displays import (
        CalibrationDisplay,
        HitDisplay,
        LPRDisplay,
        PrecisionDisplay,
        RecallDisplay,
    )
    from hierlpr.plots.sample_tree import SampleDisplay

_HOMES = {
    "CalibrationDisplay": "curve_displays",
    "HitDisplay": "curve_displays",
    "LPRDisplay": "curve_displays",
    "PrecisionDisplay": "curve_displays",
    "RecallDisplay": "curve_displays",
    "SampleDisplay": "sample_tree",
}

__all__ = [
    "CalibrationDisplay",
    "HitDisplay",
    "LPRDisplay",
    "PrecisionDisplay",
    "RecallDisplay",
    "SampleDisplay",
]

__getattr__ = loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
