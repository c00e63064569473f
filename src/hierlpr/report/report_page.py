"""Compute the numbers of a report, draw its figures, and write them as one HTML file."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._utils.checks import check_count
from hierlpr._utils.files import check_page_name
from hierlpr.audit import Audit
from hierlpr.cutoff.decisions import REASONS, parts_of
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.model import HierLPR
from hierlpr.plots.displays import (
    CalibrationDisplay,
    HitDisplay,
    PrecisionDisplay,
    RecallDisplay,
)
from hierlpr.plots.drawing import line_style, percent_axis
from hierlpr.plots.summary import Summary, apply_model, summarize
from hierlpr.report.answer import Answer, answer_of, percent, reuse_warnings
from hierlpr.report.audit_part import AuditPart, audit_figure, audit_part
from hierlpr.report.entries import (
    Names,
    choose_samples,
    label_entries,
    names_of,
    sample_entries,
)
from hierlpr.report.html import COLORS, FigureText, figure, figure_text, render_page, write_page

if TYPE_CHECKING:
    from hierlpr.model import HierarchicalClassifier

MOST_STOPPED = 15  # listed samples that stop highest
SLIDER_STEPS = 400
NOTHING_CERTIFIED = "Nothing is certified at this cutoff."
SECTIONS = {
    "answer": "Answer",
    "curves": "Curves",
    "hierarchy": "Hierarchy",
    "samples": "Samples",
    "labels": "Labels",
    "glossary": "Glossary",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report:
    """All numbers of a report, before any drawing; without truth, nothing is compared with it."""

    title: str
    about: dict[str, str]
    answer: Answer
    names: Names | None
    summary: Summary
    labels: dict[str, Any]
    chosen: str  # how the samples that are shown were chosen
    samples: list[dict[str, Any]]
    audit: AuditPart | None = None

    def __repr__(self) -> str:
        # Shells and notebooks show what write_report returns: the answer, not every array.
        return f"<Report {self.title!r}: {self.answer.headline}, {self.answer.claim}>"

    @property
    def is_joint(self) -> bool:
        """Whether the scores of a sample's other labels are used too."""
        joint = self.summary.output.model.joint_
        return joint is not None and joint.is_used


def write_report(
    path: str | os.PathLike[str],
    model: HierLPR | HierarchicalClassifier,
    scores: Any,
    truth: Any = None,
    *,
    title: str | None = None,
    about: Mapping[str, str] | None = None,
    max_samples: int = 200,
    sample_weight: Any = None,
    clusters: Any = None,
    named: tuple[Any, Any] | None = None,
    audit: Audit | None = None,
) -> Report:
    """Write one self-contained HTML file: the answer, curves, hierarchy, samples and labels.

    The page loads nothing from anywhere, and names in the data are only ever shown as text. Equal
    inputs give equal files on the same day.

    Parameters
    ----------
    path : path
        The file, written whole or not at all.
    model : HierLPR or HierarchicalClassifier
        Fitted, and calibrated if it is to promise anything.
    scores, truth : matrices or data frames of shape (n_samples, n_labels)
        Samples to evaluate the model on, preferably other ones than those of the fit and of the
        calibration. For a classifier, features in place of scores. Without truth the page is about
        the calls of new samples: what is called and why, and the expected precision.
    title : str, optional
        Heading of the page.
    about : mapping of str to str, optional
        Facts to show below the heading, such as ``{"Model": "model.hlpr", "Data": "simulated"}``.
        The date is added.
    max_samples : int
        How many samples can be looked at on their own; the page says how they were chosen.
    sample_weight : array-like of shape (n_samples,), optional
        Weight of each sample in shares, means and curves; 0 leaves it out. Counts stay plain.
    clusters : array-like of ids of shape (n_samples,), series or mapping, optional
        The patient, donor or camera of each sample. Confidence intervals then count clusters.
    named : pair of arrays, optional
        Of a model for one name per sample: the label of each sample (-1: none) and its chance, if
        the model was calibrated on these samples and named each of them by cross-calibration.
    audit : Audit, optional
        An audit of these samples, whose checks and certificate are shown too.

    Returns
    -------
    Report
        The numbers of the page.

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
    check_page_name(path)
    if not isinstance(model, HierLPR):  # a classifier: features become scores
        model, scores = model.model_, model.score_table(scores)
    options: dict[str, Any] = {"sample_weight": sample_weight, "clusters": clusters}
    options |= {"named": named, "audit": audit, "max_samples": max_samples}
    report = gather(model, scores, truth, title=title, about=about, **options)
    for note in reuse_warnings(report.summary.counts):
        warnings.warn(note, HierlprWarning, stacklevel=2)
    write_page(path, render(report))
    return report


def gather(
    model: HierLPR,
    scores: Any,
    truth: Any,
    *,
    title: str | None = None,
    about: Mapping[str, str] | None = None,
    max_samples: int = 200,
    sample_weight: Any = None,
    clusters: Any = None,
    named: tuple[Any, Any] | None = None,
    audit: Audit | None = None,
) -> Report:
    """Compute all numbers of the report; parameters as in `write_report`."""
    max_samples = check_count(max_samples, name="max_samples", least=0)
    if clusters is not None and sample_weight is not None:
        raise DataError("A report takes either sample_weight or clusters.")
    scores = align(scores, model.hierarchy_, name="scores", allow_leaves=True)
    cluster = cluster_numbers(clusters, scores)
    if named is not None:  # names of samples that the calibration did not see
        model = copy.copy(model)
        model.keys_ = {}
    output = apply_model(model, scores, truth, is_truth_needed=False, sample_weight=sample_weight)
    names = names_of(output, min(max_samples, MOST_STOPPED), named)
    if names is not None:  # calls are names, which no cutoff explains
        output, max_samples = replace(output, called=names.called), 0
    summary = summarize(output)
    rows, chosen = choose_samples(summary.counts, max_samples)
    return Report(
        title=title or "Calls under a label hierarchy",
        about={"Created": date.today().isoformat(), **(about or {})},
        answer=answer_of(summary, names, cluster),
        names=names,
        summary=summary,
        labels=label_entries(summary.counts),
        chosen=chosen,
        samples=sample_entries(output, rows),
        audit=None if audit is None else audit_part(audit, output.samples),
    )


def render(report: Report) -> str:
    """Return the page as text."""
    figures = _figures(report)
    if report.audit is not None:
        figures = (audit_figure(report.audit), *figures)
    data = _data(report) | {"figures": {x.key: x.plot for x in figures}}
    if figures and report.names is None:
        data |= _cutoff_data(report)
    left_out = {"" if figures else "curves", "" if report.names is None else "samples"}
    return render_page(
        data,
        title=report.title,
        about=report.about,
        sections={k: x for k, x in SECTIONS.items() if k not in left_out},
        report=report,
        answer=report.answer,
        names=report.names,
        audit=report.audit,
        names_figure=None if report.names is None else _names_figure(report.names),
        figures=figures,
    )


def _names_figure(names: Names) -> FigureText:
    rows = "; ".join(f"{row.rank} {percent(row.named)}" for row in names.rows)
    caption = (
        "The width of a box is the number of samples with this name or one below it. Samples stop "
        "where there is no box below; labels with few samples share a box."
    )
    description = f"Share of samples named at each rank: {rows}."
    return _drawn("fig-names", names.display, "Where samples stop", caption, description)


def _figures(report: Report) -> tuple[FigureText, ...]:
    answer, summary = report.answer, report.summary
    if report.names is not None and summary.output.model.cutoff_.goal.kind == "default":
        return ()  # names do not use this cutoff
    display, methods = PrecisionDisplay(summary), summary.methods
    first = [_drawn("fig-calls", display, *_precision_text(answer)), *_targets_figure(answer)]
    lpr, block = summary.calibration, summary.block_calibration
    if lpr is None or block is None:
        return tuple(first)
    bins = zip(lpr.predicted, lpr.observed, lpr.n, strict=True)
    listed = "; ".join(f"{x:.2f}: {share:.2f} of {n:,}" for x, share, n in bins)
    areas = ", ".join(f"{m.name} {m.au_prc:.3f}" for m in methods)
    hit_areas = ", ".join(f"{m.name} {m.hit_area:.3f}" for m in methods)
    return (
        *first,
        _drawn(
            "fig-pr",
            RecallDisplay(summary),
            "Precision and recall",
            "Higher is better; calls are made in the early part, on the left.",
            f"Pooled precision against recall. Area under the curve: {areas}.",
        ),
        _drawn(
            "fig-hit",
            HitDisplay(summary),
            "Hit curve",
            f"How many of the {answer.n_positives:,} true labels the first calls find; the thin "
            "line is a perfect order.",
            f"Correct calls against calls. Normalized area, 0 random and 1 perfect: {hit_areas}.",
        ),
        _drawn(
            "fig-cal",
            CalibrationDisplay(summary),
            "Calibration",
            "Of instances predicted at 70 %, are 70 % true? On the diagonal they are. Mean gap: "
            f"LPR {lpr.error:.3f}, block score {block.error:.3f}.",
            f"Predicted against observed frequency in ten bins. {listed}.",
        ),
    )


def _targets_figure(answer: Answer) -> list[FigureText]:
    """Draw the certified targets against the recall at each of them."""
    certified = [
        (part.recall if answer.has_truth else part.cutoff.recall, part)
        for part in answer.parts["target"]
        if part.cutoff.is_certified
    ]
    points = sorted(
        (x, part.cutoff.goal.precision, part.name) for x, part in certified if x is not None
    )
    if not points:
        return []
    drawing, axes = figure()
    recall, target, _ = zip(*points, strict=True)
    axes.plot(recall, target, marker="o", **line_style(0, COLORS))
    for x, y, name in points:
        axes.annotate(name, (x, y), xytext=(7, 5), textcoords="offset points")
    axes.set(xlim=(0, 1), xlabel="recall", ylabel="certified precision")
    axes.margins(y=0.15)
    percent_axis(axes.xaxis)
    percent_axis(axes.yaxis, decimals=None)
    samples = "these" if answer.has_truth else "the calibration"
    caption = f"What each certified target costs: the recall on {samples} samples."
    listed = "; ".join(f"{name}: {percent(x)}" for x, _, name in points)
    title, description = "Certified precision and recall", f"Recall at each target: {listed}."
    return [figure_text(drawing, "fig-targets", title, caption, description)]


def _precision_text(answer: Answer) -> tuple[str, str, str]:
    """Return title, caption and description of the first figure."""
    share = answer.precision_text if answer.has_truth else percent(answer.expected)
    correct = "are correct" if answer.has_truth else "are expected to be correct"
    at = "Nothing is called at the cutoff."
    if answer.n_calls:
        at = f"At the cutoff, {answer.n_calls:,} calls, {share} {correct}."
    if not answer.has_truth:
        return (
            "Expected precision by number of calls",
            f"{at} The expected precision is the mean chance of the calls so far.",
            f"Expected precision against the number of calls. {at}",
        )
    return (
        "Precision by number of calls",
        f"{at} Where the two lines agree, the model's own expectation is right.",
        f"Observed and expected precision against the number of calls. {at}",
    )


def _drawn(key: str, display: Any, title: str, caption: str, description: str) -> FigureText:
    drawing, axes = figure()
    display.plot(axes, colors=COLORS)
    return figure_text(drawing, key, title, caption, description)


def _data(report: Report) -> dict[str, Any]:
    """Return the data of the page's script."""
    output, entries = report.summary.output, report.labels
    parts, group = parts_of(output.model.cutoff_, output.level.size)
    return {
        "levels": _once([x if math.isfinite(x) else None for x in output.level.tolist()]),
        "maxCalls": _once([parts[g].max_calls for g in group.tolist()]),
        "reasons": REASONS,
        "nFit": entries["nFit"],
        "nSamples": report.answer.n_samples,
        "hasTruth": report.answer.has_truth,
        "isNames": report.names is not None,
        "sets": None if output.sets is None else SET_WORDS,
        "labels": entries["labels"],
        "notes": entries["notes"],
        "samples": report.samples,
    }


def _cutoff_data(report: Report) -> dict[str, Any]:
    """Return other cutoffs on these samples, and those in use with what they promise.

    Points and the numbers of the cutoffs are level, calls, precision (without truth as expected)
    and recall. With groups the cutoff in use has no single level.
    """
    answer, curve = report.answer, report.summary.curve
    cutoff = report.summary.output.model.cutoff_
    n = curve.score_sum.size - 1
    calls = curve.n_calls[1 : n + 1]
    level = np.diff(curve.score_sum) / np.diff(curve.calls[: n + 1])
    share = curve.precision[:n] if answer.has_truth else curve.mean_score
    last = report.summary.counts.axis_end
    at = np.unique(np.searchsorted(calls, np.linspace(1, last, SLIDER_STEPS)).clip(0, n - 1))
    points = np.stack([level, calls, share, curve.recall[:n]])[:, at].T.tolist()
    recall = answer.recall if answer.has_truth else None
    share_in_use = answer.precision if answer.has_truth else answer.expected
    parts = [("in use", cutoff, (answer.n_calls, share_in_use, recall))] + [
        (part.name, part.cutoff, (part.n_calls, part.precision, part.recall))
        for part in answer.parts["target"]
        if answer.has_truth
    ]
    marks = []
    for name, part, numbers in parts:
        own_level = part.level if part.groups is None and math.isfinite(part.level) else None
        marks.append({
            "name": name,
            "numbers": [own_level, *numbers],
            "text": _certificate(part, answer),
        })  # fmt: skip
    return {
        "cutoffs": [[float(f"{x:.6g}") for x in row] for row in points],
        "marks": marks,
        "elsewhere": _no_certificate([part for _, part, _ in parts], answer),
    }


def _certificate(cutoff: Cutoff, answer: Answer) -> str:
    """Say what is certified at a cutoff."""
    if cutoff.goal.confidence is None or answer.difference:
        return NOTHING_CERTIFIED
    if cutoff.groups is not None:
        return "Each group has a cutoff and a certificate of its own; the table above lists them."
    if not cutoff.reachable:
        return NOTHING_CERTIFIED
    most = f" and at most {cutoff.max_calls:,} calls per sample" if cutoff.max_calls else ""
    return (
        f"Certified at this cutoff{most}: at least {percent(cutoff.goal.precision)} correct, "
        f"with {percent(cutoff.goal.confidence)} confidence."
    )


def _no_certificate(cutoffs: list[Cutoff], answer: Answer) -> str:
    """Say what is certified at cutoffs other than those calibrated."""
    where = dict.fromkeys(f"{x.level:.3g}" for x in cutoffs if x.is_certified)
    text = f"Not certified: the guarantee is for the cutoff of {' or '.join(where)} only."
    if answer.difference or not where:
        text = NOTHING_CERTIFIED
    elif any(x.groups is not None for x in cutoffs):
        text = "Not certified: the guarantees are for the cutoffs of the groups."
    if any(x.max_calls for x in cutoffs):
        text += " These numbers are without a limit of calls per sample."
    if answer.has_truth:
        text += " Measured on these samples, so slightly optimistic."
    return text


def _once(values: list[Any]) -> list[Any]:
    """Return a single value if all labels have the same."""
    return values[:1] if len(set(values)) == 1 else values
