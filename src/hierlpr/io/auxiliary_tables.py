"""Read weights and clusters of samples, and p-values of labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import MOST_WEIGHT, quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.reading import Place, ReadReport
from hierlpr.io.sources import as_names, as_numbers, is_table, number_hint, open_source
from hierlpr.io.table_columns import SAMPLE_NAMES
from hierlpr.io.table_files import TableOptions

P_NAMES = ("p", "p_value", "pvalue", "p-value", "p.value", "pval")


class Weights(NamedTuple):
    """Weights of samples by name, and the report of the file."""

    of: Mapping[str, float]
    report: ReadReport

    def match(self, samples: Sequence[str], source: str) -> NDArray[np.float64]:
        """Return the weights of samples of the file `source`; each must have one."""
        lost = [name for name in samples if name not in self.of]
        if lost:
            raise DataError(
                f"{self.report.path}: {len(lost):,} of {len(samples):,} samples of {source} have "
                f"no weight: {quote_names(lost)}.\n"
                "Hint: samples are matched by name; a weight of 0 leaves one out."
            )
        weights = np.array([self.of[name] for name in samples], dtype=np.float64)
        if not weights.any():
            text = f"all {len(samples):,} samples of {source} have weight 0."
            raise DataError(f"{self.report.path}: {text}")
        return weights


def read_weights(
    path: AnyPath, *, max_weight: float | None = None, **options: Unpack[TableOptions]
) -> Weights:
    """Read a table with the columns ``sample`` and ``weight``; other columns are ignored.

    Weights are 0 or more, and at most `max_weight` if that is given.
    """
    log = ReadReport(os.fspath(path), "weights", lenient=options.get("lenient", False))
    largest = MOST_WEIGHT if max_weight is None else min(max_weight, MOST_WEIGHT)
    weights: dict[str, float] = {}
    for line, sample, weight in _rows(log, "sample", ("weight",), options):
        if not sample or sample in weights:
            text = f"sample {sample!r} occurs twice." if sample else "the sample has no name."
            log.problem(text, line=line)
        elif not 0.0 <= weight <= largest:
            text = f"the weight of sample {sample!r} is {weight:g}, not from 0 to {largest:g}."
            log.problem(text, line=line, column="weight")
        else:
            weights[sample] = weight
    log.check(log.counts["rows"])
    return Weights(weights, log.complete(samples=len(weights)))


def read_clusters(tables: Sequence[AnyPath], **options: Unpack[TableOptions]) -> dict[str, str]:
    """Read the cluster of each sample, as far as the option `clusters` names any.

    It is a column of one of the `tables`, or a file with the columns ``sample`` and ``cluster``, or
    ``sample`` and one other.
    """
    clusters = options.get("clusters")
    if clusters is None:
        return {}
    is_file = os.path.isfile(clusters)
    for path in (clusters,) if is_file else filter(is_table, tables):
        log = ReadReport(os.fspath(path), "clusters")
        source = open_source(log, sep=options.get("sep"), decimal=options.get("decimal", "."))
        names = [name.strip() for name in source.columns]
        samples = [options.get("sample_column"), *SAMPLE_NAMES]
        at = next((names.index(x) for x in samples if x in names), 0)
        others = [i for i in range(len(names)) if i != at]
        column = names.index("cluster") if "cluster" in names else others[0] if others else at
        if not is_file and clusters not in names:
            continue
        if not is_file:
            column = names.index(clusters)
        elif len(others) != 1 and "cluster" not in names:
            text = f"the columns are {quote_names(names)}, not sample and cluster."
            raise log.file_error(text, line=source.first_place)
        cluster_of: dict[str, str] = {}
        for batch, place in source.chunks([at, column]):
            sample, cluster = (
                as_names(x, log, names[i]).to_pylist()
                for i, x in zip((at, column), batch.columns, strict=True)
            )
            for i, (name, value) in enumerate(zip(sample, cluster, strict=True)):
                if not (value or "").strip():
                    hint = "give a sample that belongs to no other a cluster of its own."
                    log.problem(
                        f"sample {name!r} has no cluster.", line=partial(place, i), hint=hint
                    )
                elif cluster_of.setdefault(name, value) != value:
                    text = (
                        f"sample {name!r} is in two clusters, {cluster_of[name]!r} and {value!r}."
                    )
                    log.problem(text, line=partial(place, i))
            log.check(batch.num_rows)
        if not cluster_of:
            raise log.file_error("no sample has a cluster.")
        return cluster_of
    raise DataError(
        f"clusters: {clusters!r} is neither a file nor a column of "
        f"{quote_names([os.fspath(x) for x in tables])}.\n"
        "Hint: name the column with the patient, donor or camera of each sample, or a table with "
        "the columns sample and cluster."
    )


def read_p_values(
    path: AnyPath, hierarchy: Hierarchy, **options: Unpack[TableOptions]
) -> tuple[NDArray[np.float64], ReadReport]:
    """Read a table with a column ``label`` and one of p-values; other columns are ignored.

    The column of p-values is called ``p``, ``p_value``, ``pvalue``, ``p-value``, ``p.value`` or
    ``pval``. Returns p-values in the order of ``hierarchy.labels``, NaN for labels without one.
    """
    log = ReadReport(os.fspath(path), "p-values", lenient=options.get("lenient", False))
    aliases = options.get("aliases") or {}
    position = {name: i for i, name in enumerate(hierarchy.labels)}
    p = np.full(hierarchy.n_labels, np.nan)
    with_value: set[int] = set()
    for line, name, value in _rows(log, "label", P_NAMES, options):
        at = position.get(name if name in position else aliases.get(name, name))
        if at is None:
            log.unknown_label(name, hierarchy, line=line)
        elif at in with_value:
            log.problem(f"label {name!r} occurs more than once.", line=line)
        elif value < 0.0 or value > 1.0:
            hint = "give p-values, not test statistics or their logarithms."
            log.problem(f"{value:g} is outside [0, 1].", line=line, column="p", hint=hint)
        else:
            with_value.add(at)
            p[at] = value
    log.check(log.counts["rows"])
    if np.isnan(p).all():
        raise log.file_error("no label of the hierarchy has a p-value.")
    counts = {"p-values": int((~np.isnan(p)).sum()), "labels without one": int(np.isnan(p).sum())}
    return p, log.complete(**counts)


def _rows(
    log: ReadReport, key: str, values: Sequence[str], options: TableOptions
) -> Iterator[tuple[Callable[[], Place], str, float]]:
    """Yield place, name and number (NaN if missing) of every row; other text is a problem."""
    source = open_source(log, sep=options.get("sep"), decimal=options.get("decimal", "."))
    columns = []
    for known in ((key,), values):
        found = [i for i, name in enumerate(source.columns) if name.lower() in known]
        if len(found) != 1:
            problem = "there is no column" if not found else "there is more than one column"
            text = f"{problem} {known[0]!r}; the columns are {quote_names(source.columns)}."
            hint = f"the header has the columns {key} and {values[0]}; .csv has commas, .tsv "
            hint += "tabs, sep= changes that."
            raise log.file_error(text, line=source.first_place, hint=hint, options=("sep",))
        columns += found
    for batch, place in source.chunks(columns):
        log.counts["rows"] += batch.num_rows
        numbers, bad = as_numbers(batch.column(1), log, values[0], decimal=source.decimal)
        for i, name in enumerate(as_names(batch.column(0), log, key).to_pylist()):
            if bad[i]:
                cell = str(batch.column(1)[i])[:40]
                hint, named = number_hint(cell, source.decimal)
                text = f"{cell!r} is not a number."
                line = partial(place, i)
                log.problem(text, line=line, column=values[0], hint=hint, options=named)
            else:
                yield partial(place, i), (name or "").strip(), float(numbers[i])
