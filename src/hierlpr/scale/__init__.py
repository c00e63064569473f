"""The same pipeline over partitions: larger than memory, many machines, nothing lost."""

from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
from hierlpr.scale.fitting import FitOutcome, fit_file
from hierlpr.scale.pipeline import Executor, Outcome, rank_file
from hierlpr.scale.rows import calls_along
from hierlpr.scale.spool import estimate_instances

__all__ = [
    "DEFAULT_MEMORY",
    "Budget",
    "Executor",
    "FitOutcome",
    "Outcome",
    "calls_along",
    "estimate_instances",
    "fit_file",
    "parse_memory",
    "rank_file",
]
