"""Find by its first row whether a table is wide, long or in the CAFA layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hierlpr._utils.checks import quote_names
from hierlpr.data.frames import SAMPLE_COLUMN
from hierlpr.io.read_log import ReadLog
from hierlpr.io.sources import Source
from hierlpr.io.text_tables import Column, Kind, TextTable, parse_number

Content = Literal["scores", "truth", "ranking"]

SAMPLE_NAMES = (SAMPLE_COLUMN, "target", "target_id", "entryid", "protein")
LABEL_NAMES = ("label", "term", "term_id", "go_id")
SCORE_NAMES = ("score", "probability", "confidence", "prediction")
VALUE_NAMES = {"scores": SCORE_NAMES, "truth": ("truth", "value"), "ranking": ("score",)}
RANKING_NAMES = ("lpr", "call", "rank")
_EXPECTED = (
    "a wide table has the header sample,LABEL,LABEL,...; a long one sample,label,score (for truth "
    "sample,label)."
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns to read, and their names: the sample, in a long table the label, then numbers."""

    format: str
    is_wide: bool
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    is_cafa: bool = False

    def take(self, places: Sequence[int]) -> Layout:
        """Return the layout with some of the columns."""
        return replace(
            self,
            columns=tuple(self.columns[i] for i in places),
            names=tuple(self.names[i] for i in places),
        )


def find_layout(
    source: Source, content: Content, log: ReadLog, sample_column: str | None
) -> Layout:
    """Return the layout of a table by the names of its columns."""
    given = [name.strip() for name in source.columns]
    lower = [name.lower() for name in given]
    wanted = (sample_column or "").strip().lower()
    samples = (wanted, *SAMPLE_NAMES) if wanted in lower and wanted else SAMPLE_NAMES
    kind = f"{source.kind} {content}".strip()
    place = source.first_place

    sample, label, value = (
        _find(lower, names, log) for names in (samples, LABEL_NAMES, VALUE_NAMES[content])
    )
    if sample is not None and label is not None and (value is not None or content == "truth"):
        return _long(content, given, (sample, label, value), kind, log)
    if isinstance(source, TextTable) and _is_cafa(source, lower, content, samples):
        source.has_header = False
        is_truth = content == "truth"
        if is_truth and len(given) == 3 and parse_number(given[2]) is not None:
            hint = "the third column holds scores; are scores and truth interchanged?"
            raise log.file_error("this is a file of scores, not of truth.", line=place, hint=hint)
        columns: tuple[Column, ...] = ((0, "name"), (1, "code"), (2, "number"))
        names = ("sample", "label", "score")
        n = 2 if is_truth else 3
        return Layout(f"CAFA {content}", False, columns[:n], names[:n], is_cafa=True)
    if content == "ranking" or (sample is not None and label is not None):
        needed = (
            "rank,sample,label,lpr,score,call" if content == "ranking" else "sample,label,score"
        )
        raise log.file_error(
            f"a column is missing; the columns are {quote_names(given)}.",
            line=place,
            hint=f"expected the columns {needed}.",
        )
    at = lower.index(wanted) if wanted and wanted in lower else 0
    _check_wide(given, lower, at, bool(wanted), log, source)
    number: Kind = "flag" if content == "truth" else "number"
    others = [i for i in range(len(given)) if i != at]
    return Layout(
        f"wide {kind}",
        True,
        ((at, "name"), *((i, number) for i in others)),
        (SAMPLE_COLUMN, *(given[i] for i in others)),
    )


def _find(lower: Sequence[str], names: Sequence[str], log: ReadLog) -> int | None:
    """Return the position of the first of the names that a column has."""
    for name in names:
        if name in lower:
            if lower.count(name) > 1:
                raise log.file_error("the column occurs twice.", line="the header", column=name)
            return lower.index(name)
    return None


def _long(
    content: Content,
    given: Sequence[str],
    found: tuple[int, int, int | None],
    kind: str,
    log: ReadLog,
) -> Layout:
    sample, label, value = found
    lower = [name.lower() for name in given]
    columns: list[Column] = [(sample, "name"), (label, "code")]
    if value is not None:
        columns.append((value, "flag" if content == "truth" else "number"))
    if content == "ranking":
        more = [name for name in RANKING_NAMES if name in lower]
        columns += [(lower.index(x), "flag" if x == "call" else "number") for x in more]
    used = {at for at, _ in columns}
    extra = [name for i, name in enumerate(given) if i not in used]
    if content == "truth" and any(name.lower() in (*SCORE_NAMES, "lpr") for name in extra):
        raise log.file_error(
            f"this is a file of scores, not of truth: the columns are {quote_names(given)}.",
            hint="are scores and truth interchanged? Otherwise remove the columns of scores.",
        )
    if extra and content != "ranking":
        log.note(f"{log.path}: other columns are ignored: {quote_names(extra)}")
    names = ["sample", "label", *(lower[at] for at, _ in columns[2:])]
    format = "ranking" if content == "ranking" else f"long {kind}"
    return Layout(format, False, tuple(columns), tuple(names))


def _is_cafa(source: TextTable, lower: list[str], content: Content, samples: Sequence[str]) -> bool:
    """Return whether a table has no header: sample, label, and for scores a number."""
    if any(name in samples for name in lower) or not lower[0]:
        return False
    if content == "truth":
        return len(lower) in (2, 3)
    is_score = len(lower) == 3 and parse_number(lower[2], source.decimal) is not None
    return is_score or (len(lower) == 3 and (source.is_submission or content == "ranking"))


def _check_wide(
    given: Sequence[str],
    lower: Sequence[str],
    at: int,
    is_chosen: bool,
    log: ReadLog,
    source: Source,
) -> None:
    """Raise if the first row is not the header of a wide table."""
    place = source.first_place
    if len(given) < 2:
        separators = {"\t": "tab", ";": "';'", ",": "','", "|": "'|'"}
        other = next((name for sep, name in separators.items() if sep in given[0]), "")
        hint = f"--sep {other} (sep=) reads columns separated by it." if other else _EXPECTED
        raise log.file_error("the table has only one column.", line=place, hint=hint)
    first = given[at]
    if first and lower[at] != SAMPLE_COLUMN and not is_chosen:
        raise log.file_error(
            f"the first column is {first[:60]!r}; expected {SAMPLE_COLUMN!r}.",
            line=place,
            hint=f"{_EXPECTED} --sample-column {first[:60]!r} (sample_column=) takes this column "
            "as the samples.",
        )
    if not first:
        log.note(f"{log.path}: the first column has no name and is taken as the samples")
    seen: set[str] = set()
    for i, label in enumerate(given):
        if i != at and not label:
            raise log.file_error(f"column {i + 1} of the header has no name.", line=place)
        if i != at and label in seen:
            raise log.file_error("the column occurs twice.", line=place, column=label)
        seen.add(label) if i != at else None
