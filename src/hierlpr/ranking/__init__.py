"""LPRs -> blocks -> one global order that keeps the hierarchy."""

from hierlpr.ranking.blocks import consistent_scores
from hierlpr.ranking.order import Call, Ranking, rank

__all__ = ["Call", "Ranking", "consistent_scores", "rank"]
