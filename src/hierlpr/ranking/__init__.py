"""LPRs -> blocks -> one global order that keeps the hierarchy."""

from typing import TYPE_CHECKING

from hierlpr._base.lazy import loader

if TYPE_CHECKING:
    from hierlpr.ranking.blocks import consistent_scores
    from hierlpr.ranking.order import Call, Ranking, rank

_HOMES = {
    "Call": "order",
    "Ranking": "order",
    "consistent_scores": "blocks",
    "rank": "order",
}

__all__ = ["Call", "Ranking", "consistent_scores", "rank"]


__getattr__ = loader(__name__, _HOMES)
