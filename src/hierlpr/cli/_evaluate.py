"""``hierlpr evaluate`` and ``report``: how good it is, in numbers and as a page to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json

if TYPE_CHECKING:
    from hierlpr.metrics.evaluation import Evaluation


@click.command(
    epilog="Example: hierlpr evaluate --hierarchy tree.csv --ranking calls.csv --truth truth.csv"
)
@opt.hierarchy
@click.option(
    "--ranking", required=True, type=click.Path(), metavar="F",
    help="A ranking (.csv, .parquet, a folder of Parquet files) or CAFA predictions (.tsv).",
)  # fmt: skip
@opt.truth
@click.option(
    "--absent", type=click.Choice(["negative", "skip"]),
    help="Ranked samples that the truth lacks: without any label (default for a long table), or "
    "left out (default for CAFA truth).",
)  # fmt: skip
@opt.close_truth
@opt.weights
@opt.with_truth
def evaluate(
    hierarchy: str,
    ranking: str,
    truth: str,
    weights: str | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Measure a ranking, and its calls, against the truth.

    All instances of the samples with truth count: those that the ranking does not list come last.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows

    opt.refuse_overlap()
    loaded, table = opt.read_hierarchy_file(shell, options, hierarchy)
    with shell.rates("rows") as on_progress:
        done = workflows.evaluate_file(
            ranking, table(truth), loaded, weights=table(weights), on_progress=on_progress,
            **options,
        )  # fmt: skip
    shell.read(done.ranking)
    shell.read(done.truth)
    if done.weights is not None:
        shell.read(done.weights)
    shell.notes(done.notes)
    found = done.evaluation
    if json_out != "-":
        shell.result("\n".join(_lines(found)))
    put_json(json_out, found.as_dict())
    shell.close(
        f"evaluated {found.sizes['listed']:,} of {found.sizes['instances']:,} instances, "
        f"{found.sizes['positives']:,} of them positive"
    )


def _lines(found: Evaluation) -> list[str]:
    parts = found.as_dict()
    width = max(len(name) for part in parts.values() for name in part)
    lines = []
    for title, part in parts.items():
        if not part:
            continue
        lines.append(f"{title}:")
        for name, value in part.items():
            shown = "not defined" if value is None else (
                f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            )  # fmt: skip
            lines.append(f"  {name:<{width}}  {shown}")
    return lines


@click.command(
    epilog="Example: hierlpr report --model model.hlpr --scores test.csv --truth test_truth.csv "
    "--out report.html"
)
@opt.model
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of samples that the model was not fitted on.")  # fmt: skip
@click.option("--truth", type=click.Path(), metavar="T",
              help="Their truth. Without it the page shows what is called and why, and how many "
              "calls the model expects to be right.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="HTML",
              help="Page to write, such as report.html.")  # fmt: skip
@click.option("--title", help="Heading of the page.")
@click.option("--max-samples", metavar="N", type=click.IntRange(min=0), default=200,
              show_default=True,
              help="How many samples can be looked at one by one; the page says how they were "
              "chosen. 0 keeps the names and scores of samples out of the page.")  # fmt: skip
@opt.absent
@opt.close_truth
@opt.weights
@opt.memory
@opt.work
@opt.tables
@opt.other_hierarchy
@opt.lenient
@opt.quiet
def report(
    model: str,
    scores: str,
    truth: str | None,
    out: str,
    weights: str | None,
    hierarchy: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Write one self-contained HTML page: cutoff, curves, hierarchy, samples, labels."""
    shell = Shell(quiet=quiet)
    if truth is None and (options["absent"] is not None or options["close_truth"]):
        raise click.UsageError("--absent and --close-truth need --truth.")
    from pathlib import Path

    from hierlpr import workflows

    opt.refuse_overlap()
    table = opt.written_tables(shell, options)
    with shell.rates() as on_progress:
        done = workflows.report_file(
            model, table(scores), table(truth), out, weights=table(weights),
            aliases=opt.other_names(hierarchy), on_progress=on_progress, **options,
        )  # fmt: skip
    for report in done.reports:
        shell.read(report)
    shell.notes(done.notes)
    answer = done.report.answer
    shell.close(
        f"wrote {out} ({Path(out).stat().st_size / 1000:,.0f} kB): {answer.n_samples:,} "
        f"samples x {answer.n_labels:,} labels"
    )
