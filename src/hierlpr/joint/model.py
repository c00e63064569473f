"""JointModel: from LPRs to probabilities that use all scores of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import n_jobs_or_default, run_chunks
from hierlpr._utils.checks import Matrix, check_unit_interval
from hierlpr.data.folds import assign_folds, sample_limit
from hierlpr.data.tables import align
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows
from hierlpr.joint.held_out import CrossFitting, cached_chunks
from hierlpr.joint.posterior import LPR_EDGE, is_exact, posteriors
from hierlpr.joint.prior import LabelPrior, fit_prior
from hierlpr.joint.tempering import (
    EXACT,
    LOSS_MARGINS,
    PLAIN,
    RANKING_MARGINS,
    USES,
    Tempering,
    learn_weights,
    losses_of,
    raise_to_largest,
    ranking_gain,
    trusted_share,
)

Float = NDArray[np.float64]

# Every pair of parts costs a fit, so their number grows with the square; with 4, each fit still has
# half of the samples.
N_PARTS = 4
LEAST_SAMPLES = 10  # with fewer, parts of two samples would judge
# The standard error of a gain falls with the root of this number only, and each judging part costs
# three fits.
ENOUGH_JUDGES = 2000
_CHUNK_VALUES = 2**22  # sparse rows are made dense in chunks of this many values


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JointModel:
    """Posterior of every label given all scores of its sample, with weights learned from data.

    `prior` has the prevalences of the labels, overall and given their parents, and `tempering` the
    weights of a label's own evidence and of the other labels' evidence.
    """

    hierarchy: Hierarchy
    prior: LabelPrior
    tempering: Tempering

    def __repr__(self) -> str:
        return f"<JointModel: {self.describe()}>"

    def __post_init__(self) -> None:
        sizes = {self.prior.prevalence.size, self.tempering.own.size, self.hierarchy.n_labels}
        if len(sizes) != 1:
            raise DataError("The joint model and the hierarchy have different numbers of labels.")

    @property
    def is_used(self) -> bool:
        """Whether `transform` changes the LPRs."""
        return self.tempering.use != "none"

    @property
    def is_exact(self) -> bool:
        """Whether inference is exact, or drops edges of a DAG; see `posteriors`."""
        return is_exact(self.hierarchy)

    def describe(self) -> str:
        """Describe whether and how strongly the joint posterior is used, and why."""
        if self.tempering.use in ("none", "largest") or self.is_exact:
            return self.tempering.describe()
        return (
            f"{self.tempering.describe()} The hierarchy is too complex for exact inference: every "
            "label is used with its rarest parent only; the ranking respects all edges."
        )

    def changed(self, hierarchy: Hierarchy, prevalence: Float) -> JointModel:
        """Return the model for a changed hierarchy, without new truth.

        For labels whose parents have changed, P(label | parents) becomes the ratio of their
        prevalence to that of their rarest parent. New labels get the default weights: the LPR, or
        the joint posterior if that is used unchanged. Of `prevalence`, in the order of the new
        labels, only the values of labels that are new are used.
        """
        former, last = self.hierarchy, self.hierarchy.n_labels
        place = np.array([former.index(x) if x in former else last for x in hierarchy.labels])
        before, share = (
            np.append(x, 0.5)[place] for x in (self.prior.prevalence, self.prior.conditional)
        )
        merged = LabelPrior(np.where(place < last, before, prevalence), share)
        tempering = self.tempering.select(np.arange(last), n_new=1).select(place)
        return JointModel(hierarchy, merged.on(hierarchy, former), tempering)

    def transform(self, lpr: Any, *, absent: Float | None = None, n_jobs: int | None = None) -> Any:
        """Return P(label | all scores of the sample) for LPRs P(label | its own score).

        `lpr` (samples x labels: array-like, sparse matrix or data frame) is in [0, 1], and NaN
        where the score is missing. Of a sparse matrix, the stored entries and their ancestors are
        returned; `absent` has the LPRs of the others, which are treated as missing by default.

        Examples
        --------
        >>> h = Hierarchy([("A", "B")])
        >>> truth = np.array([[1, 1], [1, 0], [1, 0], [0, 0]], dtype=bool)
        >>> model = fit_joint(None, truth, h, use="exact")
        >>> model.transform([[0.7, 0.9], [0.7, 0.1], [0.7, np.nan]]).round(2)
        array([[0.95, 0.88],
               [0.63, 0.08],
               [0.7 , 0.26]])
        """
        values = align(lpr, self.hierarchy, name="lpr").values
        threads, is_dense = n_jobs_or_default(n_jobs), isinstance(values, np.ndarray)
        present = np.where(np.isnan(values), 0.0, values) if is_dense else values
        check_unit_interval(present, self.hierarchy.labels, name="lpr")
        if is_dense:
            return self._dense(values, threads)
        return self._sparse(values, absent, threads) if self.is_used else values

    def _dense(self, lpr: Float, n_jobs: int) -> Float:
        h, use = self.hierarchy, self.tempering.use
        if use == "none":
            missing = np.isnan(lpr)
            return np.where(missing, self.prior.prevalence, lpr) if missing.any() else lpr
        if use == "exact":
            return posteriors(lpr, self.prior, h, n_jobs=n_jobs)
        prior, weights, out = self.prior, self.tempering, np.empty_like(lpr)

        def temper(start: int, stop: int) -> None:
            part = lpr[start:stop]
            inside = np.clip(part, LPR_EDGE, 1.0 - LPR_EDGE)
            own = np.log(inside / (1.0 - inside)) - prior.log_odds
            log_odds = weights.own * np.where(np.isnan(own), 0.0, own)
            if use != "largest":
                others = posteriors(part, prior, h, of_others=True, n_jobs=1)
                log_odds += weights.others * others
            log_odds += prior.log_odds + weights.shift
            log_odds = raise_to_largest(log_odds, h, weights.rise)
            np.divide(1.0, 1.0 + np.exp(-log_odds), out=out[start:stop])

        run_chunks(temper, cached_chunks(*lpr.shape), n_jobs)
        return out

    def _sparse(self, lpr: scipy.sparse.csr_array, absent: Float | None, n_jobs: int) -> Matrix:
        """Process rows in dense chunks; keep the stored entries and their ancestors."""
        h = self.hierarchy
        default = np.full(h.n_labels, np.nan) if absent is None else np.asarray(absent, np.float64)
        if default.shape != (h.n_labels,):
            raise DataError(f"absent must hold one LPR per label, got shape {default.shape}.")
        row_ptr, node_of = close_rows(h, lpr.indptr, h.position[lpr.indices])
        column = h.order[node_of]
        data = np.empty(column.size)
        step = max(1, _CHUNK_VALUES // h.n_labels)
        for start in range(0, lpr.shape[0], step):
            part = lpr[start : start + step]
            dense, rows = np.tile(default, (part.shape[0], 1)), np.arange(part.shape[0])
            dense[np.repeat(rows, np.diff(part.indptr)), part.indices] = part.data
            ptr = row_ptr[start : start + step + 1]
            at = slice(ptr[0], ptr[-1])
            data[at] = self._dense(dense, n_jobs)[np.repeat(rows, np.diff(ptr)), column[at]]
        out = scipy.sparse.csr_array((data, column, row_ptr), shape=lpr.shape)
        out.sort_indices()
        return out


def fit_joint(
    scores: Matrix | None,
    truth: Truth | Matrix,
    hierarchy: Hierarchy,
    *,
    use: Literal["auto", "exact", "none"] = "auto",
    method: Any = "auto",
    n_jobs: int | None = None,
    sample_weight: Float | None = None,
) -> JointModel:
    """Learn the prior of the labels and how far to trust the joint posterior.

    Parameters
    ----------
    scores : ndarray or csr_array of shape (n_samples, n_labels)
        The scores that the LPRs are fitted on; only needed for ``use="auto"``. NaN if missing.
    truth : Truth, or ndarray or csr_array of bool, of the same shape
        Closed upward.
    hierarchy : Hierarchy
    use : {"auto", "exact", "none"}
        ``"exact"``: the unchanged joint posterior, which is correct if the scores of a sample are
        independent given its labels. ``"auto"``: as far as held-out samples support it, learned
        from at most 2**23 instances (whole samples, drawn at random). Sparse scores keep their
        LPRs, because posteriors are dense.
    method : str or estimator
        How LPRs are estimated; ``use="auto"`` refits them without one and two parts of the samples.
    """
    truth = Truth.of(truth)
    prior = fit_prior(truth, hierarchy, sample_weight)
    n_samples = truth.shape[0]
    if use != "auto":
        return JointModel(hierarchy, prior, Tempering.fixed(use, hierarchy.n_labels))
    n_units = truth.n_clusters or n_samples
    if not isinstance(scores, np.ndarray) or n_units < LEAST_SAMPLES or hierarchy.n_edges == 0:
        # Posteriors are dense, and labels without edges carry no information about each other.
        return JointModel(hierarchy, prior, Tempering.fixed("none", hierarchy.n_labels))
    # A few weights per label need no more samples, and the evidence must fit in memory.
    limit = max(LEAST_SAMPLES, sample_limit(n_samples, hierarchy))
    part = assign_folds(N_PARTS, scores, truth.positive, cluster=truth.cluster, limit=limit)
    used = np.flatnonzero(part >= 0)
    parts = CrossFitting(
        scores if used.size == n_samples else scores[used],
        truth[used].toarray(),
        hierarchy,
        part[used],
        method=method,
        n_jobs=n_jobs,
        sample_weight=None if sample_weight is None else sample_weight[used],
    )
    return JointModel(hierarchy, prior, _learn(parts))


def _learn(parts: CrossFitting) -> Tempering:
    """Choose how to combine the scores of a sample, by held-out samples."""
    h, n_jobs = parts.hierarchy, parts.n_jobs
    evidence = parts.evidence({part: frozenset((part,)) for part in range(N_PARTS)})
    # Each part judges weights that were learned from the other parts. The evidence about those must
    # come from curves fitted without them and without the judges: curves fitted with the judges
    # would bias the weights of rare labels, because a positive among the judges is one that the
    # others lack. With many samples the first few parts suffice.
    n_judging = min(int(np.searchsorted(evidence.fold_ptr[1:], ENOUGH_JUDGES)) + 1, N_PARTS)
    plain, exact = (np.tile(weights, (h.n_labels, 1)) for weights in (PLAIN, EXACT))
    candidates, losses = [], []
    for judges in range(n_judging):
        others = {part: frozenset((part, judges)) for part in range(N_PARTS) if part != judges}
        learned = learn_weights(parts.evidence(others), h, n_jobs)
        weights_of = dict(zip(USES, (plain, exact, learned, plain, learned), strict=True))
        candidates.append(weights_of)
        losses.append(
            [
                losses_of(evidence, x, judges, h, n_jobs, float(use.endswith("largest")))
                for use, x in weights_of.items()
            ]
        )
    loss = dict(zip(USES, np.concatenate(losses, axis=1), strict=True))
    use = min(loss, key=lambda name: float(loss[name].mean()))
    gains = loss["none"] - loss[use]
    gain, error = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(gains.size))
    rise = rise_error = 0.0
    share = trusted_share(gain, error, LOSS_MARGINS, gains.size)
    if share > 0.0:
        towards = [plain + share * (each[use] - plain) for each in candidates]
        height = share if use.endswith("largest") else 0.0
        rise, rise_error = ranking_gain(evidence, towards, h, n_jobs, height)
        share *= trusted_share(rise, rise_error, RANKING_MARGINS, gains.size)
    choice: dict[str, Any] = {
        "loss": {name: float(each.mean()) for name, each in loss.items()},
        "gain": gain if share > 0.0 else 0.0,
        "gain_error": error,
        "ranking_gain": rise,
        "ranking_error": rise_error,
    }
    if share == 0.0:
        return Tempering.of(plain, "none", **choice)
    full = {"exact": exact, "largest": plain}.get(use)
    full = learn_weights(evidence, h, n_jobs) if full is None else full
    use = "label" if use == "exact" and share < 1.0 else use  # no longer unchanged
    return Tempering.of(plain + share * (full - plain), use, share=share, **choice)
