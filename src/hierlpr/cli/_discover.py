"""``hierlpr discover``: p-values on a hierarchy, discoveries with a controlled FDR."""

from __future__ import annotations

from typing import Any

import click

from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json


@click.command(
    epilog="Example: hierlpr discover --hierarchy go.obo --p-values p.csv --fdr 0.1 --out found.csv"
)
@opt.hierarchy
@click.option("--p-values", "p_values", required=True, type=click.Path(), metavar="P",
              help="Table with the columns label and p (.csv, .tsv or .parquet); labels it does "
              "not list have no p-value.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False), metavar="F",
              help="Table to write (.csv, .tsv or .parquet): rank, label, p, lpr, level, "
              "rejected.")  # fmt: skip
@click.option("--fdr", type=float, default=0.1, show_default=True, metavar="A",
              help="Largest false discovery rate, between 0 and 1.")  # fmt: skip
@click.option("--dependence", type=click.Choice(["positive", "independent", "arbitrary"]),
              default="positive", show_default=True,
              help="What is known about the p-values before looking at them: independent or "
              "positively dependent; independent; nothing.")  # fmt: skip
@click.option("--bayes", is_flag=True,
              help="Instead take the longest part of the ranking with a mean posterior of null "
              "labels of at most --fdr: model-based, nothing is promised.")  # fmt: skip
@click.option("--seed", type=int, metavar="S",
              help="Break ties at random with this seed (independent only).")  # fmt: skip
@click.option("--report", "page", type=click.Path(dir_okay=False), metavar="HTML",
              help="Also write a page with the hierarchy, figures and all labels.")  # fmt: skip
@click.option("--title", help="Heading of the page.")
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
    page: str | None,
    title: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **reading: Any,
) -> None:
    """Reject labels by their p-values, closed upward, with a controlled false discovery rate.

    Say what is known about the dependence of the p-values before looking at them: it decides the
    procedure and with it what a null means at an inner label.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import discovery
    from hierlpr._base.files import refuse_overlap
    from hierlpr.io import read_p_values, write_discoveries

    if seed is not None and seed < 0:
        raise click.BadParameter("a seed is 0 or more.", param_hint="--seed")
    outputs = {"--out": out, "--report": page, "--json": json_out}
    inputs = {"--hierarchy": hierarchy, "--p-values": p_values, "--names": reading["names"]}
    refuse_overlap(outputs, inputs)
    table = opt.written_tables(shell, reading, hierarchy)
    loaded = opt.read_hierarchy_file(shell, table(hierarchy), lenient=lenient, **reading)
    given = read_p_values(
        table(p_values), loaded.hierarchy, aliases=loaded.aliases, lenient=lenient
    )
    shell.read(given.report)
    found = discovery.discover(
        given.p, loaded.hierarchy, fdr, dependence, seed, bayes=bayes
    )  # fmt: skip
    if out is not None:
        write_discoveries(out, found)
    if page is not None:
        from hierlpr.report import write_discoveries_report

        write_discoveries_report(page, found, title=title)
    if json_out != "-":
        shell.result(found.summary())
    if json_out is not None:
        put_json(json_out, found.to_dict() | {"rejected": list(found.rejected)})
    shell.close(f"rejected {int(found.is_rejected.sum()):,} of {found.p.size:,} labels")
