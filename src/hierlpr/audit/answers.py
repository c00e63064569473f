"""Read the answers of an expert, and complete them with what the hierarchy implies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hierlpr._utils.checks import nearest, quote_names
from hierlpr.data.frames import as_frame
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

COLUMNS = ("sample", "label", "correct")
WORDS: dict[str, bool | None] = {
    # Spreadsheets write TRUE and numbers in the language of their user.
    **dict.fromkeys(("1", "yes", "y", "true", "right", "correct", "x", "ja", "wahr", "vrai"), True),
    **dict.fromkeys(
        ("0", "no", "n", "false", "wrong", "incorrect", "nein", "falsch", "faux"), False
    ),
    **dict.fromkeys(("unsure", "?", "unknown"), None),
}

# The answers on one sample: True, False, or None for unsure, which counts as wrong.
Answer = dict[str, bool | None]
Shown = Mapping[str, tuple[str, ...]]  # the labels of each sample to check, parents first


def read_answers(answers: Any, shown: Shown, hierarchy: Hierarchy) -> dict[str, Answer]:
    """Return the answers on each sample as they were given.

    `answers` is a frame (or mapping of columns) with sample, label and correct, or maps each
    sample to its labels that are wrong.
    """
    out: dict[str, Answer] = {}
    for sample, label, value in _rows(answers, shown, hierarchy):
        if not (word := _word(value)):
            continue  # not checked yet
        if word not in WORDS:
            raise DataError(
                f"answers: sample {sample!r}, label {label!r} has {value!r}.\n"
                "Hint: write yes (or 1, true, x), no (or 0, false), unsure, or leave it empty."
            )
        if sample not in shown:
            raise DataError(
                f"answers: sample {sample!r} is not among those to check; the first of these are "
                f"{quote_names(list(shown), most=3)}.\n"
                "Hint: answers belong to the audit whose to_check() listed the samples."
            )
        if label not in shown[sample]:
            names = shown[sample]
            raise DataError(
                f"answers: sample {sample!r} was not shown with the label {label!r}.\n"
                f"Hint: {nearest(label, names) or f'it was shown with {quote_names(names)}.'}"
            )
        if out.setdefault(sample, {}).setdefault(label, WORDS[word]) != WORDS[word]:
            raise DataError(f"answers: sample {sample!r}, label {label!r} has two answers.")
    return out


def _rows(answers: Any, shown: Shown, hierarchy: Hierarchy) -> Iterator[tuple[str, str, Any]]:
    """Yield sample, label and answer."""
    frame = as_frame(answers, "answers")
    if frame is not None:
        answers = {name: frame[name].to_list() for name in frame.columns}
    if not isinstance(answers, Mapping) or (frame is not None and not {*COLUMNS} <= {*answers}):
        columns = type(answers).__name__ if frame is None else quote_names(list(answers))
        raise DataError(
            "answers must be a data frame with the columns sample, label, correct, or map each "
            f"checked sample to its labels that are wrong; got {columns}."
        )
    if {*COLUMNS} <= {*answers}:
        for sample, label, value in zip(*(answers[name] for name in COLUMNS), strict=True):
            yield str(sample), str(label), value
        return
    for sample, wrong in answers.items():
        names = [wrong] if isinstance(wrong, str) else [str(label) for label in wrong]
        yield from ((str(sample), label, False) for label in names)  # refused if not shown
        false = {label for name in names for label in (name, *hierarchy.descendants(name))}
        for label in shown.get(str(sample), ("",)):
            yield str(sample), label, label not in false


def _word(value: Any) -> str:
    """Return an answer as one of `WORDS`, or empty for a missing one of any library."""
    text = str(value).strip().lower()
    if text in ("none", "nan", "<na>", "null"):
        return ""
    # A column of numbers: 1.0 where cells are empty, 1,0 in other languages.
    return re.sub(r"^([01])[.,]0*$", r"\1", text)


def complete(
    sample: str, answer: Answer, shown: tuple[str, ...], hierarchy: Hierarchy
) -> dict[str, bool]:
    """Return the truth of all labels of a sample that were shown.

    A true label makes its ancestors true, a false one its descendants false; an unsure one is
    false, unless a descendant is true. `shown` holds parents before children, and all ancestors of
    its labels. Contradictions and labels without an answer are refused.
    """
    truth = {label: value for label, value in answer.items() if value is not None}
    parents = {label: hierarchy.parents(label) for label in shown}
    for label in reversed(shown):
        for parent in parents[label] if truth.get(label) else ():
            if truth.get(parent) is False:
                raise DataError(
                    f"answers: sample {sample!r} has {label!r} but not its parent {parent!r}.\n"
                    "Hint: a label is only right if all labels above it are."
                )
            truth[parent] = True
    for label in shown:
        if any(truth.get(parent) is False for parent in parents[label]):
            truth.setdefault(label, False)
    truth |= {label: False for label, x in answer.items() if x is None and label not in truth}
    missing = [label for label in shown if label not in truth]
    if missing:
        raise DataError(
            f"answers: sample {sample!r} lacks {quote_names(missing)}.\n"
            "Hint: answer all labels of a sample, or none; write unsure if you cannot tell."
        )
    return {label: truth[label] for label in shown}
