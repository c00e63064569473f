"""Training samples of labels in bins of score, for fits on parts of the samples."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import scipy

from hierlpr.lpr.curves import select_runs
from hierlpr.lpr.splines import running_sum
from hierlpr.lpr.training import Float, Ints, ScoreGroups

Scale = Literal["score", "rank"]

RANK_GRID = 2.0**30
# Bins of equal width in the normal score of the rank.
SHARE_EDGES: Float = scipy.special.ndtr(np.linspace(-4.0, 4.0, 65))


class LabelBins(NamedTuple):
    """Training samples of labels in bins of score; those of label k are ``ptr[k]:ptr[k + 1]``.

    `score` is the middle and `highest` the highest score of a bin, `z` the normal score of its
    mid-rank, `lpr` the mean of the label's own curve. A score of -inf stands for samples that do
    not list the label.
    """

    ptr: Ints
    score: Float
    highest: Float
    z: Float
    positive: Float
    total: Float
    lpr: Float

    @classmethod
    def of(cls, groups: ScoreGroups, lpr: Float) -> LabelBins:
        """Bin the groups of tied scores of some labels, whose own curves have the given LPRs.

        Groups whose mid-rank lies between the same two edges are merged.
        """
        score, total, sizes = groups.score, groups.total, groups.n_groups
        weight = groups.sum_by_label(total)
        middle = (running_sum(groups.ptr, total) - 0.5 * total) / np.repeat(weight, sizes)
        place = np.searchsorted(SHARE_EDGES, middle)
        place[score == -np.inf] = -1
        is_first = np.diff(place, prepend=-2) != 0
        is_first[groups.ptr[:-1]] = True
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], score.size) - 1
        ptr = np.searchsorted(first, groups.ptr)
        sums = (np.add.reduceat(x, first) for x in (groups.positive, total, total * lpr))
        positive, bin_total, lpr_sum = sums
        share = (running_sum(ptr, bin_total) - 0.5 * bin_total) / np.repeat(weight, np.diff(ptr))
        # Ranks count among the samples that list the label.
        absent = np.where(score[groups.ptr[:-1]] == -np.inf, bin_total[ptr[:-1]] / weight, 0.0)
        absent = np.repeat(np.minimum(absent, 1.0 - 1e-9), np.diff(ptr))
        inside = np.clip((share - absent) / (1.0 - absent), 1e-9, 1.0 - 1e-9)
        # On a grid, so that rounding does not separate equal ranks of different labels.
        z = np.rint(scipy.special.ndtri(inside) * RANK_GRID) / RANK_GRID
        mean = lpr_sum / bin_total
        return cls(ptr, score[(first + last) // 2], score[last], z, positive, bin_total, mean)

    @classmethod
    def join(cls, parts: list[LabelBins]) -> LabelBins:
        """Concatenate the labels of all parts."""
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.ptr) for part in parts)])
        columns = list(zip(*parts, strict=True))[1:]
        return cls(sizes.cumsum(), *(np.concatenate(column) for column in columns))

    def select(self, labels: Ints) -> LabelBins:
        """Return the bins of some labels, by number."""
        ptr, take = select_runs(self.ptr, labels)
        return LabelBins(ptr, *(column[take] for column in self[1:]))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.ptr.size - 1

    @property
    def label(self) -> Ints:
        """Label of every bin."""
        return np.repeat(np.arange(self.n_labels), np.diff(self.ptr))

    def listed(self) -> LabelBins:
        """Return the bins with a score."""
        at = self.score > -np.inf
        ptr = np.append(0, np.cumsum(at))[self.ptr]
        return self if at.all() else LabelBins(ptr, *(column[at] for column in self[1:]))

    def along(self, scale: Scale) -> Float:
        """Return what curves of this scale are functions of."""
        return self.score if scale == "score" else self.z

    def support(self) -> Float:
        """Smaller of the weights of positives and negatives per label, where it is listed."""
        bins, n = self.listed(), self.n_labels
        n_positive, n_all = (np.bincount(bins.label, x, n) for x in (bins.positive, bins.total))
        return np.asarray(np.maximum(np.minimum(n_positive, n_all - n_positive), 0.0))

    def count_weights(self, groups: ScoreGroups) -> Float:
        """Return the positive and total weight (2, n_bins) of other samples in the same bins.

        A bin reaches up to its highest score. Samples that do not list a label are left out where
        there is no such bin.
        """
        place = np.empty(groups.score.size, np.int64)
        for k in range(self.n_labels):
            at, bins = slice(*groups.ptr[k : k + 2]), slice(*self.ptr[k : k + 2])
            inner = np.searchsorted(self.highest[bins][:-1], groups.score[at])
            place[at] = self.ptr[k] + inner
        used = (groups.score > -np.inf) | (self.highest[place] == -np.inf)
        sums = [
            np.bincount(place[used], x[used], self.score.size)
            for x in (groups.positive, groups.total)
        ]
        return np.stack(sums)
