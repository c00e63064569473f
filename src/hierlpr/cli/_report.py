"""``hierlpr report``: one HTML page to show a colleague."""

from __future__ import annotations

import click

from hierlpr.cli._fit import read_pair
from hierlpr.cli._shell import Shell, lenient_option, names_option, other_names, quiet_option

__all__ = ["report"]


@click.command(
    epilog="Example: hierlpr report --model model.hlpr --scores test.csv --truth test_truth.csv "
    "--out report.html"
)
@click.option("--model", required=True, type=click.Path(), metavar="M",
              help="Model file that hierlpr fit wrote.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of samples that the model was not fitted on.")  # fmt: skip
@click.option("--truth", required=True, type=click.Path(), metavar="T", help="Their truth.")
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="HTML",
              help="Page to write, such as report.html.")  # fmt: skip
@click.option("--title", help="Heading of the page.")
@click.option("--max-samples", metavar="N", type=click.IntRange(min=0), default=200,
              show_default=True,
              help="How many samples can be looked at one by one; the page says how they were "
              "chosen. 0 keeps the names and scores of samples out of the page.")  # fmt: skip
@click.option("--absent", type=click.Choice(["negative", "skip"]),
              help="Scored samples that the truth lacks: without any label (default for a long "
              "table), or left out (default for CAFA truth).")  # fmt: skip
@click.option("--close-truth", is_flag=True, help="Add the missing ancestors of true labels.")
@names_option
@lenient_option
@quiet_option
def report(
    model: str,
    scores: str,
    truth: str,
    out: str,
    title: str | None,
    max_samples: int,
    absent: str | None,
    close_truth: bool,
    hierarchy: str | None,
    lenient: bool,
    quiet: bool,
) -> None:
    """Write one self-contained HTML page: cutoff, curves, hierarchy, samples, labels."""
    shell = Shell(quiet=quiet)
    from pathlib import Path

    from hierlpr._base.files import refuse_overlap
    from hierlpr._base.own_folders import claimed
    from hierlpr.io import HierarchyFile, ReadReport
    from hierlpr.model import load_score_model
    from hierlpr.report import write_report

    inputs = {"--model": model, "--scores": scores, "--truth": truth, "--hierarchy": hierarchy}
    refuse_overlap({"--out": out}, inputs)
    fitted = load_score_model(model)
    loaded = HierarchyFile(
        fitted.hierarchy_, ReadReport(model, "model"), other_names(hierarchy), {}
    )
    pair = read_pair(
        scores, truth, loaded, shell, absent=absent, close_truth=close_truth, lenient=lenient
    )
    with claimed(out), shell.progress("report") as bar:
        write_report(
            out, fitted, pair.scores, pair.truth,
            title=title, max_samples=max_samples, on_progress=bar,
        )  # fmt: skip
    shell.close(
        f"wrote {out} ({Path(out).stat().st_size / 1000:,.0f} kB): {pair.scores.n_samples:,} "
        f"samples x {fitted.hierarchy_.n_labels:,} labels"
    )
