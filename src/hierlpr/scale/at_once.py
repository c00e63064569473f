"""The same stages with everything in memory, where all of it fits; and who chooses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.tables import Table, sample_limit
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import (
    Pair,
    RankingFile,
    ReadReport,
    TruthSets,
    pair_samples,
    read_ranking,
    read_truth_sets,
    write_ranking,
)
from hierlpr.io.pairing import Absent, Weights, match_samples, unlisted_note
from hierlpr.metrics.evaluation import evaluate_ranking
from hierlpr.scale.budget import estimate_instances
from hierlpr.scale.evaluate_parts import Evaluated
from hierlpr.scale.parts import How, in_parts
from hierlpr.scale.source import Reading

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel
    from hierlpr.scale.fit_parts import StoredSamples
    from hierlpr.scale.rank_parts import Ranked


class HeldSamples(NamedTuple):
    """Samples with scores and truth in memory; on disk they are `StoredSamples`."""

    held: Pair
    hierarchy: Hierarchy
    reports: tuple[ReadReport, ...]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.held.scores.n_samples

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened to other samples."""
        return self.held.notes

    def limit(self) -> int:
        """How many of the samples a cutoff is chosen from."""
        return sample_limit(self.n_samples, self.hierarchy, self.held.scores.n_stored)

    def pair(self, chosen: NDArray[np.intp]) -> Pair:
        """Return scores and truth of some of the samples."""
        return self.held.rows(chosen)

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.held.scores.samples or ()

    def fit(
        self,
        model: ScoreModel,
        fitted: NDArray[np.intp],
        weight: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Fit a model on some of the samples; returns how far ranks are off: not at all."""
        pair = self.pair(fitted)
        model.fit(pair.scores, pair.truth, sample_weight=weight)
        return np.zeros(self.hierarchy.n_labels)


def hold_samples(scores: str, reading: Reading, truth: str | None = None) -> HeldSamples:
    """Read scores and truth, and bring them to the same samples; without truth none has a label."""
    h, scored = reading.hierarchy, reading.scores(scores)
    if truth is None:
        from scipy import sparse

        nothing = sparse.csr_array(scored.table.values.shape)
        pair = Pair(scored.table, Table(nothing, h.labels, scored.table.samples), ())
        return HeldSamples(pair, h, (scored.report,))
    known = reading.truth(truth)
    pair = pair_samples(scored, known, absent=reading.absent)
    return HeldSamples(pair, h, (scored.report, known.report))


def rank_at_once(
    scores: str,
    out: str,
    reading: Reading,
    how: How,
    *,
    model: ScoreModel,
    top: int | None,
    calls_only: bool,
    captions: tuple[str, ...] | None,
    adapt: bool,
) -> Ranked:
    """Rank scores that fit in memory, after moving the model to their prevalences if asked."""
    from hierlpr.scale.rank_parts import Ranked, adapt_to, calls_along

    how.say("reading scores", 0, 1)
    read = reading.scores(scores)
    drift = None
    if adapt:
        model, drift = adapt_to(model, read.table)
    how.say("ranking", 0, 1)
    order = model.rank(read.table, top=top)
    call = calls_along(order, model, read.table)
    keep = call if calls_only else None
    n_rows = write_ranking(out, order, call=call, keep=keep, captions=captions)
    counts = n_rows, int(call.sum()), read.table.n_samples, order.n_instances
    return Ranked(*counts, read.report, model.cutoff_, drift)


def evaluate_at_once(
    ranking: str, truth: str, reading: Reading, how: How, weights: Weights | None = None
) -> Evaluated:
    """Measure a ranking against the truth."""
    options: dict[str, Any] = {"aliases": reading.aliases, "lenient": reading.lenient}
    how.say("reading", 0, 1)
    ranked = read_ranking(ranking, reading.hierarchy, **options)
    known = read_truth_sets(truth, reading.hierarchy, close=reading.close, **options)
    keep, sample, sets, names, notes = _match(ranked, known, reading.absent)
    weight = None if weights is None else weights.match(names, f"{truth} and {ranking}")
    how.say("measuring", 0, len(ranked))
    found = evaluate_ranking(
        sample, ranked.label[keep], ranked.score[keep], sets, reading.hierarchy,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[keep], sample_weight=weight,
    )  # fmt: skip
    told = None if weights is None else weights.report
    return Evaluated(found, ranked.report, known.report, tuple(notes), told)


def _match(
    ranked: RankingFile, known: TruthSets, absent: Absent | None
) -> tuple[NDArray[np.bool_], NDArray[np.int64], LabelSets, list[str], list[str]]:
    """Rows of the ranking to keep, their rows in the truth, the truth, its names, what to say."""
    found = match_samples(
        ranked.samples, known, absent=absent, source=ranked.report.path, word="ranked"
    )
    notes, at, sets, names = list(found.notes), found.at.copy(), known.sets, list(known.samples)
    lost = np.flatnonzero(at < 0)
    unlisted = len(set(names) - set(ranked.samples))
    if lost.size and found.negative:
        at[lost] = len(names) + np.arange(lost.size)
        sets = sets.with_empty(lost.size)
        names += [ranked.samples[i] for i in lost.tolist()]
    if unlisted:
        notes.append(unlisted_note(unlisted))
    row = at[ranked.sample]
    keep = row >= 0
    return keep, row[keep], sets, names, notes


# -- one or the other -------------------------------------------------------------------------


Read = Callable[[Sequence[str], str], "HeldSamples | StoredSamples"]


@contextmanager
def read_pairs(
    files: list[str], reading: Reading, how: How, command: str, out: AnyPath
) -> Iterator[Read]:
    """Give a function that reads scores and truth, whole or in parts; it names the work folder."""
    # Truth may be larger than the scores it belongs to, or the other way round; a report may have
    # none.
    pairs = [files[i : i + 2] for i in range(0, len(files), 2)]
    if not how.asks_for_parts(*files) and how.budget.holds_fit(
        sum(max(map(estimate_instances, pair)) for pair in pairs)
    ):
        how.say("reading scores and truth", 0, 1)
        yield lambda pair, _: hold_samples(pair[0], reading, *pair[1:])
        return
    if command == "fit" and reading.allow_missing:
        raise DataError(
            "Scores that may be missing are fitted in memory, and these need more of it than "
            "given.\nHint: give more --memory (memory=) and no --partitions or --scheduler, or a "
            "long table, which lists the scores there are."
        )
    from hierlpr.scale.fit_parts import store_samples

    with in_parts(how, command, os.fspath(out), beside=out) as parts:
        yield lambda pair, name: store_samples(pair[0], name, reading, parts, *pair[1:])
