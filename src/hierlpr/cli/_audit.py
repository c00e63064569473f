"""``hierlpr audit``: certify calls on a population by checking a few of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hierlpr import audit_files
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell
from hierlpr.cutoff.description import percent
from hierlpr.io import load_hierarchy

STARTING = ("predictions", "precision", "error", "groups", "recall")


@opt.command("hierlpr audit --model model.hlpr --scores new.csv --checks 50 --out audit")
@opt.path(
    "--model",
    "M",
    "Model that hierlpr fit or assign wrote, for any population. Without it, scores from 0 to 1 "
    "of the labels of --hierarchy are used as they are.",
    required=False,
)
@opt.path("--scores", "S", "Scores of your samples, in any format of fit.", required=False)
@opt.path("--predictions", "F", "Instead: the file of another tool, as in assign.", required=False)
@opt.number("--precision", "P", "Target share of correct calls; default: 0.9.")
@opt.number("--error", "E", "Instead, for one name per sample: largest share of wrong names.")
@opt.number("--confidence", "C", "Confidence of the certificate.", 0.9)
@opt.choice(
    "--groups", ("depth", "tree", "label"), "Reach the target in every depth, tree or label."
)
@opt.count("--checks", "Samples that you plan to check; with --continue, so many more.")
@opt.count("--recall", "Also draw N of all samples, for an estimate of recall; see --truth.")
@opt.clusters
@opt.path("--show", "F", "Table (sample, link or text) to show on the page.", required=False)
@opt.choice("--tasks", ("label-studio",), "Also write the checks as tasks for this tool.")
@opt.seed
@click.option("--out", metavar="DIR", help="Folder to write.")
@click.option(
    "--continue",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Go on with the audit of this folder.",
)
@opt.path(
    "--answers",
    "F",
    "With --continue: the table check.csv, filled in, an export from Label Studio, or the true "
    "names of samples.",
    required=False,
)
@opt.path("--truth", "F", "With --continue: recall.csv, with all true labels.", required=False)
@opt.prediction
def audit(
    model: str | None,
    scores: str | None,
    out: str | None,
    folder: str | None,
    checks: int | None,
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
    files = opt.take(options, ("answers", "truth"))
    options["tasks"] = options["tasks"] is not None
    if folder is not None:
        if model or scores or out or any(options[name] is not None for name in STARTING):
            raise click.UsageError("--continue needs no options that start an audit.")
        files |= opt.take(options, ("show", "tasks"))
        outcome = audit_files.continue_audit(folder, checks=checks, **files)
        shell.notes(outcome.notes)
        wrote = f"wrote {Path(folder) / audit_files.CALLS}"
    else:
        predictions, hierarchy = options["predictions"], options["other_names_in"]
        if not (out and (scores or predictions) and (model or (scores and hierarchy))):
            raise click.UsageError(
                "Give --out and --model with --scores or --predictions (or, without a model, "
                "--hierarchy with --scores); or --continue."
            )
        if any(files.values()):
            raise click.UsageError("--answers and --truth need --continue.")
        options |= {"checks": checks or 100, "recall": options["recall"] or 0}
        if not model:
            options["hierarchy"] = load_hierarchy(str(hierarchy)).hierarchy
        outcome = opt.run_workflow(
            shell, audit_files.audit_file, model, scores, out, unit="instances", **options
        )
        wrote = f"wrote {Path(out) / audit_files.PAGE} and {audit_files.TABLE} with what to check"
    result = outcome.audit
    n, text = result.n_checked, str(result)
    ahead = result.horizons[-1] - n or min(max(20, n // 2), result.plan.time.size - n)
    if not ahead:
        text += " No sample with calls is left to check."
    elif n:
        gain = max(0, result.expected(ahead) - result.n_calls)
        what = "calls" if result.plan.listed.allowed is None else "ranks"
        text += f" About {ahead:,} more checks would add {gain:,} {what}."
    if outcome.recall is not None:
        share, low, high = map(percent, outcome.recall)
        text += f"\nRecall of these calls is about {share} (95 % CI {low} to {high})."
    cutoff = result.cutoff_
    summary = {
        "statement": text,
        "checked": result.n_checked,
        "planned": result.horizons[-1],
        "calls": result.n_calls,
        "recall": outcome.recall,
        **{name: cutoff.to_dict().get(name) for name in ("level", "max_calls", "groups")},
    }
    shell.results(json_out, summary, text)
    shell.close(wrote)
