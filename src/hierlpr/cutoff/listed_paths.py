"""One trusted label per sample from listed scores, if every sample has one path of labels.

Only labels on the most likely listed path of a sample can be trusted. Each has a value that falls
along the path and depends on the scores of its own sample alone; calibration samples determine at
which value to stop, as for the sure labels of `hierlpr.cutoff.sets`. Memory and time depend on the
number of listed scores, not on the number of labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._kernels.smoothing import make_monotone
from hierlpr._utils.checks import check_level
from hierlpr.cutoff.instances import holds_at
from hierlpr.cutoff.sets import CallSets, SetRule, order_place
from hierlpr.hierarchy import Hierarchy

_BITS = 2.0**40  # values are rounded, so that ties do not depend on the machine
_TIE_BREAK = 2.0**-20  # largest relative change of a value to break ties between samples


class LikelyPaths(NamedTuple):
    """The most likely path of each sample, the top first; all arrays have one entry per label.

    `sample` is sorted, `chance` is the block score, which never rises along a path.
    """

    sample: NDArray[np.intp]
    label: NDArray[np.intp]
    chance: NDArray[np.float64]

    def last(self, kept: NDArray[np.bool_], n_samples: int) -> NDArray[np.intp]:
        """Return the last kept entry of each sample, -1 for none."""
        found = np.full(n_samples, -1, dtype=np.intp)
        entries = np.flatnonzero(kept)
        found[self.sample[entries]] = entries  # the last assignment stays
        return found


def likely_paths(score: Any, hierarchy: Hierarchy) -> LikelyPaths:
    """Follow the largest block score from the roots down, in each sample.

    In a DAG a label stands below the first of its parents.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")], labels=["A", "B", "C", "D"])
    >>> paths = likely_paths(np.array([[0.9, 0.2, 0.5, 0.3], [0.0, 0.0, 0.0, 0.4]]), h)
    >>> paths.sample, paths.label
    (array([0, 0, 1]), array([0, 2, 3]))
    """
    listed = sparse.csr_array(score)
    n_samples = int(listed.shape[0])
    sample = np.repeat(np.arange(n_samples), np.diff(listed.indptr))
    label, chance = listed.indices.astype(np.intp), listed.data
    has_parent = np.diff(hierarchy.parent_ptr) > 0
    first = hierarchy.parent_idx[hierarchy.parent_ptr[:-1][has_parent]]
    parent = np.full(hierarchy.n_labels, -1, dtype=np.intp)
    parent[hierarchy.order[has_parent]] = hierarchy.order[first]
    # By rising score; of equal ones the first label comes last.
    rest = label.size - 1 - np.argsort(chance[::-1], kind="stable")
    reached = np.full(n_samples, -1, dtype=np.intp)  # the label that each path has come to
    entries = [np.empty(0, dtype=np.intp)]
    for _ in range(hierarchy.depth):
        is_next = parent[label[rest]] == reached[sample[rest]]
        best = np.full(n_samples, -1, dtype=np.intp)
        best[sample[rest[is_next]]] = rest[is_next]  # the largest score is assigned last
        best = best[best >= 0]
        reached = np.full(n_samples, -2, dtype=np.intp)
        reached[sample[best]] = label[best]
        entries.append(best)
        rest = rest[~is_next]
    found = np.concatenate(entries)
    found = found[np.argsort(sample[found], kind="stable")]
    return LikelyPaths(sample[found], label[found], chance[found])


def path_values(paths: LikelyPaths, n_samples: int, floor: float) -> NDArray[np.float64]:
    """Return values that fall along each path: 1 minus what a label adds to the error.

    The rule is that of `hierlpr.cutoff.set_values.by_cost`, on paths of any lengths: of all labels
    of all samples the cheapest are kept first, which gives the most labels for a given error. Once
    the chance of a path is below `floor`, the value is the chance itself, which is lower. A tiny
    factor per sample, which grows with its mean chance, breaks ties between samples.
    """
    chance = np.rint(paths.chance * _BITS) / _BITS
    is_first = np.diff(paths.sample, prepend=-1) != 0
    above = np.where(is_first, 1.0, np.concatenate([[1.0], chance[:-1]])) if chance.size else chance
    likely = chance >= floor
    cost = (above - chance)[likely]
    counts = np.bincount(paths.sample[likely], minlength=n_samples)
    make_monotone(np.append(0, np.cumsum(counts)).astype(np.int64), cost, np.ones_like(cost))
    value = chance.copy()
    value[likely] = 1.0 - cost
    length = np.bincount(paths.sample, minlength=n_samples)
    mean = np.bincount(paths.sample, chance, n_samples) / np.maximum(length, 1)
    value *= 1.0 - _TIE_BREAK * (1.0 - mean[paths.sample])
    return np.asarray(np.rint(value * _BITS) / _BITS)


def choose_path_rule(
    paths: LikelyPaths, truth: Any, *, error: float, confidence: float | None, floor: float
) -> SetRule:
    """Choose how far to follow the paths, so that few samples get a label that is not true.

    See :func:`hierlpr.cutoff.sets.choose_sets` for the guarantee. If all labels of the kept path
    are true, the true path ends at or below its last label: no separate level for possible labels
    is needed.
    """
    error = check_level(error, name="error")
    if confidence is not None:
        confidence = check_level(confidence, name="confidence")
    n_samples, n_labels = truth.shape
    value = path_values(paths, n_samples, floor)
    is_false = ~holds_at(truth, paths.sample, paths.label)
    worst = np.full(n_samples, -1.0)
    np.maximum.at(worst, paths.sample[is_false], value[is_false])
    place = order_place(n_samples, error, confidence)
    level = None if place is None else float(np.sort(worst)[place - 1])
    n_kept = 0 if level is None else int(np.count_nonzero(value > level))
    return SetRule(
        error=error,
        confidence=confidence,
        one_path=True,
        n_samples=n_samples,
        sure_level=level,
        possible_level=None,
        sure_error=0.0 if level is None else float((worst > level).mean()),
        possible_error=0.0,
        sure_size=n_kept / max(n_samples, 1),
        possible_size=float(n_labels),
        floor=floor,
    )


def trusted_entries(paths: LikelyPaths, n_samples: int, rule: SetRule) -> NDArray[np.intp]:
    """Return the entry of `paths` with the deepest trusted label of each sample, -1 for none."""
    if rule.sure_level is None:
        return np.full(n_samples, -1, dtype=np.intp)
    return paths.last(path_values(paths, n_samples, rule.floor) > rule.sure_level, n_samples)


def path_sets(
    paths: LikelyPaths,
    n_samples: int,
    hierarchy: Hierarchy,
    rule: SetRule,
    *,
    samples: tuple[str, ...] | None = None,
) -> CallSets:
    """Return sets of listed scores with one path per sample, as CSR.

    The labels of the kept path are sure. Possible are these and everything below the last of them,
    listed or not; all labels if no label is sure.
    """
    entry = trusted_entries(paths, n_samples, rule)
    kept = np.flatnonzero(np.arange(paths.sample.size) <= entry[paths.sample])
    shape = (n_samples, hierarchy.n_labels)
    ones = np.ones(kept.size, dtype=bool)
    sure = sparse.csr_array((ones, (paths.sample[kept], paths.label[kept])), shape=shape)
    deepest = np.append(paths.label, -1)[entry]
    below = {-1: np.arange(hierarchy.n_labels)}
    for label in np.unique(deepest[deepest >= 0]).tolist():
        names = hierarchy.descendants(hierarchy.labels[label])
        below[label] = np.array([hierarchy.index(x) for x in names], dtype=np.intp)
    columns = [below[label] for label in deepest.tolist()]
    row = np.repeat(np.arange(n_samples), [part.size for part in columns])
    column = np.concatenate([*columns, np.empty(0, dtype=np.intp)]).astype(np.intp)
    more = sparse.csr_array((np.ones(row.size, dtype=bool), (row, column)), shape=shape)
    possible = sparse.csr_array((sure + more).astype(bool))
    return CallSets(sure, possible, hierarchy.labels, samples, rule)
