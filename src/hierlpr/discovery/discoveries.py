"""`discover`, which selects a procedure by the dependence of the p-values, and its result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.traversal import max_up
from hierlpr._utils.checks import check_choice, check_level
from hierlpr.data.frames import new_frame
from hierlpr.discovery.p_values import ShiftModel, align_p_values, fit_shift, normal_scores
from hierlpr.discovery.procedures import branch_p_values, dagger_levels, star_levels
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.conversion import HierarchyLike, as_hierarchy
from hierlpr.ranking.order import rank

Float = NDArray[np.float64]

OTHER_LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True, eq=False, repr=False)
class Discoveries:
    """Rejected nodes of a hierarchy, with levels and probabilities of all nodes.

    Arrays follow ``hierarchy.labels``.

    Attributes
    ----------
    hierarchy : Hierarchy
    p, lpr : ndarray
        The p-values (NaN where there is none), and the posterior probability under `model` that the
        node is not null.
    level : ndarray
        The smallest `fdr` at which the node would be rejected, 1 if there is none. It never falls
        from a parent to a child.
    order : ndarray of int
        Indices of all labels by `lpr`, best first, parents before children.
    fdr : float
        Requested level.
    method, null, assumption : str
        The procedure, the null hypothesis of a node, and when `fdr` is controlled, as text.
    model : ShiftModel
        The model behind `lpr`.
    """

    hierarchy: Hierarchy
    p: Float
    level: Float
    lpr: Float
    order: NDArray[np.intp]
    fdr: float
    method: str
    null: str
    assumption: str
    model: ShiftModel

    @cached_property
    def is_rejected(self) -> NDArray[np.bool_]:
        """Whether each node is rejected; closed upward."""
        return self.level <= self.fdr

    @property
    def rejected(self) -> tuple[str, ...]:
        """Rejected labels, in the order of `ranking`; they include all their ancestors."""
        return self._names(self.order[self.is_rejected[self.order]])

    @property
    def ranking(self) -> tuple[str, ...]:
        """All labels, best first, parents before children."""
        return self._names(self.order)

    def count(self, fdr: float) -> int:
        """Return how many nodes would be rejected at another level."""
        return int(np.count_nonzero(self.level <= check_level(fdr, name="fdr")))

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with columns rank, label, p, lpr, level and rejected.

        By default of pandas if it is installed, else of pyarrow.
        """
        columns = {
            "rank": np.arange(1, self.order.size + 1),
            "label": np.array(self.hierarchy.labels, dtype=object)[self.order],
            "p": self.p[self.order],
            "lpr": self.lpr[self.order],
            "level": self.level[self.order],
            "rejected": self.is_rejected[self.order],
        }
        return new_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        tested = ~np.isnan(self.p)
        return {
            "fdr": self.fdr,
            "method": self.method,
            "assumption": self.assumption,
            "null": self.null,
            "n_labels": self.hierarchy.n_labels,
            "n_p_values": int(tested.sum()),
            "n_rejected": int(self.is_rejected.sum()),
            "n_rejected_at": {f"{fdr:g}": self.count(fdr) for fdr in OTHER_LEVELS},
            "model": asdict(self.model),
        }

    def summary(self) -> str:
        """Return a text with rejections per depth and at other levels, and the assumption."""
        depth = self.hierarchy.levels
        tested = ~np.isnan(self.p)
        lines = [str(self), "", f"{'depth':>7} {'labels':>9} {'p-values':>9} {'rejected':>9}"]
        for d in range(1, self.hierarchy.depth + 1):
            at = depth == d
            lines.append(
                f"{d:>7} {at.sum():>9,} {(at & tested).sum():>9,} "
                f"{(at & self.is_rejected).sum():>9,}"
            )
        at_others = ", ".join(f"{self.count(fdr):,} at {fdr:g}" for fdr in OTHER_LEVELS)
        lines += ["", f"Rejected at other levels: {at_others}."]
        return "\n".join(lines)

    def _names(self, order: NDArray[np.intp]) -> tuple[str, ...]:
        return tuple(self.hierarchy.labels[k] for k in order.tolist())

    def _headline(self) -> str:
        n_rejected, n = int(self.is_rejected.sum()), self.hierarchy.n_labels
        return f"{n_rejected:,} of {n:,} labels rejected at fdr {self.fdr:g} ({self.method})."

    def __str__(self) -> str:
        """Return the number of rejections, the null hypothesis and the assumption."""
        return f"{self._headline()}\nNull: {self.null}\nHolds: {self.assumption}"

    def __repr__(self) -> str:
        return f"<Discoveries: {self._headline()}>"


DEPENDENCE = ("positive", "independent", "arbitrary")
EM_STEPS = 50

_BRANCH, _NODE = "no signal at the label or below it.", "no signal at the label itself."
# Name of a procedure, null hypothesis of a node, and assumption.
_WORDS = {
    "positive": (
        "Simes-DAGGER",
        _BRANCH,
        "the FDR is at most fdr if the p-values are independent or positively dependent (PRDS) "
        "and valid.",
    ),
    "arbitrary": (
        "Simes-DAGGER, reshaped",
        _BRANCH,
        "the FDR is at most fdr for valid p-values of any dependence.",
    ),
    "independent": (
        "HierLPR-STAR",
        _NODE,
        "the FDR is at most fdr, counted over labels that have a p-value, if the p-values of null "
        "labels are valid, independent of each other and of all others, and at least as likely "
        "near 1 - x as near x for x < 1/2 (uniform, or of non-decreasing density). The model "
        "only affects the power.",
    ),
    "bayes": (
        "posterior mean",
        _NODE,
        "model-based: the FDR is about fdr if the fitted model is correct; there is no "
        "finite-sample guarantee.",
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

    Choose `dependence` by what is known about the p-values before seeing them.

    Parameters
    ----------
    p_values : array-like of shape (n_labels,), dict, or data frame with columns label and p
        An array follows ``hierarchy.labels``. p-values may be missing: NaN, None, or a label that
        is not in the dict or frame. Whether one is missing must not depend on its value.
    hierarchy : Hierarchy, path, dict, edges or networkx graph
    fdr : float
        Largest false discovery rate, strictly between 0 and 1.
    dependence : {"positive", "independent", "arbitrary"}
        ``"positive"``: Simes' p-value of each node with all its descendants, then DAGGER. For
        p-values that are independent or positively dependent (PRDS).
        ``"arbitrary"``: the same with Simes' p-value times the harmonic number and reshaped
        levels; for any dependence.
        ``"independent"``: HierLPR-STAR; for independent p-values, the most powerful if there are
        many signals. It spends nine tenths of `fdr` on rejecting many nodes, at least
        1.52 / `fdr`, and a tenth on DAGGER with the nodes' own p-values, which can reject a single
        node; with few signals ``"positive"`` finds more.
    rng : int or numpy.random.Generator, optional
        Breaks ties in HierLPR-STAR at random; by default in the order of the hierarchy.
    bayes : bool
        Reject the longest prefix of the ranking whose mean of 1 - LPR is at most `fdr` instead:
        model-based, without a finite-sample guarantee. `dependence` is not used.

    Returns
    -------
    Discoveries

    Notes
    -----
    With ``"positive"`` and ``"arbitrary"`` the null of a node is "no signal here or below": a node
    without a p-value is tested by those below it, and not at all if there are none. With
    ``"independent"`` the null of a node is about its own p-value; a node without one is rejected
    only together with a descendant, and is not counted in the FDR.

    References
    ----------
    Ramdas et al. (2019), key ``ramdas2019dagger``; Lei, Ramdas and Fithian (2021), key
    ``lei2021star``; Simes (1986), key ``simes1986``; Benjamini and Yekutieli (2001), key
    ``benjamini2001`` in ``docs/references.bib``.

    Examples
    --------
    >>> h = Hierarchy([("heart", "rhythm"), ("heart", "valve"), ("rhythm", "flutter")])
    >>> discoveries = discover({"heart": 0.2, "rhythm": 0.001, "valve": 0.6, "flutter": 0.004}, h)
    >>> discoveries.rejected
    ('heart', 'rhythm', 'flutter')
    >>> discoveries.level.round(4)
    array([0.004, 0.004, 0.4  , 0.004])
    >>> discoveries
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
    return Discoveries(hierarchy, p, level, lpr, order, fdr, *words, model)


def _lift(lpr: Float, hierarchy: Hierarchy) -> Float:
    """Raise parents to their children, for edges that the joint pass dropped on a large DAG."""
    raised = lpr[None].copy()
    max_up(raised, hierarchy.order, hierarchy.parent_ptr, hierarchy.parent_idx)
    return np.asarray(raised[0])


def _posterior_levels(lpr: Float, order: NDArray[np.intp]) -> Float:
    """Return the smallest mean of 1 - LPR over the prefixes of the ranking with each node."""
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
