"""The columns of tables: which of them are samples, labels and values, by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

import pyarrow as pa

from hierlpr._utils.checks import quote_names
from hierlpr.data.frames import SAMPLE_COLUMN
from hierlpr.data.tables import mismatch_hint
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.roll_up import labels_without_scores
from hierlpr.io.sources import FLAGS, Source, parse_number

Content = Literal["scores", "truth", "ranking"]

SAMPLE_NAMES = (SAMPLE_COLUMN, "target", "target_id", "entryid", "protein")
LABEL_NAMES = ("label", "term", "term_id", "go_id", "category", "class")
SCORE_NAMES = ("score", "probability", "confidence", "prediction")
VALUE_NAMES = {"scores": SCORE_NAMES, "truth": ("truth", "value"), "ranking": ("score",)}
_LOOKED_AT = 50  # columns
RANKING_NAMES = ("lpr", "call", "rank")
EXPECTED = (
    "a wide table has the header sample,LABEL,LABEL,...; a long one sample,label,score (for truth "
    "sample,label)."
)


def find_columns(
    source: Source,
    content: Content,
    sample_column: str | None = None,
    clusters: str | None = None,
) -> dict[str, int]:
    """Return the columns to read: sample, label and numbers, or ``""`` (the samples) and labels.

    The column named `clusters` is no label.
    """
    log, place = source.log, source.first_place
    header = [name.strip() for name in source.columns]
    if sample_column in header:
        at = header.index(sample_column)
        header = [f"other {x}" if x.lower() in SAMPLE_NAMES else x for x in header]
        header[at] = SAMPLE_COLUMN
    lower = [name.lower() for name in header]
    if header[0].startswith("!gaf"):
        hint = "end its name in .gaf, or .gaf.gz; it is read as truth."
        raise log.file_error("this is a file of annotations (GAF).", line=place, hint=hint)
    sample, label, value = (
        next((lower.index(name) for name in names if name in lower), None)
        for names in (SAMPLE_NAMES, LABEL_NAMES, VALUE_NAMES[content])
    )
    # A first column of another name in a long table, and the labels beside the samples of truth.
    if sample is None and None not in (label, value) and 0 not in (label, value):
        sample = 0
        log.notes.append(f"{log.path}: the first column, {header[0]!r}, is taken as the samples")
    if content == "truth" and label is None and sample is not None and len(header) == 2:
        texts = _first_texts(source, 1 - sample)
        label = 1 - sample if any(x.strip().lower() not in FLAGS for x in texts) else None
    if sample is not None and label is not None and (value is not None or content == "truth"):
        place_of = {"sample": sample, "label": label}
        place_of |= {"truth" if content == "truth" else "score": value} if value is not None else {}
        if content == "ranking":
            place_of |= {name: lower.index(name) for name in RANKING_NAMES if name in lower}
        return _check_long_header(header, place_of, content, source)
    has_score = len(header) == 3 and parse_number(header[2], source.decimal) is not None
    is_pair = content == "truth" and len(header) in (2, 3)
    if source.delimiter and sample is None and lower[0] and (is_pair or has_score):
        source.has_header, log.format = False, f"CAFA {content}"
        if not is_pair:
            return {"sample": 0, "label": 1, "score": 2}
        if has_score:
            hint = "the third column holds scores; are scores and truth interchanged?"
            raise log.file_error("this is a file of scores, not of truth.", line=place, hint=hint)
        return {"sample": 0, "label": 1}
    if content == "ranking" or (sample is not None and label is not None):
        needed = "sample,label,score" if content == "scores" else "sample,label,score,lpr,call,rank"
        text = f"a column is missing; the columns are {quote_names(header)}."
        raise log.file_error(text, line=place, hint=f"expected the columns {needed}.")
    return _check_wide_header(header, content, source, clusters)


def _check_long_header(
    header: list[str], place_of: dict[str, int], content: Content, source: Source
) -> dict[str, int]:
    log, lower = source.log, [name.lower() for name in header]
    kind = "long" if source.delimiter else "long Parquet"
    log.format = log.format or ("ranking" if content == "ranking" else f"{kind} {content}")
    twice = next((lower[at] for at in place_of.values() if lower.count(lower[at]) > 1), None)
    if twice is not None:
        raise log.file_error("the column occurs twice.", line=source.first_place, column=twice)
    extra = [name for i, name in enumerate(header) if i not in place_of.values()]
    if content == "truth" and any(name.lower() in (*SCORE_NAMES, "lpr") for name in extra):
        text = f"this is a file of scores, not of truth: the columns are {quote_names(header)}."
        hint = "are scores and truth interchanged? Otherwise remove the columns of scores."
        raise log.file_error(text, hint=hint)
    if extra and content != "ranking":
        log.notes.append(f"{log.path}: other columns are ignored: {quote_names(extra)}")
    return place_of


def _check_wide_header(
    header: list[str], content: Content, source: Source, clusters: str | None
) -> dict[str, int]:
    log, place = source.log, source.first_place
    log.format = f"wide {content}" if source.delimiter else f"wide Parquet {content}"
    if len(header) < 2:
        hint = f"{EXPECTED} sep= sets the character between columns."
        text = "the table has only one column."
        raise log.file_error(text, line=place, hint=hint, options=("sep",))
    lower = [name.lower() for name in header]
    at = lower.index(SAMPLE_COLUMN) if SAMPLE_COLUMN in lower else 0
    first = header[at][:60]
    is_cafa = first.upper() in ("AUTHOR", "MODEL", "KEYWORDS")
    if first and first.lower() != SAMPLE_COLUMN and not is_cafa and _are_samples(source, at):
        log.notes.append(f"{log.path}: the first column, {first!r}, is taken as the samples")
    elif first and first.lower() != SAMPLE_COLUMN:
        text = f"the first column is {first!r}; expected {SAMPLE_COLUMN!r}."
        if is_cafa:
            hint = "remove the lines AUTHOR, MODEL, KEYWORDS and END of a CAFA submission."
            raise log.file_error(text, line=place, hint=hint)
        places = [i for i in range(min(len(header), _LOOKED_AT)) if _are_samples(source, i)]
        places += [0] if _are_samples(source, 0, str.isdecimal) else []
        likely = next((header[i] for i in places), "")
        hint = f"sample_column={likely!r} names the column of samples; {EXPECTED}"
        if not likely:
            hint = f"name the column of samples {SAMPLE_COLUMN!r}, or add one; {EXPECTED}"
        raise log.file_error(text, line=place, hint=hint, options=(f"sample_column={likely}",))
    if not first:
        log.notes.append(f"{log.path}: the first column has no name and is taken as the samples")
    labels = {name: i for i, name in enumerate(header) if i != at and name != clusters}
    if "" in labels:
        hint = "is it an index that was saved with the table? Then remove it."
        raise log.file_error("a column of the header has no name.", line=place, hint=hint)
    twice = next((name for name, n in Counter(header).items() if n > 1), None)
    if twice is not None:
        raise log.file_error("the column occurs twice.", line=place, column=twice)
    return {"": at, **labels}


def _is_text(cell: str) -> bool:
    return parse_number(cell) is None


def _are_samples(source: Source, at: int, is_name: Callable[[str], bool] = _is_text) -> bool:
    """Return whether the first values of a column are different names, such as texts."""
    values = _first_texts(source, at)
    return 0 < len(set(values)) == len(values) and all(map(is_name, values))


def _first_texts(source: Source, at: int) -> list[str]:
    """Return the first values of a column, if they are texts."""
    chunk = next(source.chunks([at], 1000), None)
    if chunk is None or not pa.types.is_string(chunk[0].schema.types[0]):
        return []
    return [x or "" for x in chunk[0].column(0).to_pylist()]


def match_columns(
    columns: dict[str, int],
    hierarchy: Hierarchy,
    aliases: Mapping[str, str],
    source: Source,
    content: Content,
) -> dict[str, int]:
    """Sort the columns of a wide table in the order of the hierarchy.

    Every label needs one; in scores and truth, those that follow from others do not.
    """
    log = source.log
    column_of: dict[str, str] = {}
    extra: list[str] = []
    for name in list(columns)[1:]:
        label = name if name in hierarchy else aliases.get(name, name)
        if label not in hierarchy:
            extra.append(name)
        elif column_of.setdefault(label, name) != name:
            text = f"label {label!r} has two columns, {column_of[label]!r} and {name!r}."
            raise log.file_error(text, line="the header")
    missing = [label for label in hierarchy.labels if label not in column_of]
    if not column_of:
        rows = _first_texts(source, columns[""])
        known = quote_names(hierarchy.labels, most=3)
        text = f"none of the {len(extra):,} columns is a label: {quote_names(extra, most=3)}."
        hint = mismatch_hint(extra, missing, hierarchy, rows)
        hint = hint or f"name the columns as in the hierarchy: {known}."
        raise log.file_error(text, line="the header", hint=hint)
    if extra:
        hint = mismatch_hint(extra, missing, hierarchy) or "remove columns that are not labels."
        for name in extra:
            log.unknown_label(name, hierarchy, line="the header", hint=hint)
        log.check(0)
    if content != "ranking":
        missing = labels_without_scores(hierarchy, column_of)
    if missing:
        text = f"{len(missing):,} label(s) of the hierarchy have no column: {quote_names(missing)}."
        hint = (
            "add the columns, leave these leaves out of the hierarchy, or use a long table, which "
        )
        hint += "may omit pairs."
        raise log.file_error(text, line="the header", hint=hint)
    labels = [label for label in hierarchy.labels if label in column_of]
    return {"": columns[""], **{label: columns[column_of[label]] for label in labels}}
