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
    given = [name.strip() for name in source.columns]
    if sample_column in given:
        at = given.index(sample_column)
        given = [f"other {x}" if x.lower() in SAMPLE_NAMES else x for x in given]
        given[at] = SAMPLE_COLUMN
    lower = [name.lower() for name in given]
    if given[0].startswith("!gaf"):
        hint = "end its name in .gaf, or .gaf.gz; it is read as truth."
        raise log.file_error("this is a file of annotations (GAF).", line=place, hint=hint)
    sample, label, value = (
        next((lower.index(name) for name in names if name in lower), None)
        for names in (SAMPLE_NAMES, LABEL_NAMES, VALUE_NAMES[content])
    )
    # A first column of another name in a long table, and the labels beside the samples of truth.
    if sample is None and None not in (label, value) and 0 not in (label, value):
        sample = 0
        log.notes.append(f"{log.path}: the first column, {given[0]!r}, is taken as the samples")
    if content == "truth" and label is None and sample is not None and len(given) == 2:
        texts = _first_texts(source, 1 - sample)
        label = 1 - sample if any(x.strip().lower() not in FLAGS for x in texts) else None
    if sample is not None and label is not None and (value is not None or content == "truth"):
        found = {"sample": sample, "label": label}
        found |= {"truth" if content == "truth" else "score": value} if value is not None else {}
        if content == "ranking":
            found |= {name: lower.index(name) for name in RANKING_NAMES if name in lower}
        return _check_long_header(given, found, content, source)
    has_score = len(given) == 3 and parse_number(given[2], source.decimal) is not None
    is_pair = content == "truth" and len(given) in (2, 3)
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
        text = f"a column is missing; the columns are {quote_names(given)}."
        raise log.file_error(text, line=place, hint=f"expected the columns {needed}.")
    return _check_wide_header(given, content, source, clusters)


def _check_long_header(
    given: list[str], found: dict[str, int], content: Content, source: Source
) -> dict[str, int]:
    log, lower = source.log, [name.lower() for name in given]
    kind = "long" if source.delimiter else "long Parquet"
    log.format = log.format or ("ranking" if content == "ranking" else f"{kind} {content}")
    twice = next((lower[at] for at in found.values() if lower.count(lower[at]) > 1), None)
    if twice is not None:
        raise log.file_error("the column occurs twice.", line=source.first_place, column=twice)
    extra = [name for i, name in enumerate(given) if i not in found.values()]
    if content == "truth" and any(name.lower() in (*SCORE_NAMES, "lpr") for name in extra):
        text = f"this is a file of scores, not of truth: the columns are {quote_names(given)}."
        hint = "are scores and truth interchanged? Otherwise remove the columns of scores."
        raise log.file_error(text, hint=hint)
    if extra and content != "ranking":
        log.notes.append(f"{log.path}: other columns are ignored: {quote_names(extra)}")
    return found


def _check_wide_header(
    given: list[str], content: Content, source: Source, clusters: str | None
) -> dict[str, int]:
    log, place = source.log, source.first_place
    log.format = f"wide {content}" if source.delimiter else f"wide Parquet {content}"
    if len(given) < 2:
        hint = f"{EXPECTED} sep= sets the character between columns."
        text = "the table has only one column."
        raise log.file_error(text, line=place, hint=hint, options=("sep",))
    lower = [name.lower() for name in given]
    at = lower.index(SAMPLE_COLUMN) if SAMPLE_COLUMN in lower else 0
    first = given[at][:60]
    is_cafa = first.upper() in ("AUTHOR", "MODEL", "KEYWORDS")
    if first and first.lower() != SAMPLE_COLUMN and not is_cafa and _are_samples(source, at):
        log.notes.append(f"{log.path}: the first column, {first!r}, is taken as the samples")
    elif first and first.lower() != SAMPLE_COLUMN:
        text = f"the first column is {first!r}; expected {SAMPLE_COLUMN!r}."
        if is_cafa:
            hint = "remove the lines AUTHOR, MODEL, KEYWORDS and END of a CAFA submission."
            raise log.file_error(text, line=place, hint=hint)
        places = [i for i in range(min(len(given), _LOOKED_AT)) if _are_samples(source, i)]
        places += [0] if _are_samples(source, 0, str.isdecimal) else []
        likely = next((given[i] for i in places), "")
        hint = f"sample_column={likely!r} names the column of samples; {EXPECTED}"
        if not likely:
            hint = f"name the column of samples {SAMPLE_COLUMN!r}, or add one; {EXPECTED}"
        raise log.file_error(text, line=place, hint=hint, options=(f"sample_column={likely}",))
    if not first:
        log.notes.append(f"{log.path}: the first column has no name and is taken as the samples")
    labels = {name: i for i, name in enumerate(given) if i != at and name != clusters}
    if "" in labels:
        hint = "is it an index that was saved with the table? Then remove it."
        raise log.file_error("a column of the header has no name.", line=place, hint=hint)
    twice = next((name for name, n in Counter(given).items() if n > 1), None)
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
    found: dict[str, str] = {}
    extra: list[str] = []
    for given in list(columns)[1:]:
        label = given if given in hierarchy else aliases.get(given, given)
        if label not in hierarchy:
            extra.append(given)
        elif found.setdefault(label, given) != given:
            text = f"label {label!r} has two columns, {found[label]!r} and {given!r}."
            raise log.file_error(text, line="the header")
    missing = [label for label in hierarchy.labels if label not in found]
    if not found:
        rows = _first_texts(source, columns[""])
        known = quote_names(hierarchy.labels, most=3)
        text = f"none of the {len(extra):,} columns is a label: {quote_names(extra, most=3)}."
        hint = mismatch_hint(extra, missing, hierarchy, rows)
        hint = hint or f"name the columns as in the hierarchy: {known}."
        raise log.file_error(text, line="the header", hint=hint)
    if extra:
        hint = mismatch_hint(extra, missing, hierarchy) or "remove columns that are not labels."
        for given in extra:
            log.unknown_label(given, hierarchy, line="the header", hint=hint)
        log.check(0)
    if content != "ranking":
        missing = labels_without_scores(hierarchy, found)
    if missing:
        text = f"{len(missing):,} label(s) of the hierarchy have no column: {quote_names(missing)}."
        hint = (
            "add the columns, leave these leaves out of the hierarchy, or use a long table, which "
        )
        hint += "may omit pairs."
        raise log.file_error(text, line="the header", hint=hint)
    labels = [label for label in hierarchy.labels if label in found]
    return {"": columns[""], **{label: columns[found[label]] for label in labels}}
