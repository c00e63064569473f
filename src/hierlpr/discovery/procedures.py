"""discover(): the procedure that fits what the user can say about dependence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_choice, check_level
from hierlpr.discovery.dagger import branch_p_values, dagger_levels
from hierlpr.discovery.found import Discoveries
from hierlpr.discovery.p_values import ShiftModel, align_p_values, fit_shift, normal_scores
from hierlpr.discovery.star import star_levels
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.ranking.order import rank

Float = NDArray[np.float64]

DEPENDENCE = ("positive", "independent", "arbitrary")
EM_STEPS = 50


@dataclass(frozen=True, slots=True)
class _Words:
    """What a procedure is called, what it takes for a null, and when it holds."""

    method: str
    null: str
    assumption: str


_BRANCH = "no signal at the label nor anywhere below it."
_OWN = "no signal at the label itself."
_WORDS = {
    "positive": _Words(
        "Simes-DAGGER",
        _BRANCH,
        "the FDR is at most fdr if the p-values are independent or positively dependent (PRDS) "
        "and valid.",
    ),
    "arbitrary": _Words(
        "Simes-DAGGER, reshaped",
        _BRANCH,
        "the FDR is at most fdr for valid p-values of any dependence.",
    ),
    "independent": _Words(
        "HierLPR-STAR",
        _OWN,
        "the FDR is at most fdr, counted over labels that have a p-value, if the p-values of null "
        "labels are valid, independent of each other and of all others, and as likely near 1 - x "
        "as near x for x < 1/2, or likelier (uniform, or of non-decreasing density). The model "
        "only decides the power.",
    ),
    "bayes": _Words(
        "posterior mean",
        _OWN,
        "model-based: the FDR is about fdr if the fitted model is right; nothing is promised for "
        "finite samples.",
    ),
}


def discover(
    p_values: Any,
    hierarchy: HierarchyLike,
    fdr: float = 0.1,
    dependence: Literal["positive", "independent", "arbitrary"] = "positive",
    rng: int | np.random.Generator | None = None,
    *,
    bayes: bool = False,
) -> Discoveries:
    r"""Reject nodes of a hierarchy by their p-values, closed upward, with a controlled FDR.

    Choose `dependence` by what is known about the p-values before looking at them.

    Parameters
    ----------
    p_values : array-like of shape (n_labels,), dict, or data frame with columns label and p
        An array follows ``hierarchy.labels``. Missing p-values are allowed: NaN, None, or a label
        that a dict or frame leaves out. Whether one is missing must not depend on its value.
    hierarchy : Hierarchy, path, dict, edges or networkx graph
    fdr : float
        Largest false discovery rate, strictly between 0 and 1.
    dependence : {"positive", "independent", "arbitrary"}
        ``"positive"``: Simes' p-value of each node with all its descendants, then DAGGER. For
        p-values that are independent or positively dependent (PRDS).
        ``"arbitrary"``: the same with Simes' p-value times the harmonic number and reshaped
        levels; for any dependence.
        ``"independent"``: HierLPR-STAR; for independent p-values, the most powerful where signals
        are many. It spends nine tenths of `fdr` on finding many, at least 1.52 / `fdr` of them,
        and a tenth on DAGGER with the nodes' own p-values, which finds single ones; where signals
        are few, ``"positive"`` finds more.
    rng : int or numpy.random.Generator, optional
        Breaks ties at random in HierLPR-STAR; by default they go by the order of the hierarchy.
    bayes : bool
        Instead take the longest prefix of the ranking whose mean of 1 - LPR is at most `fdr`:
        model-based, with no promise for finite samples. `dependence` is then not used.

    Returns
    -------
    Discoveries

    Notes
    -----
    With ``"positive"`` and ``"arbitrary"`` the null of a node reads "no signal here nor anywhere
    below": a node that has no p-value of its own is tested by those below it, and one that has
    none below it either is left out. With ``"independent"`` the null of a node is about its own
    p-value; a node without one is rejected only with a descendant that is, and is not counted.

    References
    ----------
    Ramdas et al. (2019), key ``ramdas2019dagger``; Lei, Ramdas and Fithian (2021), key
    ``lei2021star``; Simes (1986), key ``simes1986``; Benjamini and Yekutieli (2001), key
    ``benjamini2001`` in ``docs/references.bib``.

    Examples
    --------
    >>> h = Hierarchy([("heart", "rhythm"), ("heart", "valve"), ("rhythm", "flutter")])
    >>> found = discover({"heart": 0.2, "rhythm": 0.001, "valve": 0.6, "flutter": 0.004}, h)
    >>> found.rejected
    ('heart', 'rhythm', 'flutter')
    >>> found.level.round(4)
    array([0.004, 0.004, 0.4  , 0.004])
    >>> found
    <Discoveries: 3 of 4 labels rejected at fdr 0.1 (Simes-DAGGER).>
    """
    hierarchy = as_hierarchy(hierarchy)
    fdr = check_level(fdr, name="fdr")
    check_choice(dependence, DEPENDENCE, name="dependence")
    generator = _check_rng(rng)
    p = align_p_values(p_values, hierarchy)
    hidden = np.zeros(p.size, dtype=bool)
    lpr, model = fit_shift(normal_scores(p), hidden, hierarchy, ShiftModel(), EM_STEPS)
    lpr = _lift(lpr, hierarchy)
    order = np.asarray(rank(lpr[None], hierarchy).label, dtype=np.intp)
    if bayes:
        level = _posterior_levels(lpr, order)
    elif dependence == "independent":
        level = star_levels(p, hierarchy, generator)
    else:
        arbitrary = dependence == "arbitrary"
        branch = branch_p_values(p, hierarchy, arbitrary=arbitrary)
        level = dagger_levels(branch, hierarchy, arbitrary=arbitrary)
    words = _WORDS["bayes" if bayes else dependence]
    return Discoveries(
        hierarchy, p, level, lpr, order, fdr, words.method, words.null, words.assumption, model
    )


def _lift(lpr: Float, hierarchy: Hierarchy) -> Float:
    """Raise parents to their children where the joint pass, on a large DAG, dropped an edge."""
    if hierarchy.is_forest:
        return lpr
    ptr, idx = hierarchy.parent_ptr.tolist(), hierarchy.parent_idx
    numbered = lpr[hierarchy.order]
    for v in range(hierarchy.n_labels - 1, -1, -1):  # children have larger numbers
        above = idx[ptr[v] : ptr[v + 1]]
        numbered[above] = np.maximum(numbered[above], numbered[v])
    return np.asarray(numbered[hierarchy.position])


def _posterior_levels(lpr: Float, order: NDArray[np.intp]) -> Float:
    """Least mean of 1 - LPR over the prefixes of the ranking that hold each node."""
    mean = np.cumsum(1.0 - lpr[order]) / np.arange(1, order.size + 1)
    level = np.empty(order.size)
    level[order] = np.minimum.accumulate(mean[::-1])[::-1]
    return level


def _check_rng(rng: Any) -> np.random.Generator | None:
    if rng is None:
        return None
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise DataError(f"rng must be a seed or a numpy Generator, got {rng!r}: {error}.") from None
