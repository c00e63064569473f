"""``hierlpr rank``, ``sets`` and ``check``: a model at work on the scores of new samples."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Any

import click

from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json


@click.command(epilog="Example: hierlpr rank --model model.hlpr --scores new.csv --out calls.csv")
@opt.model
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of the samples to rank, in any format of fit; also a folder of Parquet "
              "files, or an address such as s3://bucket/scores.parquet.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(), metavar="F",
              help=".csv or .parquet with rank,sample,label,lpr,score,call; .tsv in the CAFA "
              "layout; without an ending a folder of Parquet files; - for stdout.")  # fmt: skip
@click.option("--format", "layout", type=click.Choice(["csv", "tsv"]), default="csv",
              show_default=True, help="Layout on stdout.")  # fmt: skip
@opt.with_names
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="List only the first N.")
@click.option("--calls-only", is_flag=True, help="List only what is called.")
@click.option("--adapt", is_flag=True,
              help="First move the model to the prevalences of these samples. What its cutoff "
              "promised is not promised for them: calls are then those at .5 or more.")  # fmt: skip
@opt.at_work
def rank(
    model: str,
    scores: str,
    out: str,
    layout: str,
    hierarchy: str | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Rank all (sample, label) instances, best first, and mark the calls.

    No label comes before its parents. The score is that of the block of labels called together;
    it never rises along the list. The cutoff of the model decides the calls.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows

    done, path = _use(
        shell, workflows.rank_file, model, scores, out, f".{layout}", hierarchy, json_out, options
    )
    if done.drift is not None:
        (shell.warn if not done.drift.is_clean else shell.say)(str(done.drift))
        shell.warn("the model was moved to the prevalences of these samples; its cutoff is not "
                   "calibrated for them, so nothing is promised")  # fmt: skip
    if done.cutoff.kind == "default":
        shell.warn("the model has no cutoff; calls are those with a score of 0.5 or more")
    put_json(json_out, {"ranking": out, "rows": done.n_rows, "calls": done.n_calls,
                        "instances": done.n_instances, "cutoff": done.cutoff.to_dict(),
                        "drift": None if done.drift is None else str(done.drift)})  # fmt: skip
    shell.close(
        f"wrote {path}: {done.n_rows:,} of {done.n_instances:,} instances of "
        f"{done.n_samples:,} samples, {done.n_calls:,} of them called"
    )


def _use(
    shell: Shell,
    workflow: Callable[..., Any],
    model: str,
    scores: str,
    out: str,
    ending: str,
    hierarchy: str | None,
    json_out: str | None,
    options: dict[str, Any],
) -> tuple[Any, str]:
    """Let a model work on scores; return the outcome, and where it was written on the way.

    What is for stdout is written to a file first.
    """
    if out == json_out == "-":
        raise click.UsageError("--out and --json cannot both go to stdout.")
    path = shell.scratch("stdout", ending) if out == "-" else out
    opt.refuse_overlap()
    table = opt.written_tables(shell, options)
    with shell.rates("instances") as on_progress:
        done = workflow(
            model, table(scores), path, aliases=opt.other_names(hierarchy),
            on_progress=on_progress, **options,
        )  # fmt: skip
    if out == "-":
        with open(path, "rb") as written:
            shutil.copyfileobj(written, sys.stdout.buffer)
    shell.read(done.report)
    return done, path


@click.command(epilog="Example: hierlpr check --model model.hlpr --scores new.csv")
@opt.model
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of new samples, without truth, in any format of fit.")  # fmt: skip
@click.option("--adapt", type=click.Path(dir_okay=False), metavar="M2",
              help="Write a model for the prevalences of these samples; it has no cutoff, and is "
              "refused if the scores look nothing like those fitted on.")  # fmt: skip
@opt.at_work
def check(
    model: str,
    scores: str,
    adapt: str | None,
    hierarchy: str | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Tell how far new scores differ from those fitted on: label,distance,prevalence,... as CSV.

    Prevalences may have moved, which --adapt takes into account; or scores may look different
    whatever the prevalences, which means that classifiers or samples are of another kind; or scores
    of related labels may no longer go together, which means that a classifier is broken.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows

    opt.refuse_overlap()
    table = opt.written_tables(shell, options)
    with shell.rates("instances") as on_progress:
        drift, report = workflows.check_file(
            model, table(scores), adapt=adapt, aliases=opt.other_names(hierarchy),
            on_progress=on_progress, **options,
        )  # fmt: skip
    shell.read(report)
    if not drift.is_clean:
        shell.warn(str(drift))
    for line in drift.csv_lines():
        click.echo(line)
    put_json(json_out, {"samples": drift.n_samples, "words": str(drift),
                        "labels": drift.columns()})  # fmt: skip
    wrote = "" if adapt is None else f"; wrote {adapt}, which has no cutoff"
    shell.close(f"{drift}{wrote}" if drift.is_clean else f"checked{wrote}")


@click.command(epilog="Example: hierlpr sets --model sets.hlpr --scores new.csv --out sets.csv")
@click.option("--model", required=True, type=click.Path(), metavar="M",
              help="Model file that hierlpr fit wrote with --sets-error.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of new samples, in any format of fit; also a folder of Parquet files, "
              "or an address such as s3://bucket/scores.parquet.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(), metavar="F",
              help=".csv or .parquet with sample,label,set; without an ending a folder of Parquet "
              "files; - for stdout.")  # fmt: skip
@click.option("--deepest", is_flag=True,
              help="One row a sample instead, sample,label: its deepest sure label, empty where "
              "none is sure.")  # fmt: skip
@click.option("--possible-only", is_flag=True, help="List only what is sure or possible.")
@opt.with_names
@opt.at_work
def sets(
    model: str,
    scores: str,
    out: str,
    hierarchy: str | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Say of every label of every sample whether it is sure, possible, or neither (no).

    All sure labels of a new sample hold, and all labels that hold are possible, each with the
    probability that hierlpr fit --sets-error asked for. Both kinds are closed upward.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows

    deepest = options["deepest"]
    if deepest and options["possible_only"]:
        raise click.UsageError("--deepest lists one label a sample; leave out --possible-only.")
    done, path = _use(
        shell, workflows.sets_file, model, scores, out, ".csv", hierarchy, json_out, options
    )
    if deepest and not done.rule.one_path:
        shell.warn("samples may have several paths of sure labels, of which the deepest is listed; "
                   "for a taxonomy, fit with --one-path")  # fmt: skip
    put_json(json_out, {"sets": out, "rows": done.n_rows, "samples": done.n_samples,
                        "sure": done.n_sure, "possible": done.n_possible,
                        "rule": done.rule.to_dict(), "statement": str(done.rule)})  # fmt: skip
    if "-" not in (out, json_out):
        shell.result(str(done.rule))
    shell.close(
        f"wrote {path}: {done.n_rows:,} rows of {done.n_samples:,} samples, {done.n_sure:,} labels "
        f"sure and {done.n_possible:,} possible (with the sure ones)"
    )
