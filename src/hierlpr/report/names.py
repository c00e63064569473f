"""The panel of a report about one trusted name per sample: ranks, where samples stop, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hierlpr.cutoff.set_values import likely_paths
from hierlpr.data.tables import Table
from hierlpr.model.prediction import (
    NamedSamples,
    RankRow,
    compare_ranks,
    name_by_threshold,
    name_samples,
    promise_of,
    rank_names,
    usual_threshold,
)
from hierlpr.plots.label_displays import NamesDisplay
from hierlpr.plots.model_output import ModelOutput

MOST_STOPPED = 15  # samples that stop highest


class Stopped(NamedTuple):
    """A sample that stops high: its name, and the most likely name below with its chance."""

    sample: str
    name: str
    rank: str
    chance: float
    below: str
    below_chance: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names of the samples of a report, and what is promised of them.

    `wrong` and `usual_wrong` are the shares of samples with a wrong name, None without truth.
    """

    n_named: int
    promise: str
    error: float | None
    wrong: float | None
    usual: float
    usual_wrong: float | None
    rows: tuple[RankRow, ...]
    stopped: tuple[Stopped, ...]
    display: NamesDisplay

    @property
    def is_certifying(self) -> bool:
        """Whether a precision was asked for at every rank."""
        return any(row.is_certified is not None for row in self.rows)


def names_of(output: ModelOutput) -> Names | None:
    """Name the samples of a report; None if the model is not for one name per sample."""
    model, h = output.model, output.hierarchy
    rule = model.sets_
    if model.path_style_ is None and (rule is None or not rule.one_path):
        return None
    table = Table(output.scores, h.labels)
    label, chance = name_samples(model, table, output.block_score)
    truth = output.truth if output.has_truth else None
    usual = usual_threshold(model)
    ours = NamedSamples(label, h, truth)
    theirs = NamedSamples(name_by_threshold(output.scores, h, usual), h, truth)
    return Names(
        n_named=int(np.count_nonzero(label >= 0)),
        promise=promise_of(model)[0],
        error=None if rule is None else rule.error,
        wrong=ours.wrong() if output.has_truth else None,
        usual=usual,
        usual_wrong=theirs.wrong() if output.has_truth else None,
        rows=compare_ranks(model, ours, theirs),
        stopped=_stopped_highest(output, ours, chance),
        display=NamesDisplay(h, rank_names(model), label),
    )


def _stopped_highest(
    output: ModelOutput, ours: NamedSamples, chance: np.ndarray
) -> tuple[Stopped, ...]:
    """Return the samples with the highest names, those without a name first."""
    h, ranks = output.hierarchy, rank_names(output.model)
    paths = likely_paths(output.block_score, h)
    depth = np.where(ours.label >= 0, h.levels[ours.label], 0)
    found = []
    for row in np.argsort(depth, kind="stable")[:MOST_STOPPED].tolist():
        at = int(ours.label[row])
        path = slice(*np.searchsorted(paths.sample, [row, row + 1]))
        below = [
            (h.name(h.labels[k]), float(sure))
            for k, sure in zip(paths.label[path], paths.chance[path], strict=True)
            if h.levels[k] > depth[row]
        ]
        next_name, next_chance = below[0] if below else ("", None)
        named = ("", "", 0.0) if at < 0 else (h.name(h.labels[at]), ranks[at], float(chance[row]))
        found.append(Stopped(output.samples[row], *named, next_name, next_chance))
    return tuple(found)
