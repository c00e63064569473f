"""Audits in folders: plan one from files, write what to check, add the answers of a file.

The command ``hierlpr audit`` calls these functions.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.audit import Audit, load_audit, start_audit
from hierlpr.audit.answers import COLUMNS
from hierlpr.audit.session import LEAST_SCORE
from hierlpr.audit.state import PLAN
from hierlpr.cutoff.decisions import Groups
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import ReadReport
from hierlpr.io.lineages import Predictions, merge_aliases
from hierlpr.io.predictions import read_predictions
from hierlpr.io.reading import load_json, read_lines
from hierlpr.io.true_names import label_studio_choices, read_cluster_ids, read_true_names
from hierlpr.model import HierLPR, load_model
from hierlpr.model.new_names import match_names
from hierlpr.outofcore.batches import PerSample, ScoreBatches
from hierlpr.outofcore.predict import load_for_scores
from hierlpr.outofcore.resources import RunKeywords, RunOptions
from hierlpr.plots.summary import share_interval
from hierlpr.ranking.blocks import consistent_scores
from hierlpr.report.check_page import write_check_page, write_tasks

PAGE, TABLE, CALLS, RECALL = "check.html", "check.csv", "calls.csv", "recall.csv"


class AuditOutcome(NamedTuple):
    """An audit and what was read; `recall` is a share with its 95 % interval, if it was asked."""

    audit: Audit
    reports: tuple[ReadReport, ...] = ()
    notes: tuple[str, ...] = ()
    recall: tuple[float, float, float] | None = None


def audit_file(
    model: AnyPath | None,
    scores: AnyPath | None,
    out: AnyPath,
    *,
    predictions: Any = None,
    hierarchy: Hierarchy | None = None,
    precision: float | None = None,
    error: float | None = None,
    confidence: float = 0.9,
    checks: int = 100,
    groups: Groups | None = None,
    show: AnyPath | None = None,
    tasks: bool = False,
    recall: int = 0,
    seed: int = 0,
    **options: Unpack[RunKeywords],
) -> AuditOutcome:
    """Plan an audit of the scores of a file; write its folder with what to check.

    `model`, `scores` and `options` are as in :func:`hierlpr.workflows.rank_file`; with clusters,
    these are checked whole. Instead of scores, `predictions` of another tool are those of a model
    that ``hierlpr assign`` wrote. Without a model, scores from 0 to 1 that are comparable across
    the labels of `hierarchy` are used as they are.

    If the folder `out` holds this audit already, nothing is drawn again. `precision`, `error`,
    `confidence`, `checks` and `groups` are as in :meth:`hierlpr.HierLPR.audit`; groups of
    predictions by depth are ranks. `show` is a table of two columns, sample and a link or text to
    show; `tasks` writes tasks for Label Studio too; `recall` is the number of `recall_samples`.
    """
    reports = list[ReadReport]()
    clusters: Any = options.get("clusters")
    if predictions is not None:
        assert model is not None
        fitted: HierLPR = load_model(model)
        reading = (fitted.path_style_ or {}).get("reading", {})
        predicted = read_predictions(predictions, **reading)
        fitted, values, _, _ = match_names(fitted, predicted)
        hierarchy, samples = fitted.hierarchy_, predicted.samples
        score = fitted.block_scores(Table(values, hierarchy.labels))
        if groups == "depth":
            groups = dict(zip(hierarchy.labels, fitted.rank_names(), strict=True))
        if clusters is not None:
            clusters = read_cluster_ids(dict(_pairs(clusters)), None, samples)
    else:
        scorer, path, parts = None, os.fspath(scores or ""), []
        if model is not None:
            scorer, run = load_for_scores(model, **options)
        else:
            assert hierarchy is not None
            run = RunOptions(hierarchy, **options)
        hierarchy, source = run.hierarchy, ScoreBatches(path, run, keep_names=True)
        for table, _ in source:
            if scorer is None:
                part = sparse.csr_array(consistent_scores(table, hierarchy))
            else:
                part = sparse.csr_array(scorer.block_scores(scorer.aligned_scores(table)))
            part.data[part.data < LEAST_SCORE] = 0.0
            part.eliminate_zeros()
            parts.append(part)
        score, samples = sparse.vstack(parts, format="csr"), tuple(source.names.to_pylist())
        clusters = PerSample(run, [path]).clusters_of(Table(score, hierarchy.labels, samples))
        reports.append(source.report)
    clusters = cluster_numbers(clusters, Table(score, hierarchy.labels, samples))
    audit = start_audit(
        score, hierarchy, samples=samples, precision=precision, error=error, checks=checks,
        confidence=confidence, groups=groups, clusters=clusters, random_state=seed,
    )  # fmt: skip
    if not (Path(out) / PLAN).exists() or load_audit(out).fingerprint != audit.fingerprint:
        audit.save(out)  # refuses the folder of another audit
    audit = load_audit(out)  # with the answers that the folder has
    _write_checks(audit, Path(out), show, tasks)
    if recall:
        names = recall_samples(audit, recall)
        _write(Path(out) / RECALL, pa.table({"sample": names, "label": [""] * len(names)}))
    return AuditOutcome(audit, tuple(reports))


def continue_audit(
    folder: AnyPath,
    *,
    answers: AnyPath | None = None,
    truth: AnyPath | None = None,
    checks: int | None = None,
    show: AnyPath | None = None,
    tasks: bool = False,
) -> AuditOutcome:
    """Add the answers of a file to an audit, write the certified calls, and plan more checks.

    `answers` is the saved ``check.csv`` (sample, label, correct), an export of the tasks from Label
    Studio, or a file of the true names of samples as `hierlpr.io.true_names` reads them; `truth` is
    ``recall.csv``, filled in: all true labels of the samples for recall. So many more `checks` are
    planned. `show` and `tasks` are as in `audit_file`.
    """
    audit, notes = load_audit(folder), list[str]()
    n_before = len(audit.log)
    if answers is not None:
        answered, left_out = _read_answers(answers, audit)
        audit.record(answered)
        notes += left_out
        if len(audit.log) == n_before:
            notes.append(f"{answers} has no new answers")
    if n_waiting := audit.n_waiting:
        first = audit.to_check(backend="pyarrow")["sample"][0]
        notes.append(
            f"{n_waiting:,} checked samples do not count yet, because {str(first)!r} comes before "
            "them and has no answer"
        )
    if checks is not None:
        audit.to_check(checks)
    audit.save(folder)
    if answers is None or checks is not None or show is not None or tasks:
        _write_checks(audit, Path(folder), show, tasks)
    _write(Path(folder) / CALLS, audit.calls(backend="pyarrow"))
    labels_of: dict[str, list[str]] = {}
    for sample, label in [] if truth is None else _pairs(truth):
        labels_of.setdefault(sample, []).extend([label] if label else [])
    estimate = None if truth is None else estimate_recall(audit, labels_of)
    return AuditOutcome(audit, notes=tuple(notes), recall=estimate)


def recall_samples(audit: Audit, n: int) -> list[str]:
    """Return samples drawn uniformly from all samples, independently of the checks."""
    rng = np.random.default_rng(int(audit.fingerprint, 16))
    drawn = rng.permutation(len(audit.samples))[:n]
    return [str(audit.samples[i]) for i in drawn.tolist()]


def estimate_recall(audit: Audit, truth: Mapping[str, Sequence[str]]) -> tuple[float, float, float]:
    """Estimate which share of all true labels is certified, with its 95 % interval.

    `truth` maps the samples of `recall_samples` to all of their true labels, not only to those that
    were shown; ancestors may be left out. The interval counts samples, as that of the report, and
    is approximate.
    """
    n, h, calls = len(truth), audit.hierarchy, audit.calls(backend="pyarrow").to_pydict()
    if set(truth) != set(recall_samples(audit, n)):
        raise DataError(
            f"truth: these are not the first {n:,} samples that were drawn for recall, such as "
            f"{quote_names(recall_samples(audit, 3))}.\n"
            "Hint: fill in recall.csv; a sample without any true label keeps its empty row."
        )
    called = set(zip(map(str, calls["sample"]), calls["label"], strict=True))
    hits, positives = np.zeros(n), np.zeros(n)
    for i, (sample, labels) in enumerate(truth.items()):
        closed = {label for x in labels for label in (x, *h.ancestors(x))}  # refuses others
        hits[i], positives[i] = sum((sample, x) in called for x in closed), len(closed)
    if not positives.any():
        raise DataError("truth: no sample has a true label, so recall is not defined.")
    return float(hits.sum() / positives.sum()), *share_interval(hits, positives)


# -- what to check ----------------------------------------------------------------------------


def _write_checks(audit: Audit, folder: Path, show: AnyPath | None, tasks: bool) -> None:
    """Write the page, the table and perhaps the tasks of the samples that are to be checked."""
    shown = {} if show is None else dict(_pairs(show))
    drawn = audit.shown().keys() & shown.keys()
    if shown and not drawn:
        samples = quote_names(list(shown), most=3)
        raise DataError(f"{show}: no sample to check is in its first column, which has {samples}.")
    links = {name: _link(shown[name], Path(show or "").parent, folder) for name in drawn}
    write_check_page(folder / PAGE, audit, show=links)
    if tasks:
        write_tasks(folder, audit, show=shown)
    frame = audit.to_check(backend="pyarrow")
    names = [audit.hierarchy.name(label) for label in frame["label"].to_pylist()]
    frame = frame.append_column("name", pa.array(names, pa.string()))
    _write(folder / TABLE, frame.append_column("correct", pa.array([""] * len(names), pa.string())))


def _link(text: str, origin: Path, folder: Path) -> str:
    """Return the address, on a page in `folder`, of a file that a table in `origin` names."""
    try:
        if text and (origin / text).is_file():
            return quote(Path(os.path.relpath(origin / text, folder)).as_posix())
    except (OSError, ValueError):  # a long text is no name of a file
        pass
    return text


def _write(path: Path, frame: Any) -> None:
    with atomic_output(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(frame.column_names)
        for batch in frame.to_batches(max_chunksize=2**16):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in row])


# -- answers ----------------------------------------------------------------------------------


def _read_answers(path: AnyPath, audit: Audit) -> tuple[Any, tuple[str, ...]]:
    """Return the answers of a file for `Audit.record`, and what was left out."""
    lines, mark, notes = read_lines(path), audit.fingerprint, tuple[str, ...]()
    right, choices = dict[str, list[str]](), list[Any]()
    if lines[0].lstrip()[:1] == "[":
        choices = list(label_studio_choices(path, load_json(path, "\n".join(lines))))
        columns, marks = {}, {task["data"].get("audit") for _, task, _ in choices}
    else:
        columns = _columns(path, lines)
        marks = {*columns.get("audit", ())} - {""}
    if marks - {mark, None}:
        raise DataError(f"{path}: these are answers on another audit.")
    if {*COLUMNS} <= {*columns}:
        return columns, notes
    if mark in marks:
        for _, task, paths in choices:
            sample, labels = task["data"]["sample"], [names[-1] for names in paths]
            if right.setdefault(sample, labels) != labels:
                raise DataError(f"{path}: sample {sample!r} has two different answers.")
    else:
        right, notes = _true_names(path, audit)
    wrong, h, shown = {}, audit.hierarchy, audit.shown()
    for sample, labels in right.items():
        closed = {label for x in labels for label in (x, *h.ancestors(x))}
        wrong[sample] = [label for label in shown.get(sample, ()) if label not in closed]
    return wrong, notes


def _true_names(path: AnyPath, audit: Audit) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the true labels of samples in a file of names, and what was left out."""
    h, samples = audit.hierarchy, tuple(audit.shown())
    aliases = merge_aliases([(h.name(label), label) for label in h.labels], h.labels)
    scores, ranks = sparse.csr_array((len(samples), h.n_labels)), ("",) * h.n_labels
    shown = Predictions("the audit", "audit", samples, scores, h, ranks, {}, aliases)
    rows, truth, notes = read_true_names(path, shown)
    labels = np.split(np.array(h.labels, dtype=object)[truth.indices], truth.indptr[1:-1])
    names = [samples[i] for i in rows.tolist()]
    return dict(zip(names, [x.tolist() for x in labels], strict=True)), notes


def _columns(path: AnyPath, lines: list[str]) -> dict[str, list[str]]:
    """Return the columns of a table of text that a page or a spreadsheet saved."""
    rows = list(csv.reader(lines, delimiter=max(",;\t", key=lines[0].count)))
    names = [name.strip().lower() for name in rows[0]]
    short = [k for k, row in enumerate(rows, 1) if any(row) and len(row) != len(names)]
    if short:
        raise FileError(f"{path}: line {short[0]} has another number of columns than the header.")
    return {name: [row[k] for row in rows[1:] if any(row)] for k, name in enumerate(names)}


def _pairs(path: AnyPath) -> list[tuple[str, str]]:
    """Read the first two columns of a table."""
    columns = list(_columns(path, read_lines(path)).values())
    if len(columns) < 2:
        raise FileError(f"{path}: two columns are needed: sample, and what belongs to it.")
    return list(zip(*columns[:2], strict=True))
