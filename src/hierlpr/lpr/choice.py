"""Choose what labels share, and how much, on held-out counts of samples in bins of score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.folds import assign_folds
from hierlpr.lpr.bins import LabelBins, Scale
from hierlpr.lpr.curves import LPRCurves
from hierlpr.lpr.estimators import Auto, Estimator, make_estimator
from hierlpr.lpr.shared import coordinate, fit_monotone, fit_shared, log_odds_of, shared_weight
from hierlpr.lpr.training import Float, Ints, ScoreGroups, TrainingData

SCALES: tuple[Scale, ...] = ("score", "rank")
KAPPAS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)
DEFAULT: tuple[Scale, float] = ("rank", 10.0)  # where nothing can be held out
# Sharing is chosen by about this many scores, of a limited number of labels and samples.
_CHOICE_VALUES = 2**18
MIN_CHOICE_LABELS = 30
MAX_CHOICE_LABELS = 2048
MIN_CHOICE_SAMPLES = 20
N_FOLDS = 4
N_TEST_FOLDS = 2  # two of the four are enough to choose


def fit_bins(
    groups: ScoreGroups,
    depth: NDArray[np.integer],
    estimator: Estimator,
    scales: Sequence[Scale],
) -> tuple[Float, list[Float], Float]:
    """Fit curves to counts in bins, some of which may be empty, for many refits on parts of data.

    Returns the log-odds of all bins, by the labels' own curves and by shared curves of these
    scales, and the support of each label.
    """
    total, first = groups.total.copy(), groups.ptr[:-1]
    # A label that this part does not annotate counts as never positive.
    total[first[groups.sum_by_label(total) == 0.0]] = groups.n_samples
    label, used = np.repeat(np.arange(groups.n_labels), groups.n_groups), total > 0.0
    ptr = np.append(0, np.cumsum(used))[groups.ptr]
    n_samples, positive = groups.n_samples, groups.positive[used]
    nonempty = ScoreGroups(ptr, groups.score[used], positive, total[used], n_samples)
    lpr = fit_monotone(nonempty, estimator)[1]
    curves = LPRCurves.from_groups(nonempty, lpr)
    own = log_odds_of(curves.evaluate_each(label.astype(np.int32), groups.score, n_jobs=1))
    bins, pooled = LabelBins.of(nonempty, lpr), list[Float]()
    for scale in scales:
        shared, line = fit_shared(bins, depth, estimator, scale)
        x, curve = coordinate(bins, scale, label, groups.score), shared.curve_of(depth)[label]
        pooled.append(shared.log_odds_of_labels(curve, x, line[:, label]))
    return own, pooled, bins.support()


def refit(groups: ScoreGroups, depth: NDArray[np.integer], method: str | Estimator) -> Float:
    """Return log-odds of all bins from their counts, by nearly the curves of a fit of `method`."""
    estimator = make_estimator(method)
    if not isinstance(estimator, Auto):
        return fit_bins(groups, depth, estimator, [])[0]
    kappa = DEFAULT[1] if estimator.kappa is None else estimator.kappa
    scales = [estimator.scale or DEFAULT[0]]
    own, (pooled,), support = fit_bins(groups, depth, estimator.coarser(), scales)
    weight = np.repeat(shared_weight(support, kappa), groups.n_groups)
    return np.asarray(own + weight * (pooled - own))


def choose_sharing(
    data: TrainingData, depth: NDArray[np.int64], estimator: Auto, bins: LabelBins
) -> tuple[Scale, float]:
    """Choose what labels share, and how much, by cross-validated log-loss."""
    scales = SCALES if estimator.scale is None else (estimator.scale,)
    kappas = KAPPAS if estimator.kappa is None else (float(estimator.kappa),)
    n_used = np.count_nonzero(data.weight > 0.0)
    is_decided = len(scales) * len(kappas) == 1
    if is_decided or data.n_labels == 1 or n_used < MIN_CHOICE_SAMPLES:
        kappa = 0.0 if data.n_labels == 1 else DEFAULT[1]  # a single label has none to share with
        return estimator.scale or DEFAULT[0], kappa if estimator.kappa is None else kappas[0]
    labels = _labels_of_all_supports(data, bins)
    bins = bins.select(labels)
    folds = _count_folds(data, labels, bins)
    loss = _held_out_loss(bins, folds, depth[labels], estimator, scales, kappas)
    kappa_at, scale_at = _least_sharing(loss)
    return scales[scale_at], kappas[kappa_at]


def _labels_of_all_supports(data: TrainingData, bins: LabelBins) -> Ints:
    """Return a limited number of labels, evenly spaced in the order of their support."""
    most = max(MIN_CHOICE_LABELS, _CHOICE_VALUES // data.values_per_label)
    spaced = np.linspace(0, data.n_labels - 1, min(data.n_labels, most, MAX_CHOICE_LABELS))
    return np.sort(np.argsort(bins.support(), kind="stable")[spaced.astype(np.int64)])


def _count_folds(data: TrainingData, labels: Ints, bins: LabelBins) -> list[ScoreGroups]:
    """Count the samples of each fold in the bins of the whole fit, so that none is sorted twice."""
    rows = np.flatnonzero(data.weight > 0.0)
    limit = None
    if isinstance(data.scores, np.ndarray):
        limit = max(MIN_CHOICE_SAMPLES, 8 * _CHOICE_VALUES // labels.size)
    contents = data.scores[rows][:, labels], data.truth[rows][:, labels]
    cluster = None if data.cluster is None else data.cluster[rows]
    fold = assign_folds(N_FOLDS, *contents, cluster=cluster, limit=limit)
    counts = list[ScoreGroups]()
    for f in range(N_FOLDS):
        positive, total = bins.count_weights(data.take(rows[fold == f]).groups(labels))
        n_samples = float(np.count_nonzero(fold == f))
        counts.append(ScoreGroups(bins.ptr, bins.score, positive, total, n_samples))
    return counts


def _held_out_loss(
    bins: LabelBins,
    folds: list[ScoreGroups],
    depth: NDArray[np.int64],
    estimator: Auto,
    scales: Sequence[Scale],
    kappas: Sequence[float],
) -> Float:
    """Return the log-loss (n_kappas, n_scales, n_labels) of folds that a fit does not use."""
    loss, label = np.zeros((len(kappas), len(scales), bins.n_labels)), bins.label
    is_listed = bins.score > -np.inf
    for test in folds[:N_TEST_FOLDS]:
        train = [fold for fold in folds if fold is not test]
        positive = np.sum([fold.positive for fold in train], axis=0)
        total = np.sum([fold.total for fold in train], axis=0)
        n_samples = sum(fold.n_samples for fold in train)
        groups = ScoreGroups(bins.ptr, bins.score, positive, total, n_samples)
        own, pooled, support = fit_bins(groups, depth, estimator.coarser(), scales)
        for i, shared in enumerate(pooled):
            for j, kappa in enumerate(kappas):
                log_odds = own + shared_weight(support, kappa)[label] * (shared - own)
                each = test.total * np.logaddexp(0.0, log_odds) - test.positive * log_odds
                loss[j, i] += np.bincount(label[is_listed], each[is_listed], bins.n_labels)
    return loss


def _least_sharing(loss: Float) -> tuple[int, int]:
    """Return the numbers of the kappa and the scale to use.

    Of choices that are worse than the best by no more than one standard error, over labels, the one
    that shares least is taken: own curves rank a little better than the log-loss says.
    """
    total = loss.sum(axis=2)
    excess = loss - loss[np.unravel_index(int(np.argmin(total)), total.shape)]
    is_good = excess.sum(axis=2) <= np.sqrt((excess**2).sum(axis=2))
    least = int(np.argmax(is_good.any(axis=1)))
    return least, int(np.argmin(np.where(is_good, total, np.inf)[least]))
