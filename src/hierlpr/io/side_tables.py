"""Tables beside scores and truth: weights of samples, p-values of labels, and names for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import MOST_WEIGHT, listed
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.delimited import is_number, open_text, wrong_delimiter
from hierlpr.io.opening import TablePath, ending, is_parquet, workbook_of, written
from hierlpr.io.table_files import open_table, read_cells
from hierlpr.io.whole_tables import read_scores

P_NAMES = ("p", "p_value", "pvalue", "p-value", "p.value", "pval")
LABEL_NAMES = ("label", "code", "id", "term")
NAME_NAMES = ("name", "title", "description", "text")
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


# -- a row for each sample --------------------------------------------------------------------


class Weights(NamedTuple):
    """Weights of samples by name, and what was seen; None where all samples weigh the same."""

    of: Mapping[str, float] | None
    report: ReadReport | None

    @property
    def reports(self) -> tuple[ReadReport, ...]:
        """What was seen, if anything was read."""
        return () if self.report is None else (self.report,)

    def match(
        self,
        samples: Callable[[], Sequence[str]],
        source: str,
        chosen: NDArray[np.intp] | None = None,
    ) -> NDArray[np.float64] | None:
        """Return the weight of each sample, or of some by place; `samples` names all of them."""
        if self.of is None or self.report is None:
            return None
        names = samples()
        if chosen is not None:
            names = [names[i] for i in chosen.tolist()]
        lost = [name for name in names if name not in self.of]
        if lost:
            raise DataError(
                f"{self.report.path}: {len(lost):,} of {len(names):,} samples of {source} have no "
                f"weight: {listed(lost[:5], total=len(lost))}.\n"
                "Hint: samples are matched by name; a weight of 0 leaves one out."
            )
        found = np.array([self.of[name] for name in names], dtype=np.float64)
        if not found.any():
            raise DataError(
                f"{self.report.path}: all {len(names):,} samples of {source} have the weight 0.\n"
                "Hint: 0 leaves a sample out; give some of them a weight."
            )
        return found


def read_weights(
    path: AnyPath | None, *, lenient: bool = False, max_weight: float | None = None
) -> Weights:
    """Read a table with the columns ``sample`` and ``weight``; other columns are passed over.

    Weights are 0 or more, up to `max_weight` if there is such a bound; every sample has one row.
    Without a path all samples weigh the same.
    """
    if path is None:
        return Weights(None, None)
    table = open_table(path, "scores", Watch(path, lenient=True))
    if not table.is_wide or "weight" not in table.numbers:
        raise FileError(
            f"{table.path}: there is no column 'weight'.\n"
            "Hint: a table of weights has the header sample,weight."
        )
    alone = TablePath(path, **{**written(path).options, "columns": "labels"})
    read = read_scores(alone, Hierarchy((), labels=("weight",)), lenient=lenient)
    values = np.asarray(read.table.values)[:, 0]
    most = MOST_WEIGHT if max_weight is None else min(max_weight, MOST_WEIGHT)
    bad = np.flatnonzero((values < 0.0) | (values > most))
    if bad.size:
        name, first = read.samples[int(bad[0])], float(values[bad[0]])
        what, hint = f"more than {most:g}", "only ratios of weights matter; give smaller ones."
        if first < 0.0:
            what, hint = "less than 0", "weights are 0 or more; 0 leaves a sample out."
        elif first <= MOST_WEIGHT:
            what = f"more than max_weight={most:g}"
            hint = "the bound must hold for every sample; give one that does, or clip the weights."
        raise Watch(path, lenient=True).fail(
            f"the weight of sample {name!r} is {first:g}, {what} ({bad.size:,} such).",
            line=next(table.find(name, None), None),
            column="weight",
            hint=hint,
        )
    return Weights(dict(zip(read.samples, values.tolist(), strict=True)), read.report)


# -- a row for each label ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PValuesFile:
    """p-values as read from a file, in the order of ``hierarchy.labels``; NaN where missing."""

    p: NDArray[np.float64]
    report: ReadReport


def read_p_values(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
) -> PValuesFile:
    """Read a table with a column ``label`` and one of p-values.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` (both may end in ``.gz``), ``.parquet`` or ``.xlsx``. The column of
        p-values is called ``p``, ``p_value``, ``pvalue``, ``p-value``, ``p.value`` or ``pval``;
        others are passed over. Labels that are not listed, and empty or NA cells, have no p-value.
    aliases : mapping, optional
        Other names of labels.
    lenient : bool
        Leave out unknown labels and bad rows, and count them.
    """
    watch = Watch(path, "p-values", lenient=lenient)
    rows = _rows(watch, ("label",), P_NAMES)
    known = {name: i for i, name in enumerate(hierarchy.labels)}
    p = np.full(hierarchy.n_labels, np.nan)
    given: dict[int, int | str] = {}
    for place, name, cell in rows:
        at = known.get(name if name in known or not aliases else aliases.get(name, name))
        if at is None:
            watch.unknown_label(name, known, line=place)
        elif at in given:
            watch.problem(f"label {name!r} is there again; it was at {given[at]}.", line=place)
        elif (value := _number(cell, place, watch)) is not None:
            given[at] = f"line {place}" if isinstance(place, int) else place
            p[at] = value
    if np.isnan(p).all():
        raise watch.fail("no label of the hierarchy has a p-value here.")
    counts = {"p-values": int((~np.isnan(p)).sum()), "labels without one": int(np.isnan(p).sum())}
    return PValuesFile(p, watch.report(**counts))


def read_names(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
) -> tuple[dict[str, str], ReadReport]:
    """Read a table with a column ``code`` and one ``name``: names for people.

    The columns may also be called ``label``, ``id`` or ``term``, and ``title``, ``description`` or
    ``text``. The table may name more than the hierarchy has; the report counts it.
    """
    watch = Watch(path, "names", lenient=lenient)
    names: dict[str, str] = {}
    for place, given, name in _rows(watch, LABEL_NAMES, NAME_NAMES):
        label = given if given in hierarchy or not aliases else aliases.get(given, given)
        if label not in hierarchy:
            watch.counts["names_of_other_labels"] += 1
        elif not name.strip():
            watch.counts["labels_with_an_empty_name"] += 1
        elif names.setdefault(label, name) != name:
            watch.problem(f"label {given!r} has the name {names[label]!r} too.", line=place)
    if not names:
        raise watch.fail("no label of the hierarchy has a name here.")
    return names, watch.report(names=len(names), labels=hierarchy.n_labels)


def _rows(
    watch: Watch, labels: tuple[str, ...], values: tuple[str, ...]
) -> Iterator[tuple[int | str, str, str]]:
    """Place, label and value of every row."""
    delimiter: str | None = "\t" if ending(watch.path) in (".tsv", ".tab") else ","
    if workbook_of(watch.path) is not None or is_parquet(watch.path):
        delimiter = None
    elif written(watch.path).sep is not None:
        delimiter = open_text(watch).delimiter
    rows = read_cells(watch, delimiter, (*labels, *values))
    first, header = next(rows, (1, None))
    if header is None:
        raise watch.fail("the file is empty, or has comments only.")
    low = [name.strip().lower() for name in header]
    places = []
    for wanted in (labels, values):
        found = [i for i, name in enumerate(low) if name in wanted]
        if len(found) != 1:
            problem = "there is no column" if not found else "there is more than one column"
            raise watch.fail(
                f"{problem} {wanted[0]!r} among {listed(header)}.",
                line=first,
                hint=wrong_delimiter(header, delimiter)
                or f"the table needs a header with the columns {labels[0]} and {values[0]}; .csv "
                "means commas, .tsv means tabs.",
            )
        places += found
    for place, cells in rows:
        if len(cells) == len(header):
            yield place, cells[places[0]], cells[places[1]]
        else:
            text = f"the row has {len(cells):,} columns, expected {len(header):,}."
            watch.problem(text, line=place)


def _number(cell: str, place: int | str, watch: Watch) -> float | None:
    """Return a p-value, NaN if it is missing, or None after a problem."""
    if cell.strip().lower() in MISSING:
        return float("nan")
    if not is_number(cell.encode()):
        watch.problem(f"{cell[:40]!r} is not a number.", line=place, column="p")
    elif not 0.0 <= float(cell) <= 1.0:
        hint = "give p-values, not test statistics or their logarithms."
        watch.problem(f"{cell} is outside [0, 1].", line=place, column="p", hint=hint)
    else:
        return float(cell)
    return None
