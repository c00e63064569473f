"""``hierlpr evaluate``: a ranking against the truth."""

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
@opt.parts
@opt.tables
@opt.reading_hierarchy
@opt.lenient
@opt.json_out
@opt.quiet
def evaluate(
    hierarchy: str,
    ranking: str,
    truth: str,
    absent: str | None,
    close_truth: bool,
    weights: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Measure a ranking, and its calls, against the truth.

    All instances of the samples with truth count: those that the ranking does not list come last.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows
    from hierlpr._base.files import refuse_overlap

    inputs = {"--hierarchy": hierarchy, "--ranking": ranking, "--truth": truth,
              "--weights": weights, "--names": options["names"]}  # fmt: skip
    how, table = opt.taken(options, opt.PARTS), opt.written_tables(shell, options, hierarchy)
    refuse_overlap({"--json": json_out}, inputs, how["work"])
    loaded = opt.read_hierarchy_file(shell, table(hierarchy), lenient=lenient, **options)
    with shell.rates("rows") as on_progress:
        done = workflows.evaluate_file(
            ranking, table(truth), loaded, absent=absent,  # type: ignore[arg-type]
            close_truth=close_truth, weights=None if weights is None else table(weights),
            lenient=lenient, on_progress=on_progress, **how,
        )  # fmt: skip
    shell.read(done.ranking)
    shell.read(done.truth)
    if done.weights is not None:
        shell.read(done.weights)
    shell.notes(done.notes)
    found = done.evaluation
    if json_out != "-":
        shell.result("\n".join(_lines(found)))
    if json_out is not None:
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
