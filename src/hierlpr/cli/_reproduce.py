"""``hierlpr reproduce``: the paper's tables and figures, made again."""

from __future__ import annotations

from pathlib import Path

import click

from hierlpr.cli._shell import Shell, quiet_option

__all__ = ["reproduce"]


@click.command(epilog="Example: hierlpr reproduce all --out paper --replications 5")
@click.argument(
    "what", type=click.Choice(["table2", "curves", "disease", "all"]), default="all", required=False
)
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Folder for tables, figures and the page; it is made if missing.",
)  # fmt: skip
@click.option(
    "--replications", type=click.IntRange(min=2), default=100, show_default=True,
    help="Data sets drawn in each setting. Five take about a minute.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Same seed, same results.",
)  # fmt: skip
@click.option(
    "--trees", type=click.IntRange(min=1), default=100, show_default=True,
    help="Trees of ClusHMC, which takes most of the time.",
)  # fmt: skip
@click.option("--lpr", default="auto", show_default=True, help="Estimator of the LPRs.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes; as many as cores if not given."
)
@quiet_option
def reproduce(
    what: str,
    out: Path,
    replications: int,
    seed: int,
    trees: int,
    lpr: str,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Run the paper's studies again and set the results beside its own.

    WHAT is table2 (cutoffs), curves (precision-recall curves and hit areas of settings 1 to 4),
    disease (the disease-like data) or all. The folder gets CSV files, every figure as SVG and
    PNG, and index.html.
    """
    from hierlpr._kernels._threads import n_threads_or_default
    from hierlpr.research.reproduce import Options
    from hierlpr.research.reproduce import reproduce as run

    shell = Shell(quiet=quiet)
    with shell.progress(what) as bar:
        results = run(
            what,
            out=out,
            replications=replications,
            options=Options(seed=seed, n_trees=trees, lpr=lpr),
            n_jobs=n_threads_or_default(jobs),
            on_progress=bar,
        )
    for verdict in results.get("verdicts", ()):
        shell.say(
            f"setting {verdict.setting}: {verdict.words}: {verdict.holds} "
            f"({verdict.difference:+.4f}, s.e. {verdict.error:.4f})"
        )
    click.echo(out / "index.html")
    fewer = f", {results['n_disease']} of the disease-like data" if "disease" in results else ""
    shell.close(f"{replications:,} replications{fewer}")
