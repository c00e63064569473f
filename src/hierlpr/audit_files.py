"""Audits from files to a folder: the scores of a population in; pages, answers and calls out."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.audit import Audit, load_audit, start_audit
from hierlpr.audit.session import LEAST_SCORE
from hierlpr.audit.state import PLAN
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import ReadReport
from hierlpr.io.auxiliary_tables import read_clusters
from hierlpr.model import HierLPR
from hierlpr.outofcore.batches import ScoreBatches
from hierlpr.outofcore.predict import load_for_scores
from hierlpr.outofcore.resources import RunKeywords
from hierlpr.report.check_page import write_check_page

PAGE, TABLE, CALLS = "check.html", "check.csv", "calls.csv"


class AuditOutcome(NamedTuple):
    """An audit and what was read."""

    audit: Audit
    reports: tuple[ReadReport, ...] = ()
    notes: tuple[str, ...] = ()


def audit_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    precision: float = 0.9,
    confidence: float = 0.9,
    checks: int = 100,
    show: AnyPath | None = None,
    seed: int = 0,
    **options: Unpack[RunKeywords],
) -> AuditOutcome:
    """Plan an audit of the scores of a file; write its folder with what to check.

    Parameters
    ----------
    model, scores : path
        As in :func:`hierlpr.workflows.rank_file`.
    out : path
        The folder. If it holds this audit already, nothing is drawn again.
    precision, confidence, checks
        As in :meth:`hierlpr.HierLPR.audit`.
    show : path, optional
        A table of two columns: sample and a link or text to show.
    seed : int
        Of the draw.
    **options
        See `hierlpr.outofcore.resources.RunKeywords`; with `clusters`, clusters are checked whole.
    """
    fitted, run = load_for_scores(model, **options)
    source, parts = ScoreBatches(os.fspath(scores), run, keep_names=True), []
    for table, _ in source:
        parts.append(_listed(fitted, table))
    samples = tuple(source.names.to_pylist())
    audit = start_audit(
        sparse.vstack(parts, format="csr"),
        fitted.hierarchy_,
        samples=samples,
        precision=precision,
        confidence=confidence,
        checks=checks,
        clusters=_cluster_numbers(read_clusters([scores], **run.table), samples),
        random_state=seed,
    )
    is_new = not (Path(out) / PLAN).exists()
    if is_new or load_audit(out).fingerprint != audit.fingerprint:
        audit.save(out)  # refuses the folder of another audit
    audit = load_audit(out)  # with the answers that the folder has
    _write_checks(audit, out, {} if show is None else _pairs(show))
    return AuditOutcome(audit, (source.report,))


def continue_audit(
    folder: AnyPath,
    *,
    answers: AnyPath | None = None,
    checks: int | None = None,
    show: AnyPath | None = None,
) -> AuditOutcome:
    """Add the answers of a file to an audit, write the certified calls, and plan more checks.

    Parameters
    ----------
    folder : path
        The folder that `audit_file` wrote.
    answers : path, optional
        A table with sample, label, correct: the saved ``check.csv``.
    checks : int, optional
        So many samples are to be checked next.
    show : path, optional
        As in `audit_file`.
    """
    audit = load_audit(folder)
    before = audit.n_checked
    if answers is not None:
        columns = _columns(answers)
        other = set(columns.get("audit", ())) - {audit.fingerprint, ""}
        if other:
            raise DataError(f"{answers}: these are answers on another audit, not on {folder}.")
        audit.record(columns)
    if checks is not None:
        audit.to_check(checks)
    audit.save(folder)
    notes = []
    waiting = len({*audit.sample[audit.correct >= 0].tolist()}) - audit.n_checked
    if answers is not None and audit.n_checked == before:
        notes.append(f"{answers} has no answer that was not known")
    if waiting > 0 and not audit.has_clusters:
        notes.append(
            f"{waiting:,} samples were checked after one that was left out; they count as soon as "
            "the samples before them are checked"
        )
    if answers is None or checks is not None or show is not None:
        _write_checks(audit, folder, {} if show is None else _pairs(show))
    _write(Path(folder) / CALLS, audit.calls(backend="pyarrow"))
    return AuditOutcome(audit, notes=tuple(notes))


def _listed(model: HierLPR, table: Table) -> sparse.csr_array:
    """Return the block scores that an audit may call."""
    score = sparse.csr_array(model.block_scores(model.aligned_scores(table)))
    score.data[score.data < LEAST_SCORE] = 0.0
    score.eliminate_zeros()
    return score


def _write_checks(audit: Audit, folder: AnyPath, show: dict[str, str]) -> None:
    """Write the page and the table of the samples that are to be checked."""
    write_check_page(Path(folder) / PAGE, audit, show=show)
    frame = audit.to_check(backend="pyarrow")
    names = [audit.hierarchy.name(label) for label in frame["label"].to_pylist()]
    frame = frame.append_column("name", pa.array(names, pa.string()))
    frame = frame.append_column("correct", pa.array([""] * frame.num_rows, pa.string()))
    _write(Path(folder) / TABLE, frame)


def _write(path: Path, frame: Any) -> None:
    with atomic_output(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(frame.column_names)
        for batch in frame.to_batches(max_chunksize=2**16):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in row])


def _columns(path: AnyPath) -> dict[str, list[str]]:
    """Read a table of text that a page or a spreadsheet saved."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read as text ({error}).") from None
    header = text.partition("\n")[0]
    rows = list(csv.reader(text.splitlines(), delimiter=max(",;\t", key=header.count)))
    names = [name.strip().lower() for name in rows[0]] if rows else []
    short = [k for k, row in enumerate(rows, 1) if row and len(row) != len(names)]
    if short:
        raise FileError(f"{path}: line {short[0]} has another number of columns than the header.")
    return {name: [row[k] for row in rows[1:] if row] for k, name in enumerate(names)}


def _pairs(path: AnyPath) -> dict[str, str]:
    """Read the first two columns of a table."""
    columns = list(_columns(path).values())
    if len(columns) < 2:
        raise FileError(f"{path}: two columns are needed: sample, and its cluster or what to show.")
    return dict(zip(*columns[:2], strict=True))


def _cluster_numbers(
    cluster_of: Mapping[str, str], samples: tuple[str, ...]
) -> NDArray[np.intp] | None:
    if not cluster_of:
        return None
    lost = [name for name in samples if name not in cluster_of]
    if lost:
        raise DataError(f"clusters: no cluster for {quote_names(lost)}.")
    ids = np.array([cluster_of[name] for name in samples], dtype=object).astype(str)
    return np.unique(ids, return_inverse=True)[1].astype(np.intp)
