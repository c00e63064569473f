"""``hierlpr inspect``, ``evaluate`` and ``discover``: commands with a hierarchy but no model."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from hierlpr import discovery
from hierlpr._utils.display import escape_control
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell
from hierlpr.io import HierarchyFile, read_p_values, write_discoveries
from hierlpr.io.lineages import Predictions
from hierlpr.io.predictions import read_predictions
from hierlpr.metrics.evaluation import Evaluation
from hierlpr.outofcore.evaluate import evaluate_file

MOST_SHOWN = 10


@opt.command(
    "hierlpr inspect go.obo --relationship part_of", "hierlpr inspect --predictions asv.sintax"
)
@click.argument("hierarchy", type=click.Path(), required=False)
@opt.path("--predictions", "P", "Instead: how this file is read by assign.", required=False)
@opt.reading_hierarchy
@opt.sep
@opt.lenient
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@opt.quiet
def inspect(
    hierarchy: str | None, predictions: str | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Print size, depth, roots, multi-parent labels and problems of HIERARCHY.

    HIERARCHY is an OBO file (.obo), an edge list with the columns parent and child (.csv, .tsv or
    .parquet), JSON, a path list (.txt or .paths) or a Clus ARFF header (.arff); .gz is unpacked.
    """
    shell = Shell(quiet=quiet)
    if (hierarchy is None) == (predictions is None):
        raise click.UsageError("give a hierarchy, or --predictions.")
    if hierarchy is None:
        data = read_predictions(shell.input_file(str(predictions)))
        facts = _facts_of_predictions(data)
        lines = (escape_control(line) for line in _lines_of_predictions(data, facts))
        shell.results("-" if as_json else None, facts, "\n".join(lines))
        shell.close(f"read {facts['samples']:,} samples and {facts['labels']:,} names")
        return
    with shell.progress() as on_progress:
        on_progress(f"reading {hierarchy}", 0, 1)
        loaded = opt.read_hierarchy_file(shell, options, hierarchy)
    facts = _facts(loaded)
    lines = (escape_control(line) for line in _lines(loaded, facts))
    shell.results("-" if as_json else None, facts, "\n".join(lines))
    shell.close(f"read {facts['labels']:,} labels and {facts['edges']:,} edges")


def _facts(loaded: HierarchyFile) -> dict[str, Any]:
    h = loaded.hierarchy
    n_parents = np.diff(h.parent_ptr)[h.position]
    n_children = np.diff(h.child_ptr)[h.position]
    several = np.flatnonzero(n_parents > 1)
    by_parents = several[np.argsort(-n_parents[several], kind="stable")]
    return {
        "path": loaded.report.path,
        "format": loaded.report.format,
        "kind": "forest" if h.is_forest else "DAG",
        "labels": h.n_labels,
        "edges": h.n_edges,
        "depth": h.depth,
        "labels_per_depth": np.bincount(h.levels)[1:].tolist(),
        "roots": len(h.roots),
        "root_names": list(h.roots[:100]),
        "leaves": len(h.leaves),
        "standalone": int(((n_parents == 0) & (n_children == 0)).sum()),
        "multi_parent": int(several.size),
        "multi_parent_names": [h.labels[i] for i in by_parents[:100]],
        "most_parents": int(n_parents.max()),
        "most_children": int(n_children.max()),
        "names": len(h.names),
        "other_names": len(loaded.aliases),
        "report": loaded.report.as_dict(),
    }


def _facts_of_predictions(data: Predictions) -> dict[str, Any]:
    scores, ranks = data.scores, np.array(data.ranks, dtype=object)
    samples_of = {  # a sample lists one name of a rank, or several
        rank: int(np.count_nonzero(np.diff(scores[:, np.flatnonzero(ranks == rank)].indptr)))
        for rank in dict.fromkeys(data.ranks)
    }
    part = np.quantile(scores.data, [0.0, 0.25, 0.5, 0.75, 1.0]) if scores.nnz else np.empty(0)
    return {
        "path": data.path,
        "format": data.format,
        "samples": len(data.samples),
        "sample_names": list(data.samples[:100]),
        "samples_by_rank": samples_of,
        "labels": data.hierarchy.n_labels,
        "labels_by_rank": {rank: int(np.sum(ranks == rank)) for rank in samples_of},
        "confidence_quartiles": part.round(6).tolist(),
        "notes": [str(note) for note in data.notes],
    }


def _lines_of_predictions(data: Predictions, facts: dict[str, Any]) -> list[str]:
    per_rank = facts["samples_by_rank"]
    names = facts["labels_by_rank"]
    quartiles = ", ".join(f"{x:.3g}" for x in facts["confidence_quartiles"])
    h = data.hierarchy
    deepest = h.labels[int(np.argmax(h.levels))]
    rows = [
        ("file", facts["path"]),
        ("read as", facts["format"]),
        ("samples", f"{facts['samples']:,}: {', '.join(data.samples[:3])}, ..."),
        *(
            ("rank", f"{rank}: {n:,} samples, {names[rank]:,} names")
            for rank, n in per_rank.items()
        ),
        ("longest path", deepest),
        ("confidences", f"{quartiles} (smallest, quartiles, largest)" if quartiles else "none"),
        *(("note", note) for note in facts["notes"]),
    ]
    return [f"{name:<12}  {text}" for name, text in rows]


def _lines(loaded: HierarchyFile, facts: dict[str, Any]) -> list[str]:
    def named(names: list[str], n: int) -> str:
        shown = ", ".join(loaded.hierarchy.caption(x) for x in names[:MOST_SHOWN])
        return f"{n:,}" + (f": {shown}" if n else "") + (", ..." if n > MOST_SHOWN else "")

    report = loaded.report
    per_depth = ", ".join(f"{n:,}" for n in facts["labels_per_depth"])
    rows = [
        ("file", facts["path"]),
        ("read as", facts["format"]),
        ("kind", facts["kind"]),
        ("labels", f"{facts['labels']:,}"),
        ("edges", f"{facts['edges']:,}"),
        ("depth", f"{facts['depth']} (labels per depth: {per_depth})"),
        ("roots", named(facts["root_names"], facts["roots"])),
        ("leaves", f"{facts['leaves']:,}"),
        ("standalone", f"{facts['standalone']:,}"),
        ("multi-parent", named(facts["multi_parent_names"], facts["multi_parent"])),
    ]
    if facts["names"]:
        rows.append(("names", f"{facts['names']:,} of {facts['labels']:,} labels"))
    if facts["other_names"]:
        rows.append(("other names", f"{facts['other_names']:,} (alternative and replaced ids)"))
    ordinary = {"labels", "edges", "roots"}
    rows += [("counted", f"{n:,} {x}") for x, n in report.counts.items() if x not in ordinary]
    rows += [("note", note) for note in report.notes]
    rows += [("problem", text) for text in report.problems] or [("problems", "none")]
    if report.n_problems > len(report.problems):
        rows.append(("problem", f"... and {report.n_problems - len(report.problems):,} more"))
    return [f"{name:<12}  {text}" for name, text in rows]


@opt.command("hierlpr evaluate --hierarchy tree.csv --ranking calls.csv --truth truth.csv")
@opt.hierarchy
@opt.path("--ranking", "F", "A ranking (.csv, .parquet) or CAFA predictions (.tsv).")
@opt.truth
@opt.missing_truth
@opt.propagate_truth
@opt.weights
@opt.clusters
@opt.with_truth
def evaluate(
    hierarchy: str, ranking: str, truth: str, json_out: str | None, quiet: bool, **options: Any
) -> None:
    """Measure a ranking and its calls against the truth.

    All (sample, label) pairs of samples with truth count; those not in the ranking come last.
    """
    shell = Shell(quiet=quiet)
    loaded = opt.read_hierarchy_file(shell, options, hierarchy)
    outcome = opt.run_workflow(shell, evaluate_file, ranking, truth, loaded, unit="rows", **options)
    measures = outcome.evaluation
    shell.results(json_out, measures.as_dict(), "\n".join(_measure_lines(measures)))
    shell.close(
        f"evaluated {measures.sizes['listed']:,} of {measures.sizes['instances']:,} instances, "
        f"{measures.sizes['positives']:,} of them positive"
    )


def _measure_lines(measures: Evaluation) -> list[str]:
    """Return the measures as aligned lines of text."""
    parts = measures.as_dict()
    width = max(len(name) for part in parts.values() for name in part)
    lines = []
    for title, part in parts.items():
        if not part:
            continue
        lines.append(f"{title}:")
        for name, value in part.items():
            number = f"{value:,}" if isinstance(value, int) else f"{value or 0.0:.4f}"
            lines.append(f"  {name:<{width}}  {'not defined' if value is None else number}")
    return lines


@opt.command("hierlpr discover --hierarchy go.obo --p-values p.csv --fdr 0.1 --out found.csv")
@opt.hierarchy
@opt.path(
    "--p-values",
    "P",
    "Table with the columns label and p (.csv, .tsv or .parquet); labels that are not listed have "
    "no p-value.",
)
@opt.path(
    "--out",
    "F",
    "Table to write (.csv, .tsv or .parquet): rank, label, p, lpr, level, rejected.",
    required=False,
)
@opt.number("--fdr", "A", "Largest false discovery rate, between 0 and 1.", 0.1)
@opt.choice(
    "--dependence",
    ("positive", "independent", "arbitrary"),
    "Assumption about the p-values, chosen before looking at them; positive includes independent.",
    "positive",
)
@opt.flag(
    "--bayes",
    "Reject by posterior probabilities instead: relies on a fitted model, without a guarantee.",
)
@opt.count(
    "--seed", "Break ties at random with this seed; only with --dependence independent.", least=0
)
@opt.sep
@opt.reading_hierarchy
@opt.lenient
@opt.json_out
@opt.quiet
def discover(
    hierarchy: str,
    p_values: str,
    out: str | None,
    fdr: float,
    dependence: Any,
    bayes: bool,
    seed: int | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Reject labels by their p-values, closed upward, with a controlled false discovery rate.

    State what is known about the dependence of the p-values before looking at them: it determines
    the procedure and what a null hypothesis means at an inner label.
    """
    shell = Shell(quiet=quiet)
    opt.refuse_overlap()
    loaded = opt.read_hierarchy_file(shell, options, hierarchy)
    h = loaded.hierarchy
    p, was_read = read_p_values(shell.input_file(p_values), h, aliases=loaded.aliases, **options)
    shell.read(was_read)
    result = discovery.discover(p, h, fdr, dependence, seed, bayes=bayes)
    if out is not None:
        write_discoveries(shell.output_file(out, ".csv"), result)
    facts = result.to_dict() | {"rejected": list(result.rejected)}
    shell.results(json_out, facts, result.summary())
    shell.close(f"rejected {int(result.is_rejected.sum()):,} of {result.p.size:,} labels")
