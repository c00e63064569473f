"""Rank and decide hierarchical multi-label calls with local precision rates."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hierlpr import baselines, metrics, paper, simulate
    from hierlpr.blocks import consistent_scores
    from hierlpr.exceptions import HierlprError, HierlprWarning
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.io import read_hierarchy
    from hierlpr.lpr import LPRModel, fit_lpr
    from hierlpr.model import HierarchicalClassifier, HierLPR, load_model
    from hierlpr.ranking import Ranking, rank

__version__ = "0.1.0"

# Public names and their homes. Loading them on first use keeps `import hierlpr` light: the
# compiler, scikit-learn, Arrow and plotting are imported only by those who use them.
_HOMES = {
    "HierLPR": "hierlpr.model",
    "HierarchicalClassifier": "hierlpr.model",
    "Hierarchy": "hierlpr.hierarchy",
    "HierlprError": "hierlpr.exceptions",
    "HierlprWarning": "hierlpr.exceptions",
    "LPRModel": "hierlpr.lpr",
    "Ranking": "hierlpr.ranking",
    "consistent_scores": "hierlpr.blocks",
    "fit_lpr": "hierlpr.lpr",
    "load_model": "hierlpr.model",
    "rank": "hierlpr.ranking",
    "read_hierarchy": "hierlpr.io",
}

_MODULES = ("baselines", "metrics", "paper", "simulate")

__all__ = [
    "HierLPR",
    "HierarchicalClassifier",
    "Hierarchy",
    "HierlprError",
    "HierlprWarning",
    "LPRModel",
    "Ranking",
    "__version__",
    "baselines",
    "consistent_scores",
    "fit_lpr",
    "load_model",
    "metrics",
    "paper",
    "rank",
    "read_hierarchy",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"hierlpr.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'hierlpr' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
