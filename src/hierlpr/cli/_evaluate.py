"""``hierlpr evaluate`` and ``report``: how good a ranking is, in numbers and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hierlpr import workflows
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json
from hierlpr.metrics.evaluation import Evaluation


@click.command(
    epilog="Example: hierlpr evaluate --hierarchy tree.csv --ranking calls.csv --truth truth.csv"
)
@opt.hierarchy
@opt.path("--ranking", "F", "A ranking (.csv, .parquet) or CAFA predictions (.tsv).")
@opt.truth
@opt.missing_truth
@opt.propagate_truth
@opt.weights
@opt.with_truth
def evaluate(
    hierarchy: str, ranking: str, truth: str, json_out: str | None, quiet: bool, **options: Any
) -> None:
    """Measure a ranking and its calls against the truth.

    All instances of the samples with truth count; those missing from the ranking come last.
    """
    shell = Shell(quiet=quiet)
    loaded = opt.read_hierarchy_file(shell, options, hierarchy)
    done = opt.run_workflow(
        shell, workflows.evaluate_file, ranking, truth, loaded, unit="rows", **options
    )
    found = done.evaluation
    if json_out != "-":
        shell.result("\n".join(_lines(found)))
    put_json(json_out, found.as_dict())
    shell.close(
        f"evaluated {found.sizes['listed']:,} of {found.sizes['instances']:,} instances, "
        f"{found.sizes['positives']:,} of them positive"
    )


def _lines(found: Evaluation) -> list[str]:
    """Return the measures as aligned lines of text."""
    parts = found.as_dict()
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


@click.command(
    epilog="Example: hierlpr report --model model.hlpr --scores test.csv --truth test_truth.csv "
    "--out report.html"
)
@opt.model
@opt.path("--scores", "S", "Scores of samples that the model was not fitted on.")
@opt.path(
    "--truth",
    "T",
    "Their truth. Without it the page shows the calls, the reasons for them, and the expected "
    "precision.",
    required=False,
)
@opt.path("--out", "HTML", "Page to write, such as report.html.", dir_okay=False)
@click.option("--title", help="Heading of the page.")
@click.option(
    "--max-samples",
    metavar="N",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Samples shown individually. 0 keeps names and scores of samples out of the page.",
)
@opt.missing_truth
@opt.propagate_truth
@opt.weights
@opt.execution
@opt.tables
@opt.other_names_in
@opt.lenient
@opt.quiet
def report(
    model: str, scores: str, truth: str | None, out: str, quiet: bool, **options: Any
) -> None:
    """Write one self-contained HTML page: cutoff, curves, hierarchy, samples, labels."""
    shell = Shell(quiet=quiet)
    if truth is None and (options["missing_truth"] is not None or options["propagate_truth"]):
        raise click.UsageError("--missing-truth and --propagate-truth need --truth.")
    done = opt.run_workflow(shell, workflows.report_file, model, scores, truth, out=out, **options)
    answer = done.report.answer
    if answer.unreachable:
        shell.warn(answer.unreachable)
    shell.close(
        f"wrote {out} ({Path(out).stat().st_size / 1000:,.0f} kB): {answer.n_samples:,} "
        f"samples x {answer.n_labels:,} labels"
    )
