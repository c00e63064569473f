"""Pictures of a model: Display objects in the manner of scikit-learn, with the report's numbers.

Each is made by ``from_model`` or ``from_ranking``, drawn by ``plot(ax=None)``, and keeps what it
drew on as ``ax_`` and ``figure_``. Drawing needs matplotlib (``hierlpr[report]``).
"""

from typing import TYPE_CHECKING

from hierlpr._base import loader

if TYPE_CHECKING:
    from hierlpr.plots.displays import (
        CalibrationDisplay,
        HitDisplay,
        LPRDisplay,
        PrecisionDisplay,
        RecallDisplay,
        SampleDisplay,
    )

__all__ = [
    "CalibrationDisplay",
    "HitDisplay",
    "LPRDisplay",
    "PrecisionDisplay",
    "RecallDisplay",
    "SampleDisplay",
]

__getattr__ = loader(__name__, dict.fromkeys(__all__, "displays"))


def __dir__() -> list[str]:
    return sorted(__all__)
