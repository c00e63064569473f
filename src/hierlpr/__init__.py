"""Rank and decide hierarchical multi-label calls with local precision rates."""

from typing import TYPE_CHECKING

from hierlpr._utils import loader

if TYPE_CHECKING:
    from hierlpr import baselines, metrics, plots, simulate
    from hierlpr.audit import Audit, load_audit
    from hierlpr.discovery import Discoveries, discover
    from hierlpr.exceptions import HierlprError, HierlprWarning
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.io import read_hierarchy
    from hierlpr.lpr import LPRModel, fit_lpr
    from hierlpr.model import HierarchicalClassifier, HierLPR, certify, load_model
    from hierlpr.ranking import Ranking, consistent_scores, rank
    from hierlpr.research import paper

__version__ = "0.2.0"

# Public names and their homes. Loading them on first use keeps `import hierlpr` light: the
# compiler, scikit-learn, Arrow and plotting are imported only by those who use them.
_HOMES = {
    "Audit": "audit",
    "Discoveries": "discovery",
    "HierLPR": "model",
    "HierarchicalClassifier": "model",
    "Hierarchy": "hierarchy",
    "HierlprError": "exceptions",
    "HierlprWarning": "exceptions",
    "LPRModel": "lpr",
    "Ranking": "ranking",
    "baselines": "baselines",
    "certify": "model",
    "consistent_scores": "ranking",
    "discover": "discovery",
    "fit_lpr": "lpr",
    "io": "io",
    "load_audit": "audit",
    "load_model": "model",
    "metrics": "metrics",
    "paper": "research.paper",
    "plots": "plots",
    "rank": "ranking",
    "read_hierarchy": "io",
    "report": "report",
    "simulate": "simulate",
}

__all__ = [
    "Audit",
    "Discoveries",
    "HierLPR",
    "HierarchicalClassifier",
    "Hierarchy",
    "HierlprError",
    "HierlprWarning",
    "LPRModel",
    "Ranking",
    "__version__",
    "baselines",
    "certify",
    "consistent_scores",
    "discover",
    "fit_lpr",
    "load_audit",
    "load_model",
    "metrics",
    "paper",
    "plots",
    "rank",
    "read_hierarchy",
    "simulate",
]


__getattr__ = loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
