"""A ranking against the truth: every measure that applies, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr import metrics
from hierlpr._validation import Matrix
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.metrics.curves import HitCurve

__all__ = ["Evaluation", "evaluate_ranking"]

Index = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sizes and measures by name; a measure that the data do not define is None."""

    sizes: dict[str, int]
    ranking: dict[str, float | int | None]
    decisions: dict[str, float | int | None]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"sizes": self.sizes, "ranking": self.ranking, "decisions": self.decisions}


def evaluate_ranking(
    sample: Index,
    label: Index,
    score: NDArray[np.float64],
    truth: Matrix | NDArray[np.bool_],
    hierarchy: Hierarchy,
    *,
    ordered: bool = True,
    call: NDArray[np.bool_] | None = None,
) -> Evaluation:
    """Measure a list of instances, best first, against the truth of all samples.

    Parameters
    ----------
    sample, label : ndarray of int
        Row and column in `truth` of every listed instance.
    score : ndarray of float
    truth : ndarray or CSR of shape (n_samples, n_labels)
        Closed upward. Instances that are not listed come last, all tied.
    hierarchy : Hierarchy
    ordered : bool
        Whether the order of the list counts among equal scores (a ranking), or equal scores are
        one group (scores of any other method).
    call : ndarray of bool, optional
        Which of the listed instances are called; then the decisions are measured too.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> found = evaluate_ranking(
    ...     np.array([0, 0]), np.array([0, 1]), np.array([0.9, 0.4]), np.array([[1, 0], [0, 0]]), h
    ... )
    >>> found.ranking["normalized hit area"], found.ranking["parents after a child"]
    (1.0, 0)
    """
    held = sparse.csr_array(truth).astype(bool)
    status = _lookup(held, sample, label)
    n = held.shape[0] * held.shape[1]
    curve = _pooled(status, score, n, int(held.sum()), ordered)
    given = sparse.csr_array((score, (sample, label)), shape=held.shape)
    ranking: dict[str, float | int | None] = {
        "normalized hit area": _try(metrics.normalized_hit_area_score, curve),
        "AU(PRC)": _try(metrics.au_prc_score, curve),
        "F-max, pooled": _try(metrics.f_max_score, curve),
        "precision to recall 0.5": _try(metrics.early_precision_score, curve),
        "F-max, CAFA": _try(metrics.cafa_f_max_score, held, given, hierarchy),
        "S-min, CAFA": _try(metrics.s_min_error, held, given, hierarchy),
        "calibration error": _try(metrics.calibration_error, status, score),
        "parents after a child": metrics.order_violations_error(
            sample, label, hierarchy, n_samples=held.shape[0]
        ),
    }
    sizes = {
        "samples": held.shape[0],
        "labels": held.shape[1],
        "instances": n,
        "positives": int(held.sum()),
        "listed": int(sample.size),
    }
    if call is None:
        return Evaluation(sizes, ranking, {})
    sizes["called"] = int(np.count_nonzero(call))
    return Evaluation(sizes, ranking, _decisions(sample[call], label[call], held, hierarchy))


def _lookup(held: sparse.csr_array, sample: Index, label: Index) -> NDArray[np.bool_]:
    """Truth of each listed instance, by binary search in the sorted keys of the positives."""
    rows = np.repeat(np.arange(held.shape[0], dtype=np.int64), np.diff(held.indptr))
    keys = np.sort(rows * held.shape[1] + held.indices)
    wanted = sample.astype(np.int64) * held.shape[1] + label
    if keys.size == 0:
        return np.zeros(wanted.size, dtype=bool)
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.asarray(keys[at] == wanted)


def _pooled(
    status: NDArray[np.bool_], score: NDArray[np.float64], n: int, positives: int, ordered: bool
) -> HitCurve:
    """Hit curve of all instances; what is not listed is one group of ties at the end."""
    # Scores may be of any sign, but whatever is listed comes before what is not.
    calls, hits = metrics.hit_curve(status, None if ordered else score)
    if n == status.size:
        return HitCurve(calls, hits)
    return HitCurve(np.append(calls, float(n)), np.append(hits, float(positives)))


def _decisions(
    sample: Index, label: Index, held: sparse.csr_array, hierarchy: Hierarchy
) -> dict[str, float | int | None]:
    truth = held.toarray()
    calls = np.zeros(truth.shape, dtype=bool)
    calls[sample, label] = True
    hits = int((calls & truth).sum())
    n_calls = int(calls.sum())
    return {
        "precision": hits / n_calls if n_calls else None,
        "FDR": 1.0 - hits / n_calls if n_calls else None,
        "recall": hits / int(truth.sum()) if truth.any() else None,
        "F1": _try(metrics.f_score, truth, calls),
        "hierarchical precision": _try(
            metrics.hierarchical_precision_score, truth, calls, hierarchy
        ),
        "hierarchical recall": _try(metrics.hierarchical_recall_score, truth, calls, hierarchy),
        "hierarchical F1": _try(metrics.hierarchical_f_score, truth, calls, hierarchy),
        "H-loss": _try(metrics.h_error, truth, calls, hierarchy),
        "hierarchical Hamming loss": _try(
            metrics.hierarchical_hamming_error, truth, calls, hierarchy
        ),
        "calls without a parent": metrics.violations_error(calls, hierarchy),
    }


def _try(measure: Callable[..., float], *data: Any) -> float | None:
    """Evaluate a measure; None where the data do not define it (no positives, no probabilities)."""
    try:
        value = float(measure(*data))
    except DataError:
        return None
    return value if np.isfinite(value) else None
