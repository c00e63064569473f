"""Rankings that ignore the hierarchy."""

from __future__ import annotations

from typing import Any

from hierlpr._base.checks import check_unit_interval
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking
from hierlpr.research.baselines._order import baseline, call_by_score, dense, weighted

__all__ = ["lpr_alone", "raw_scores"]


@baseline(consistent=False)
def lpr_alone(
    lpr: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Sort by LPR and ignore the hierarchy: best pooled precision where no hierarchy binds.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> [h.labels[k] for k in lpr_alone([[0.2, 0.8]], h).label]
    ['B', 'A']
    """
    table, values = dense(lpr, hierarchy, name="lpr")
    check_unit_interval(values, hierarchy.labels, name="lpr")
    return call_by_score(weighted(values, weight, hierarchy), values, table, hierarchy, top=top)


@baseline(consistent=False)
def raw_scores(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Sort by the classifiers' own scores, of any real range, as if they were comparable.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> raw_scores([[-3.0, 7.0]], h).score
    array([ 7., -3.])
    """
    table, values = dense(scores, hierarchy, name="scores")
    return call_by_score(weighted(values, weight, hierarchy), values, table, hierarchy, top=top)
