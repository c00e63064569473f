"""Gather the numbers, draw the figures, and write them as one HTML file."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base import require
from hierlpr.cutoff.decisions import REASONS, call_limits
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.model.core import ScoreModel
from hierlpr.plots.calibration import CalibrationCurve
from hierlpr.plots.comparisons import MethodCurve, Promise
from hierlpr.plots.displays import (
    CalibrationDisplay,
    HitDisplay,
    InUse,
    PrecisionDisplay,
    RecallDisplay,
)
from hierlpr.plots.evidence import Study, collect_evidence
from hierlpr.plots.survey import survey
from hierlpr.plots.tallies import Tally
from hierlpr.report.answer import Answer, answer_of, percent, seen_warnings
from hierlpr.report.entries import (
    KeptViews,
    SampleChoice,
    SampleView,
    choose_samples,
    label_entries,
)
from hierlpr.report.html import COLORS, FigureText, figure, figure_text, render_page, write_page

if TYPE_CHECKING:
    from hierlpr.model import HierarchicalClassifier

SCRIPTS = (
    "dom.js", "csv.js", "tree.js", "browse.js", "table.js", "labels.js", "samples.js", "start.js",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report:
    """Every number of a report, before any drawing; without truth nothing is compared with it."""

    title: str
    answer: Answer
    methods: tuple[MethodCurve, ...]
    promise: Promise
    calibration: CalibrationCurve | None
    block_calibration: CalibrationCurve | None
    labels: dict[str, Any]
    choice: SampleChoice
    samples: tuple[SampleView, ...]
    tally: Tally

    @property
    def study(self) -> Study:
        """The samples."""
        return self.tally.study

    def __repr__(self) -> str:
        # Shells and notebooks show what write_report returns: the answer, not every array.
        said = self.answer
        return f"<Report {self.title!r}: {said.headline.lower()}, {said.claim}>"

    @property
    def joint_words(self) -> str:
        """How the scores of a sample's other labels are used; empty if they are not."""
        joint = self.study.model.joint_
        return joint.describe() if joint is not None and joint.is_used else ""


def write_report(
    path: str | os.PathLike[str],
    model: ScoreModel | HierarchicalClassifier,
    scores: Any,
    truth: Any = None,
    *,
    title: str | None = None,
    max_samples: int = 200,
    rng: Any = 0,
    sample_weight: Any = None,
    folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Write one self-contained HTML file: the answer, curves, hierarchy, samples and labels.

    The page loads nothing from anywhere, and names in the data are only ever shown as text. Equal
    inputs give equal files.

    Parameters
    ----------
    path : path
        The file, written whole or not at all.
    model : HierLPR or HierarchicalClassifier
        Fitted, and calibrated if it is to promise anything.
    scores, truth : matrices or data frames of shape (n_samples, n_labels)
        Samples to judge the model on, best not those of the fit or of the calibration. For a
        classifier, features in place of scores. Without truth the page is about the calls of new
        samples: what is called and why, and how many calls the model expects to be right.
    title : str, optional
        Heading of the page.
    max_samples : int
        How many samples can be looked at one by one; the page says how they were chosen.
    rng : seed or Generator
        Draws the part of these samples that is random.
    sample_weight : array-like of shape (n_samples,), optional
        How much each sample counts in shares, means and curves; 0 leaves it out. Counts stay plain.
    folder : path, optional
        Where numbers of very many instances wait to be counted, in a file without a name; by
        default where the system has its temporary files.
    on_progress : callable, optional
        Called as ``on_progress(done, total)`` with numbers of samples.

    Returns
    -------
    Report
        The numbers in the page.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hierlpr import HierLPR, simulate
    >>> fit, rest = simulate.train_test(1, rng=0)
    >>> model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = pathlib.Path(folder, "report.html")
    ...     report = write_report(page, model, rest.scores, rest.truth)
    ...     page.read_text(encoding="utf-8").count("<!doctype html>")
    1
    >>> report.answer.n_samples, report.answer.n_violations
    (1000, 0)
    """
    require("jinja2", "matplotlib", extra="report", what="A report")
    if not isinstance(model, ScoreModel):  # a classifier: features become scores
        model, scores = model.model_, model.score_table(scores)
    report = gather(
        model, scores, truth, title=title, max_samples=max_samples, rng=rng,
        sample_weight=sample_weight, folder=folder, step=on_progress,
    )  # fmt: skip
    for note in seen_warnings(report.tally):
        warnings.warn(note, HierlprWarning, stacklevel=2)
    write_page(path, render(report))
    return report


def gather(
    model: ScoreModel,
    scores: Any,
    truth: Any,
    *,
    title: str | None = None,
    max_samples: int = 200,
    rng: Any = 0,
    sample_weight: Any = None,
    folder: Any = None,
    step: Callable[[int, int], None] | None = None,
) -> Report:
    """Compute every number of the report."""
    if isinstance(max_samples, bool) or not isinstance(max_samples, int) or max_samples < 0:
        raise DataError(f"max_samples must be a whole number, 0 or more; got {max_samples!r}.")
    study = collect_evidence(
        model, scores, truth, is_truth_needed=False, sample_weight=sample_weight, folder=folder
    )
    views = KeptViews(study, max_samples)
    found = survey(study, on_part=views.add, on_progress=step)
    choice = choose_samples(found.tally, max_samples, rng)
    return Report(
        title=title or "Calls under a label hierarchy",
        answer=answer_of(found.tally, found.tradeoffs),
        methods=found.methods,
        promise=found.promise,
        calibration=found.calibration,
        block_calibration=found.block_calibration,
        labels=label_entries(found.tally),
        choice=choice,
        samples=views.of(choice.rows),
        tally=found.tally,
    )


def render(report: Report) -> str:
    """Return the page as text."""
    return render_page(
        "report.html.j2", SCRIPTS, _data(report),
        report=report, answer=report.answer, figures=_figures(report),
    )  # fmt: skip


def _figures(report: Report) -> tuple[FigureText, ...]:
    answer, methods, in_use = report.answer, report.methods, InUse.of(report.tally)
    first = _drawn("fig-calls", PrecisionDisplay(report.promise, in_use), *_precision_words(answer))
    if report.calibration is None or report.block_calibration is None:
        return (first,)
    lpr, block = report.calibration, report.block_calibration
    bins = "; ".join(f"{b.predicted:.2f}: {b.observed:.2f} of {b.n:,}" for b in lpr.bins)
    areas = ", ".join(f"{m.name} {m.au_prc:.3f}" for m in methods)
    hit_areas = ", ".join(f"{m.name} {m.hit_area:.3f}" for m in methods)
    return (
        first,
        _drawn(
            "fig-pr", RecallDisplay(methods, in_use), "Precision and recall",
            "Higher is better; the early part, at the left, is where calls are made.",
            f"Pooled precision against recall. Area under the curve: {areas}.",
        ),
        _drawn(
            "fig-hit", HitDisplay(methods, in_use), "Hit curve",
            f"How many of the {answer.n_positives:,} true labels the first calls find; the thin "
            "line is a perfect order.",
            f"Right calls against calls. Normalized area, 0 random and 1 perfect: {hit_areas}.",
        ),
        _drawn(
            "fig-cal", CalibrationDisplay(lpr, block), "Calibration",
            "Of instances predicted at 70 %, do 70 % hold? On the diagonal they do. Mean gap: LPR "
            f"{lpr.error:.3f}, block score {block.error:.3f}.",
            f"Predicted against observed frequency in ten bins. {bins}.",
        ),
    )  # fmt: skip


def _precision_words(answer: Answer) -> tuple[str, str, str]:
    """Heading and caption of the first figure, and its text for screen readers."""
    nothing = "Nothing is called at the cutoff."
    if not answer.has_truth:
        share = percent(answer.expected)
        at = f"At the cutoff, {answer.n_calls:,} calls, {share} are expected to be right."
        return (
            "Share expected to be right, by number of calls",
            f"{at if answer.n_calls else nothing} The model's own expectation: the mean chance of "
            "the calls so far.",
            f"Expected share of right calls against the number of calls. {at}",
        )
    at = f"At the cutoff, {answer.n_calls:,} calls, {percent(answer.precision)} are right."
    at = at if answer.n_calls else nothing
    return (
        "Precision by number of calls",
        f"{at} Where the two lines agree, the model knows how sure it can be.",
        f"Observed and expected share of right calls against the number of calls. {at}",
    )


def _drawn(key: str, display: Any, title: str, caption: str, description: str) -> FigureText:
    made, axes = figure()
    display.plot(axes, colors=COLORS)
    return figure_text(made, key, title, caption, description)


def _data(report: Report) -> dict[str, Any]:
    """Everything the script draws from; LPRs as ten-thousandths."""
    level, entries = report.study.level, report.labels
    return {
        "levels": _once([x if math.isfinite(x) else None for x in level.tolist()]),
        "maxCalls": _once(call_limits(report.study.model.cutoff_, level.size)),
        "reasons": REASONS,
        "nFit": entries["nFit"],
        "nSamples": report.answer.n_samples,
        "hasTruth": report.answer.has_truth,
        "sets": None if report.study.model.sets_ is None else SET_WORDS,
        "labels": entries["labels"],
        "notes": entries["notes"],
        "samples": [_sample(view) for view in report.samples],
    }


def _once(values: list[Any]) -> list[Any]:
    """Return one value if all labels have the same."""
    return values[:1] if len(set(values)) == 1 else values


def _sample(view: SampleView) -> dict[str, Any]:
    flags = view.called + 2 * view.truth + 4 * view.reaches + 8 * view.unknown
    flags = flags + 16 * view.place + 64 * view.reason
    columns = (
        view.label, np.rint(1e4 * view.lpr), np.rint(1e4 * view.score), view.block, flags,
    )  # fmt: skip
    return {
        "name": view.name,
        "true": view.n_true,
        "calls": view.n_calls,
        "hits": view.n_hits,
        "hidden": [view.n_hidden, view.n_hidden_true, view.n_hidden_called],
        "entries": np.stack(columns, axis=1).astype(int).ravel().tolist()
        if view.label.size
        else [],
    }
