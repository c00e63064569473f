"""Read the answers of an expert, and complete them with what the hierarchy implies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hierlpr._utils.checks import nearest, quote_names
from hierlpr.data.frames import as_frame
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

COLUMNS = ("sample", "label", "correct")
RIGHT = frozenset({"1", "yes", "y", "true", "right", "correct", "x"})
WRONG = frozenset({"0", "no", "n", "false", "wrong", "incorrect"})
UNSURE = frozenset({"unsure", "?", "unknown"})

# The answers on one sample: True, False, or None for unsure, which counts as wrong.
Answer = dict[str, bool | None]


def read_answers(
    answers: Any, shown: Callable[[str], tuple[str, ...]], hierarchy: Hierarchy
) -> dict[str, Answer]:
    """Return the answers on each sample as they were given.

    `answers` is a frame (or mapping of columns) with sample, label and correct, or maps each
    sample to its labels that are wrong. `shown` returns the labels of a sample to check.
    """
    frame = as_frame(answers, "answers")
    if frame is None and not isinstance(answers, Mapping):
        raise DataError(
            "answers must be a data frame with the columns sample, label, correct, or map each "
            f"checked sample to its labels that are wrong; got {type(answers).__name__}."
        )
    if frame is None and not set(COLUMNS) <= set(answers):
        by_sample: dict[str, Answer] = {}
        for name, wrong in answers.items():
            sample, labels = str(name), shown(str(name))
            names = [wrong] if isinstance(wrong, str) else [str(label) for label in wrong]
            _refuse_other_labels(sample, names, labels)
            false = {label for name in names for label in (name, *hierarchy.descendants(name))}
            by_sample[sample] = {label: label not in false for label in labels}
        return by_sample
    columns = answers if frame is None else {name: frame[name].to_list() for name in frame.columns}
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise DataError(
            f"answers have no column {quote_names(missing)}; their columns are "
            f"{quote_names(list(columns))}."
        )
    return _by_sample(zip(*(columns[name] for name in COLUMNS), strict=True), shown)


def _by_sample(
    rows: Iterable[tuple[Any, Any, Any]], shown: Callable[[str], tuple[str, ...]]
) -> dict[str, Answer]:
    out: dict[str, Answer] = {}
    for name, label_name, value in rows:
        sample, label, word = str(name), str(label_name), _word(value)
        if not word:
            continue  # not checked yet
        if word not in RIGHT | WRONG | UNSURE:
            raise DataError(
                f"answers: sample {sample!r}, label {label!r} has {value!r}.\n"
                "Hint: write yes (or 1, true, x), no (or 0, false), unsure, or leave it empty."
            )
        _refuse_other_labels(sample, [label], shown(sample))
        correct = None if word in UNSURE else word in RIGHT
        if out.setdefault(sample, {}).setdefault(label, correct) != correct:
            raise DataError(f"answers: sample {sample!r}, label {label!r} has two answers.")
    return out


def _word(value: Any) -> str:
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column with gaps is read as numbers
    return str(value).strip().lower()


def _refuse_other_labels(sample: str, labels: list[str], shown: tuple[str, ...]) -> None:
    other = [label for label in labels if label not in shown]
    if other:
        raise DataError(
            f"answers: sample {sample!r} was not shown with the label {quote_names(other)}."
            f"\nHint: {nearest(other[0], shown) or f'it was shown with {quote_names(shown)}.'}"
        )


def complete(
    sample: str, answer: Answer, shown: tuple[str, ...], hierarchy: Hierarchy
) -> dict[str, bool]:
    """Return the truth of all labels of a sample that were shown.

    A true label makes its ancestors true, a false one its descendants false; an unsure one is
    false, unless a descendant is true. `shown` holds parents before children, and all ancestors of
    its labels. Contradictions and labels that are still open are refused.
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
    for label, value in answer.items():
        if value is None:
            truth.setdefault(label, False)
    missing = [label for label in shown if label not in truth]
    if missing:
        raise DataError(
            f"answers: sample {sample!r} lacks {quote_names(missing)}.\n"
            "Hint: answer all labels of a sample, or none; write unsure if you cannot tell."
        )
    return truth
