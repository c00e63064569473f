"""Discoveries: what was found on a hierarchy, in which order, and under which assumption."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_level
from hierlpr._base.showing import html_table
from hierlpr.data.frames import new_frame
from hierlpr.discovery.p_values import ShiftModel
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]

OTHER_LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3)
SHOWN = 20  # rows of the HTML table


@dataclass(frozen=True, eq=False, repr=False)
class Discoveries:
    """Nodes of a hierarchy that were rejected, with what is known about all others.

    Arrays follow ``hierarchy.labels``.

    Attributes
    ----------
    hierarchy : Hierarchy
    p : ndarray
        The p-values given; NaN where there is none.
    level : ndarray
        The smallest `fdr` at which the node would be rejected; 1 if that is no `fdr` below 1. It
        never falls from a parent to a child.
    lpr : ndarray
        Posterior probability that the node is not null, under `model`.
    order : ndarray of int
        All nodes by `lpr`, best first, parents before children: indices of labels.
    fdr : float
        The level asked for.
    method : str
        Name of the procedure.
    null : str
        What "null" means at a node.
    assumption : str
        Under which assumption `fdr` holds, in words.
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
        """The labels rejected, in the order of `ranking`; all their ancestors are among them."""
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

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default pandas if it is installed, else pyarrow.
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
        """Return the result in numbers and words, as JSON can hold them."""
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
            "model": {
                "shift": self.model.shift,
                "root": self.model.root,
                "child": self.model.child,
            },
        }

    def summary(self) -> str:
        """Return what was found, by depth and at other levels, and what it rests on."""
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
        found, n = int(self.is_rejected.sum()), self.hierarchy.n_labels
        return f"{found:,} of {n:,} labels rejected at fdr {self.fdr:g} ({self.method})."

    def __str__(self) -> str:
        """Say what was found and under which assumption it holds."""
        return f"{self._headline()}\nNull: {self.null}\nHolds: {self.assumption}"

    def __repr__(self) -> str:
        return f"<Discoveries: {self._headline()}>"

    def _repr_html_(self) -> str:
        """Show the first discoveries in a notebook."""
        shown = self.order[self.is_rejected[self.order]][:SHOWN]
        rows = [
            (
                self.hierarchy.caption(self.hierarchy.labels[k]),
                f"{self.p[k]:.3g}",
                float(self.lpr[k]),
                f"{self.level[k]:.3g}",
            )
            for k in shown.tolist()
        ]
        more = int(self.is_rejected.sum()) - shown.size
        return (
            f"<p><b>{escape(self._headline())}</b><br>Null: {escape(self.null)}<br>"
            f"Holds: {escape(self.assumption)}</p>"
            + html_table(["label", "p", "lpr", "level"], rows)
            + (f"<p>and {more:,} more</p>" if more else "")
        )
