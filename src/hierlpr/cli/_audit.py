"""``hierlpr audit``: certify calls on a population by checking a few of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hierlpr import audit_files
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json


@click.command(
    epilog="Example: hierlpr audit --model model.hlpr --scores new.csv --checks 50 --out audit"
)
@opt.path("--model", "M", "Model file that hierlpr fit wrote, for any population.", required=False)
@opt.path("--scores", "S", "Scores of your samples, in any format of fit.", required=False)
@opt.number("--precision", "P", "Target share of correct calls.", 0.9)
@opt.number("--confidence", "C", "Confidence of the certificate.", 0.9)
@opt.count("--checks", "Samples that you plan to check; with --continue, so many more.")
@opt.clusters
@opt.path("--show", "F", "Table (sample, link or text) to show on the page.", required=False)
@opt.seed
@click.option("--out", metavar="DIR", help="Folder to write.")
@click.option(
    "--continue",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Go on with the audit of this folder.",
)
@opt.path("--answers", "F", "With --continue: the table check.csv, filled in.", required=False)
@opt.prediction
def audit(
    model: str | None,
    scores: str | None,
    out: str | None,
    folder: str | None,
    answers: str | None,
    checks: int | None,
    show: str | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Draw samples to check, and certify calls on the population that they are drawn from.

    DIR/check.html shows one sample per screen and saves the answers as check.csv; DIR/check.csv is
    the same as a table to fill in (yes, no, unsure). With --continue and --answers, DIR/calls.csv
    has the calls that are certified: at least P of them are correct, with confidence C, whatever
    the model. Look after any number of checks, and stop when you like.
    """
    shell = Shell(quiet=quiet)
    if folder is not None:
        if model or scores or out:
            raise click.UsageError("--continue needs neither --model, --scores nor --out.")
        files = {"answers": answers, "show": show}
        done = audit_files.continue_audit(folder, checks=checks, **files)
        shell.notes(done.notes)
        wrote = f"wrote {Path(folder) / audit_files.CALLS}"
    else:
        if not (model and scores and out):
            raise click.UsageError("Give --model, --scores and --out, or --continue.")
        if answers:
            raise click.UsageError("--answers needs --continue.")
        options |= {"show": show, "checks": 100 if checks is None else checks}
        done = opt.run_workflow(
            shell, audit_files.audit_file, model, scores, out, unit="instances", **options
        )
        wrote = f"wrote {Path(out) / audit_files.PAGE} and {audit_files.TABLE} with what to check"
    result = done.audit
    left, more = result.horizons[-1] - result.n_checked, ""
    if result.n_checked:
        ahead = left or max(20, result.n_checked // 2)
        gain = result.expected(ahead) - result.n_calls
        more = f" About {ahead:,} more checks would add {max(0, gain):,} calls."
    text = f"{result}{more}"
    cutoff = result.cutoff_
    summary = {
        "statement": text,
        "checked": result.n_checked,
        "planned": result.horizons[-1],
        "calls": result.n_calls,
        "level": cutoff.level if cutoff.reachable else None,
        "max_calls": cutoff.max_calls,
    }
    if json_out != "-":
        shell.result(text)
    put_json(json_out, summary)
    shell.close(wrote)
