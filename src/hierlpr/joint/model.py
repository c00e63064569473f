"""JointModel: LPRs in, probabilities that use all scores of the sample out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, check_unit_interval
from hierlpr._kernels._threads import n_threads_or_default, row_chunks, run_chunks
from hierlpr._kernels.joint_temper import Evidence, Weights, weigh_evidence
from hierlpr.data.partial_truth import AnyTruth
from hierlpr.data.tables import align, align_truth_to, draw_samples, sample_limit
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows
from hierlpr.joint.held_out import HeldOut
from hierlpr.joint.posterior import LPR_EDGE, is_exact, posteriors
from hierlpr.joint.prior import LabelPrior, fit_prior
from hierlpr.joint.tempering import (
    Tempering,
    best_candidate,
    fit_candidates,
    losses_of,
    part_of_the_way,
)
from hierlpr.lpr import Estimator

Float = NDArray[np.float64]

N_PARTS = 4
LEAST_SAMPLES = 10
ENOUGH_JUDGES = 2000
_CACHED_VALUES = 2**18  # a thread's rows at a time, so that the evidence in between stays in cache
_CHUNK_VALUES = 2**22  # of sparse rows made dense at a time


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JointModel:
    """Posterior of every label given all scores of its sample, tempered as data showed.

    Attributes
    ----------
    hierarchy : Hierarchy
    prior : LabelPrior
        How often labels hold, alone and given their parents.
    tempering : Tempering
        How far the labels' own and the others' evidence are trusted.
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
        """Whether `transform` returns anything but the LPRs."""
        return self.tempering.use != "none"

    @property
    def is_exact(self) -> bool:
        """Whether the pass is exact here, or drops edges of a DAG; see `posteriors`."""
        return is_exact(self.hierarchy)

    def describe(self) -> str:
        """Say whether and how strongly the joint posterior is used, and why."""
        if not self.is_used or self.is_exact:
            return self.tempering.describe()
        return (
            f"{self.tempering.describe()} The hierarchy is too entangled for an exact pass: every "
            "label is taken with its rarest parent only, and the ranking sees to the others."
        )

    def changed(
        self, hierarchy: Hierarchy, prevalence: Float, fresh: Collection[str] = ()
    ) -> JointModel:
        """Return the model of a changed hierarchy, without any new truth.

        Labels whose parents have changed get the share of their prevalence in that of their rarest
        parent. New labels, and those named in `fresh`, start with what is safe: nothing of the
        other labels' evidence, or all of it if the joint posterior is used as it is.

        Parameters
        ----------
        hierarchy : Hierarchy
        prevalence : ndarray of shape (n_labels,)
            Of all labels of the new hierarchy; only that of new labels is looked at.
        fresh : collection of str
            Labels whose classifiers are new.
        """
        former = self.hierarchy
        last = former.n_labels
        place = np.array([former.index(x) if x in former else last for x in hierarchy.labels])
        tempering = self.tempering.select(np.arange(last), n_new=1)
        learned = np.where([x in fresh for x in hierarchy.labels], last, place)
        share = np.append(self.prior.conditional, 0.5)[place]
        kept = np.append(self.prior.prevalence, 0.5)[place]
        prior = LabelPrior(np.where(place < last, kept, prevalence), share).on(hierarchy, former)
        return JointModel(hierarchy, prior, tempering.select(learned))

    def transform(
        self, lpr: Any, *, absent: Float | None = None, n_threads: int | None = None
    ) -> Any:
        """Return P(label | all scores of the sample) for LPRs P(label | its own score).

        Parameters
        ----------
        lpr : array-like, sparse matrix or data frame of shape (n_samples, n_labels)
            In [0, 1]; NaN for a score that is missing.
        absent : ndarray of shape (n_labels,), optional
            LPRs of the entries that a sparse matrix does not store. By default they say nothing.
        n_threads : int, optional
            The result does not depend on it.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or csr_array for sparse input
            Of a sparse matrix, the entries stored and their ancestors.

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
        threads = n_threads_or_default(n_threads)
        if isinstance(values, np.ndarray):
            # NaN fails both comparisons, so this clears matrices without it.
            if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
                known = np.where(np.isnan(values), 0.0, values)
                check_unit_interval(known, self.hierarchy.labels, name="lpr")
            return self._dense(values, threads)
        check_unit_interval(values, self.hierarchy.labels, name="lpr")
        return self._sparse(values, absent, threads) if self.is_used else values

    def _dense(self, lpr: Float, n_threads: int) -> Float:
        use = self.tempering.use
        if use == "none":
            missing = np.isnan(lpr)
            return np.where(missing, self.prior.prevalence, lpr) if missing.any() else lpr
        if use == "exact":
            return posteriors(lpr, self.prior, self.hierarchy, n_threads=n_threads)[0]
        out = np.empty_like(lpr)
        # A few rows at a time: what is needed in between stays in the cache.
        step = max(64, _CACHED_VALUES * n_threads // lpr.shape[1])
        for start in range(0, lpr.shape[0], step):
            self._temper(lpr[start : start + step], out[start : start + step], n_threads)
        return out

    def _temper(self, lpr: Float, out: Float, n_threads: int) -> None:
        prior, chosen = self.prior, self.tempering
        _, others = posteriors(
            lpr, prior, self.hierarchy, with_posterior=False, with_others=True, n_threads=n_threads
        )
        weights = Weights(prior.log_odds, chosen.own, chosen.others, chosen.shift)

        def weigh(start: int, stop: int) -> None:
            weigh_evidence(lpr, others, start, stop, weights, LPR_EDGE, out)

        run_chunks(weigh, row_chunks(lpr.shape, n_threads), n_threads)

    def _sparse(self, lpr: scipy.sparse.csr_array, absent: Float | None, n_threads: int) -> Matrix:
        """Rows made dense a few at a time; of the result, the stored entries' closure is kept."""
        h = self.hierarchy
        fill = np.full(h.n_labels, np.nan) if absent is None else np.asarray(absent, np.float64)
        if fill.shape != (h.n_labels,):
            raise DataError(f"absent must hold one LPR a label, got shape {fill.shape}.")
        row_ptr, node_of = close_rows(h, lpr.indptr, h.position[lpr.indices])
        column = h.order[node_of]
        data = np.empty(column.size)
        row_of = np.repeat(np.arange(lpr.shape[0]), np.diff(row_ptr))
        step = max(1, _CHUNK_VALUES // h.n_labels)
        for start in range(0, lpr.shape[0], step):
            part = lpr[start : start + step]
            dense = np.tile(fill, (part.shape[0], 1))
            dense[np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] = (
                part.data
            )
            at = slice(row_ptr[start], row_ptr[start + part.shape[0]])
            data[at] = self._dense(dense, n_threads)[row_of[at] - start, column[at]]
        out = scipy.sparse.csr_array((data, column, row_ptr), shape=lpr.shape)
        out.sort_indices()
        return out


def fit_joint(
    scores: Any,
    truth: Any,
    hierarchy: Hierarchy,
    *,
    use: Literal["auto", "exact", "none"] = "auto",
    method: str | Estimator | Sequence[str | Estimator] = "auto",
    rng: Any = 0,
    n_threads: int | None = None,
) -> JointModel:
    """Learn the prior of the labels and how far to trust the joint posterior.

    Parameters
    ----------
    scores : array-like or sparse matrix of shape (n_samples, n_labels)
        Those the LPRs are fitted on; only ``use="auto"`` looks at them. NaN if missing.
    truth : array-like of the same shape
        Closed upward.
    hierarchy : Hierarchy
    use : {"auto", "exact", "none"}
        ``"exact"``: the joint posterior as it is, which is right if the scores of a sample are
        independent given its labels. ``"auto"``: as far as held-out samples support it, learned
        from at most 2**23 instances (whole samples, drawn at random). It leaves the LPRs as they
        are if the scores are sparse, because posteriors are not: every label would cost.
    method : str or estimator
        How LPRs are estimated; ``"auto"`` fits them again without one and two parts of the samples.
    rng : seed or Generator
        Draws the parts.
    n_threads : int, optional

    Returns
    -------
    JointModel
    """
    if use != "auto":
        held = align_truth_to(scipy.sparse.csr_array((0, 0)), truth, hierarchy)
        return fit_joint_on(None, held, hierarchy, use=use)
    values = align(scores, hierarchy, name="scores").values
    held = align_truth_to(values, truth, hierarchy)
    if values.shape[0] != held.shape[0]:
        raise DataError(f"scores have {values.shape[0]:,} samples, truth {held.shape[0]:,}.")
    take = _taker(values) if isinstance(values, np.ndarray) else None
    return fit_joint_on(take, held, hierarchy, method=method, rng=rng, n_threads=n_threads)


def _taker(values: Float) -> Callable[[NDArray[np.intp]], Float]:
    """Fetch rows that are asked for in order; all of them are there already."""
    return lambda rows: values if rows.size == len(values) else values[rows]


def fit_joint_on(
    take: Callable[[NDArray[np.intp]], Float] | None,
    truth: AnyTruth,
    hierarchy: Hierarchy,
    *,
    use: Literal["auto", "exact", "none"] = "auto",
    method: Any = "auto",
    rng: Any = 0,
    n_threads: int | None = None,
    sample_weight: Float | None = None,
) -> JointModel:
    """Do the work of `fit_joint`; `take` fetches the scores of some samples.

    `take` is None if the scores are sparse. The samples it is asked for are few enough to hold.
    """
    prior = fit_prior(truth, hierarchy, sample_weight)
    n_samples = truth.shape[0]
    if use != "auto":
        return JointModel(hierarchy, prior, Tempering.fixed(use, hierarchy.n_labels))
    if take is None or n_samples < LEAST_SAMPLES or hierarchy.n_edges == 0:
        # Posteriors are not sparse, and labels that stand alone tell nothing about each other.
        return JointModel(hierarchy, prior, Tempering.fixed("none", hierarchy.n_labels))
    generator = np.random.default_rng(rng)
    # A few weights a label need no more samples; the evidence of all would fill the memory.
    limit = max(LEAST_SAMPLES, sample_limit(n_samples, hierarchy))
    used = draw_samples(n_samples, limit, generator)
    held: Any = truth[used]
    held = held if isinstance(held, np.ndarray) else held.toarray()
    part = generator.permutation(used.size) % N_PARTS
    weight = None if sample_weight is None else sample_weight[used]
    parts = HeldOut(
        take(used), held, hierarchy, part,
        method=method, n_threads=n_threads, sample_weight=weight,
    )  # fmt: skip
    # One piece of memory for all evidence, used again by all who judge: the system clears fresh
    # memory first, which takes longer than to fill it.
    room = np.empty((2, 2 * used.size * hierarchy.n_labels))
    everyone = parts.evidence({own: frozenset((own,)) for own in range(N_PARTS)}, room[0])
    threads = n_threads_or_default(n_threads)
    losses, judged = _judge(parts, everyone, room[1], threads)
    chosen, share, gain, error = best_candidate(losses)
    if chosen == "none" or chosen == "exact":
        tempering = Tempering.fixed(chosen, hierarchy.n_labels)
    else:
        weights = fit_candidates(everyone, hierarchy, threads, judged)[chosen]
        tempering = Tempering.of(weights, chosen)
    mean = {name: float(loss.mean()) for name, loss in losses.items()}
    tempering = part_of_the_way(tempering, share)
    tempering = replace(tempering, loss=mean, gain=gain, gain_error=error)
    return JointModel(hierarchy, prior, tempering)


def _judge(
    parts: HeldOut, everyone: Evidence, room: Float, n_threads: int
) -> tuple[dict[str, Float], dict[str, Float] | None]:
    """Log-loss of every candidate on samples that neither its LPRs nor its weights have seen.

    Each part of the samples judges what was learned from the others: weights from evidence of
    LPRs that saw neither the judges nor the samples whose evidence it is, so that each pair of
    parts has a fit without both. LPRs that had seen the judges would make the weights look too bad
    for rare labels: a positive among the judges is then one that the others lack. Of many samples
    the first few parts are enough. `everyone` has the evidence of all samples from the fits
    without their own part alone, which is what they judge with; that of the others is put in `room`
    for as long as it is needed. Returns also the weights that were judged last.
    """
    losses: dict[str, list[Float]] = {}
    candidates = None
    enough = np.searchsorted(everyone.fold_ptr[1:], ENOUGH_JUDGES) + 1
    learning = [
        {own: frozenset((own, judges)) for own in range(N_PARTS) if own != judges}
        for judges in range(min(int(enough), N_PARTS))
    ]
    parts.fit(without for own in learning for without in own.values())
    for judges, asked in enumerate(learning):
        evidence = parts.evidence(asked, room)
        candidates = fit_candidates(evidence, parts.hierarchy, n_threads, candidates)
        for use, weights in candidates.items():
            losses.setdefault(use, []).append(losses_of(everyone, weights, n_threads, fold=judges))
    return {use: np.concatenate(found) for use, found in losses.items()}, candidates
