r"""Alignment of p-values with a hierarchy, and a model of signals along it.

The p-value of a node without signal is uniform; that of a node with signal comes from a normal
score :math:`z = \Phi^{-1}(1 - p)` shifted by :math:`\mu`, so its density is
:math:`f_1(p) = \exp(\mu z - \mu^2 / 2)`, decreasing in :math:`p`. A root has a signal with
probability :math:`\rho`, another node with probability :math:`c` if all its parents have one and
never otherwise. The three numbers are fitted by EM; the E-step is the joint pass of
:mod:`hierlpr.joint`. Of a *hidden* p-value only :math:`\min(p, 1 - p)` is known, that is
:math:`|z|`, and its likelihood ratio is
:math:`(f_1(p) + f_1(1 - p)) / 2 = \exp(-\mu^2 / 2) \cosh \mu z`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from hierlpr._utils.checks import check_real_array, quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents
from hierlpr.joint.posterior import posteriors
from hierlpr.joint.prior import LabelPrior

Float = NDArray[np.float64]

LABEL_COLUMN = "label"
P_COLUMN = "p"
Mask = NDArray[np.bool_]
LEAST_SHIFT, MOST_SHIFT = 0.3, 6.0
LEAST_P = 1e-300
ROUNDING = 1e-12  # how far p-values may lie outside [0, 1]
# Weak prior in pseudo-nodes; without it, EM on a few nodes runs to the boundary.
SHIFT_GUESS, SHIFT_WEIGHT = 2.0, 1.0
SHARE_GUESS, SHARE_WEIGHT = 1.0 / 3.0, 1.5
LEAST_SHARE = 1e-6


def align_p_values(data: Any, hierarchy: Hierarchy) -> Float:
    """Return p-values in the order of ``hierarchy.labels``; NaN where a label has none.

    An array follows ``hierarchy.labels``. A mapping or Series is aligned by label, a data frame by
    its columns ``label`` and ``p``. Absent labels, None and NaN are missing.
    """
    if isinstance(data, Mapping):
        values = _by_label(list(data.keys()), list(data.values()), hierarchy)
    elif (named := _named_series(data)) is not None:
        values = _by_label(*named, hierarchy)
    elif (columns := _frame_columns(data)) is not None:
        values = _by_label(*columns, hierarchy)
    else:
        values = check_real_array(data, name="p_values")
        if values.shape != (hierarchy.n_labels,):
            raise DataError(
                f"p_values has shape {values.shape}, but the hierarchy has "
                f"{hierarchy.n_labels:,} labels: expected one p-value for each of them.\n"
                "Hint: an array follows hierarchy.labels, with NaN for missing p-values; a dict "
                "or a data frame with columns label and p is aligned by name."
            )
    return _in_range(values, hierarchy.labels)


def _named_series(data: Any) -> tuple[list[Any], list[Any]] | None:
    """Return names and values of a pandas Series with a text index, else None."""
    index = getattr(data, "index", None)
    if index is None or callable(index) or not hasattr(data, "to_numpy") or data.ndim != 1:
        return None
    names = list(index)
    return (names, list(data)) if names and isinstance(names[0], str) else None


def _frame_columns(data: Any) -> tuple[list[Any], list[Any]] | None:
    """Return the columns label and p of a data frame of any library, else None."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return None
    absent = [name for name in (LABEL_COLUMN, P_COLUMN) if name not in frame.columns]
    if absent:
        raise DataError(
            f"p_values has no column {quote_names(absent)}; it has {quote_names(frame.columns)}.\n"
            "Hint: a data frame needs the columns label and p; rename yours."
        )
    return frame[LABEL_COLUMN].to_list(), frame[P_COLUMN].to_list()


def _by_label(names: Sequence[Any], given: Sequence[Any], hierarchy: Hierarchy) -> Float:
    unknown = [name for name in names if name not in hierarchy]
    if unknown:
        raise DataError(
            f"p_values has {len(unknown):,} label(s) that are not in the hierarchy: "
            f"{quote_names(unknown)}.\nHint: leave them out, or add them to the hierarchy."
        )
    place = np.array([hierarchy.index(name) for name in names], dtype=np.intp)
    if np.unique(place).size != place.size:
        count = np.bincount(place)
        repeated = [hierarchy.labels[k] for k in np.flatnonzero(count > 1)]
        raise DataError(
            f"p_values has {len(repeated):,} label(s) more than once: {quote_names(repeated)}.\n"
            "Hint: give one p-value per label."
        )
    values = np.full(hierarchy.n_labels, np.nan)
    for at, name, value in zip(place.tolist(), names, given, strict=True):
        if value is None:
            continue
        if isinstance(value, bool | str | complex):
            raise DataError(f"The p-value of label {name!r} is {value!r}, which is not a number.")
        try:
            values[at] = float(value)
        except (TypeError, ValueError):
            if str(value) in ("<NA>", "NaT"):  # how pandas spells a missing value
                continue
            raise DataError(
                f"The p-value of label {name!r} is {value!r}, which is not a number."
            ) from None
    return values


def _in_range(values: Float, labels: Sequence[str]) -> Float:
    """Refuse values outside [0, 1], except by rounding."""
    bad = np.flatnonzero((values < -ROUNDING) | (values > 1.0 + ROUNDING))
    if bad.size:
        raise DataError(
            f"p_values has a value outside [0, 1]: {values[bad[0]]} at label {labels[bad[0]]!r} "
            f"({bad.size:,} such {'value' if bad.size == 1 else 'values'}).\n"
            "Hint: give p-values, not test statistics or their logarithms."
        )
    if np.isnan(values).all():
        raise DataError("p_values has no p-value: all are missing.")
    return np.clip(values, 0.0, 1.0)


# -- model of signals -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShiftModel:
    """A fitted model of signals.

    Attributes
    ----------
    shift : float
        Mean of the normal score of a signal.
    root, child : float
        Probability of a signal at a root, and at another node whose parents all have one.
    """

    shift: float = SHIFT_GUESS
    root: float = SHARE_GUESS
    child: float = SHARE_GUESS

    def density(self, p: Float) -> Float:
        """Return the density of the p-value of a signal."""
        return np.asarray(np.exp(self.shift * normal_scores(p) - 0.5 * self.shift**2))

    def small_share(self, z: Float, posterior: Float) -> Float:
        """Return P(p < 1/2) of hidden p-values that are signals with probability `posterior`."""
        return np.asarray(0.5 * (1.0 - posterior) + posterior * expit(2.0 * self.shift * np.abs(z)))


def normal_scores(p: Float) -> Float:
    """Return z with P(Z > z) = p; NaN where p is, finite at 0 and 1."""
    return np.asarray(-ndtri(np.clip(p, LEAST_P, 1.0 - 2.0**-53)))


def fit_shift(
    z: Float, hidden: Mask, hierarchy: Hierarchy, start: ShiftModel, n_steps: int
) -> tuple[Float, ShiftModel]:
    """Run EM for `n_steps` from `start`; return P(signal) of every node and the fitted model.

    Parameters
    ----------
    z : ndarray of shape (n_labels,)
        Normal scores, NaN where there is no p-value; only ``abs(z)`` is used where `hidden`.
    """
    h = hierarchy
    is_root = np.diff(h.parent_ptr)[h.position] == 0
    # Any prevalence will do: it cancels in the likelihood ratios. If the joint pass keeps one
    # parent of several, it keeps the rarest, here the deepest.
    prevalence = 0.5 / (1.0 + 1e-4 * h.levels.astype(np.float64))
    log_odds = np.log(prevalence) - np.log1p(-prevalence)
    size = np.where(np.isnan(z), 0.0, np.abs(z))
    model = start
    for _ in range(n_steps):
        mu = model.shift
        signed = np.where(hidden, size + np.logaddexp(0.0, -2.0 * mu * size) / mu, z)
        log_ratio = mu * signed - 0.5 * mu**2 - np.log(2.0) * hidden
        share = np.where(is_root, model.root, model.child)
        chance = expit(log_odds + log_ratio)  # stays NaN where there is no p-value
        posterior = posteriors(chance[None], LabelPrior(prevalence, share), h, n_jobs=1)[0]
        mean = np.where(hidden, size * np.tanh(mu * size), np.nan_to_num(z))
        model = _update(posterior, mean, ~np.isnan(z), is_root, h)
    return posterior, model


def _update(
    posterior: Float, mean: Float, tested: Mask, is_root: Mask, hierarchy: Hierarchy
) -> ShiftModel:
    """Return the M-step: weighted means, including the pseudo-nodes."""
    weight = posterior * tested
    shift = (weight @ mean + SHIFT_WEIGHT * SHIFT_GUESS) / (weight.sum() + SHIFT_WEIGHT)
    h = hierarchy
    rarest = rarest_parents(h, posterior)
    possible = np.where(rarest >= 0, posterior[h.order[rarest]], 1.0)[h.position]
    shares = []
    for group in (is_root, ~is_root):
        signals = posterior[group].sum() + SHARE_WEIGHT * SHARE_GUESS
        share = signals / (possible[group].sum() + SHARE_WEIGHT)
        shares.append(float(np.clip(share, LEAST_SHARE, 1.0 - LEAST_SHARE)))
    return ShiftModel(float(np.clip(shift, LEAST_SHIFT, MOST_SHIFT)), shares[0], shares[1])
