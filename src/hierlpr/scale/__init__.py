"""The same pipeline over partitions: larger than memory, many machines, nothing lost."""

from typing import TYPE_CHECKING

from hierlpr._base.lazy import loader

if TYPE_CHECKING:
    from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
    from hierlpr.scale.estimate import estimate_instances, estimate_rows
    from hierlpr.scale.evaluating import Evaluated, evaluate_file
    from hierlpr.scale.fit_parts import FitOutcome, fit_file
    from hierlpr.scale.parts import Executor
    from hierlpr.scale.pipeline import Outcome, rank_file
    from hierlpr.scale.ranked_rows import calls_along

# Names and their homes, loaded on first use: an evaluation needs neither compiler nor model.
_HOMES = {
    "DEFAULT_MEMORY": "budget",
    "Budget": "budget",
    "Evaluated": "evaluating",
    "Executor": "parts",
    "FitOutcome": "fit_parts",
    "Outcome": "pipeline",
    "calls_along": "ranked_rows",
    "estimate_instances": "estimate",
    "estimate_rows": "estimate",
    "evaluate_file": "evaluating",
    "fit_file": "fit_parts",
    "parse_memory": "budget",
    "rank_file": "pipeline",
}

__all__ = [
    "DEFAULT_MEMORY",
    "Budget",
    "Evaluated",
    "Executor",
    "FitOutcome",
    "Outcome",
    "calls_along",
    "estimate_instances",
    "estimate_rows",
    "evaluate_file",
    "fit_file",
    "parse_memory",
    "rank_file",
]


__getattr__ = loader(__name__, _HOMES)
