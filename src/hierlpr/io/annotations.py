"""Scores and truth in files that are no tables: gene annotations, JSON predictions, Label Studio.

They are read whole and become rows of samples, labels and scores. Truth lists the most specific
labels, and pairs may be repeated, as in CAFA files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from hierlpr._utils.checks import quote_names
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.json_predictions import load_records
from hierlpr.io.lineages import bare_name
from hierlpr.io.predictions import match_labels, read_predictions
from hierlpr.io.reading import Place, ReadReport, ending, numbered_lines, open_plain, read_bytes
from hierlpr.io.sources import Source
from hierlpr.io.table_columns import Content
from hierlpr.io.true_names import label_studio_choices

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
Row = tuple[Place, str, str]  # place, sample, label


def open_annotations(
    log: ReadReport,
    content: Content,
    hierarchy: Hierarchy | None,
    sample_column: str | None,
    without_evidence: str | Collection[str],
) -> Source | None:
    """Return the rows of a file that is no table, None for a table."""
    kind = ending(log.path)
    if content == "scores" and kind in JSON_ENDINGS:
        return _predicted_rows(log, hierarchy)
    if content != "truth" or kind not in (".gaf", *JSON_ENDINGS):
        return None
    log.format = "annotations (GAF)" if kind == ".gaf" else "Label Studio export"
    if kind == ".gaf":
        rows = list(_gaf_rows(log, sample_column, without_evidence))
    else:
        rows = list(_label_studio_rows(log, sample_column))
    places, samples, labels = zip(*rows, strict=True) if rows else ((), (), ())
    batch = pa.record_batch([pa.array(x, pa.string()) for x in (samples, labels)], _NAMES[:2])
    return Source(log, tuple(_NAMES[:2]), "", batch=batch, places=places)


_NAMES = ["sample", "label", "score"]


def _predicted_rows(log: ReadReport, hierarchy: Hierarchy | None) -> Source:
    """Return the scores of a JSON file of predictions; labels are found by path or name."""
    predictions = read_predictions(log.path)
    log.format, log.notes = f"predictions ({predictions.format})", list(predictions.notes)
    labels = list(predictions.hierarchy.labels)
    if hierarchy is not None:
        matched = match_labels(predictions, hierarchy)
        labels = [x or bare_name(label) for x, label in zip(matched, labels, strict=True)]
    scores = predictions.scores
    row = np.repeat(np.arange(len(predictions.samples)), np.diff(scores.indptr))
    columns = [
        pa.array(predictions.samples, pa.string()).take(pa.array(row)),
        pa.array(labels, pa.string()).take(pa.array(scores.indices)),
        pa.array(scores.data),
    ]
    places = [f"sample {predictions.samples[i]!r}" for i in row.tolist()]
    return Source(log, tuple(_NAMES), "", batch=pa.record_batch(columns, _NAMES), places=places)


def _gaf_rows(
    log: ReadReport, sample_column: str | None, without_evidence: str | Collection[str]
) -> Iterator[Row]:
    """Yield the annotations of a GAF file, except those with NOT and with some evidence codes.

    Samples are the DB object ids (column 2), or with `sample_column` "symbol" those of column 3.
    """
    codes = without_evidence.split(",") if isinstance(without_evidence, str) else without_evidence
    left_out = {code.strip().upper() for code in codes} - {""}
    at = 2 if (sample_column or "").lower().endswith("symbol") else 1
    evidence: Counter[str] = Counter()
    with open_plain(log.path) as stream:
        for line, text in numbered_lines(log.path, stream):
            cells = text.split("\t")
            if not text.strip() or text.startswith("!"):
                continue
            if len(cells) < 15:
                hint = "GAF has 15 or 17 columns, separated by tabs."
                raise log.file_error(f"the row has {len(cells)} columns.", line=line, hint=hint)
            evidence[cells[6]] += 1
            if "NOT" in cells[3].split("|"):
                log.counts["annotations with NOT left out"] += 1
            elif cells[6] in left_out:
                log.counts[f"annotations with {cells[6]} left out"] += 1
            else:
                yield line, cells[at], cells[4]
    if unused := left_out - evidence.keys():
        text = f"no annotation has the evidence code {quote_names(sorted(unused))}."
        raise log.file_error(text, hint=f"the file has {quote_names(list(evidence), most=30)}.")
    shown = ", ".join(f"{code} {n:,}" for code, n in evidence.most_common())
    log.notes.append(f"{log.path}: annotations by evidence: {shown}")


def _label_studio_rows(log: ReadReport, sample_column: str | None) -> Iterator[Row]:
    """Yield the names chosen in a Label Studio export, and a blank for a task without any.

    A sample is the value of `sample_column` in the data of the task, or its only text, without the
    folder and the prefix of an upload.
    """
    content = load_records(log.path, read_bytes(log.path))
    if not isinstance(content, list):
        raise log.file_error(
            "this is no list of tasks.", hint="export from Label Studio as JSON (not JSON-MIN)."
        )
    for i, task, paths in label_studio_choices(log.path, content):
        texts = {key: str(x) for key, x in task["data"].items() if isinstance(x, str | int)}
        if sample_column not in texts and len(texts) != 1:
            hint = f"choose one with sample_column=; there are {quote_names(list(texts))}."
            text = "which of its data is the sample?"
            raise log.file_error(text, line=f"task {i}", hint=hint, options=("sample_column",))
        name = texts.get(sample_column or "", next(iter(texts.values())))
        sample = re.sub(r"^[0-9a-f]{8}-", "", re.split(r"[\\/]", name)[-1])
        names = [name for path in paths for name in path]
        yield from ((f"task {i}", sample, name) for name in names or [""])
