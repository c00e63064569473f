"""``hierlpr check``: how far new scores differ from those a model was fitted on."""

from __future__ import annotations

import click

from hierlpr.cli._shell import (
    Shell,
    json_option,
    lenient_option,
    names_option,
    other_names,
    put_json,
    quiet_option,
)

__all__ = ["check"]


@click.command(epilog="Example: hierlpr check --model model.hlpr --scores new.csv")
@click.option("--model", required=True, type=click.Path(), metavar="M",
              help="Model file that hierlpr fit wrote.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of new samples, without truth, in any format of fit.")  # fmt: skip
@click.option("--adapt", type=click.Path(dir_okay=False), metavar="M2",
              help="Write a model for the prevalences of these samples; it has no cutoff, and is "
              "refused if the scores look nothing like those fitted on.")  # fmt: skip
@names_option
@lenient_option
@json_option
@quiet_option
def check(
    model: str,
    scores: str,
    adapt: str | None,
    hierarchy: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
) -> None:
    """Tell how far new scores differ from those fitted on: label,distance,prevalence,... as CSV.

    Prevalences may have moved, which --adapt takes into account; or scores may look different
    whatever the prevalences, which means that classifiers or samples are of another kind.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows
    from hierlpr._base.files import refuse_overlap

    inputs = {"--model": model, "--scores": scores, "--hierarchy": hierarchy}
    refuse_overlap({"--adapt": adapt, "--json": json_out}, inputs, None)
    drift, report = workflows.check_file(
        model, scores, adapt=adapt, aliases=other_names(hierarchy), lenient=lenient
    )
    shell.read(report)
    if drift.is_different.any():
        shell.warn(str(drift))
    for line in drift.csv_lines():
        click.echo(line)
    if json_out is not None:
        put_json(json_out, {"samples": drift.n_samples, "words": str(drift),
                            "labels": drift.columns()})  # fmt: skip
    wrote = "" if adapt is None else f"; wrote {adapt}, which has no cutoff"
    shell.close(f"{drift}{wrote}" if not drift.is_different.any() else f"checked{wrote}")
