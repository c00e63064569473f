"""``hierlpr rank``, ``sets``, ``check`` and ``report``: use a model on new scores."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from hierlpr import workflows
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell

_SCORES = "Scores of new samples, in any format of fit."


@opt.command("hierlpr rank --model model.hlpr --scores new.csv --out calls.csv")
@opt.model
@opt.path("--scores", "S", _SCORES)
@opt.path(
    "--out",
    "F",
    ".csv or .parquet with rank,sample,label,lpr,score,call; .tsv in the CAFA layout; - for "
    "stdout.",
)
@opt.choice("--format", ("csv", "tsv"), "Layout on stdout.", "csv")
@opt.with_names
@opt.count("--top", "List only the first N.")
@opt.flag("--calls-only", "List only the calls.")
@opt.flag(
    "--adapt",
    "Adapt the model to the prevalences of these samples first; the cutoff is then 0.5, without "
    "a guarantee.",
)
@opt.scheduler
@opt.clusters
@opt.prediction
def rank(
    model: str, scores: str, out: str, json_out: str | None, quiet: bool, **options: Any
) -> None:
    """Rank all (sample, label) instances, best first, and mark the calls.

    No label comes before its parents. The score is the mean LPR of the block of labels that are
    called together; it never rises along the list.
    """
    shell = Shell(quiet=quiet)
    path = shell.output_file(out, f".{options.pop('format')}")
    outcome = opt.run_workflow(
        shell, workflows.rank_file, model, scores, unit="instances", out=path, **options
    )
    if outcome.drift is not None:
        (shell.say if outcome.drift.is_clean else shell.warn)(str(outcome.drift))
        shell.warn(
            "the model was adapted to the prevalences of these samples; its cutoff is not "
            "calibrated for them, so nothing is guaranteed"
        )
    if outcome.cutoff.goal.kind == "default":
        shell.warn("the model has no cutoff; instances with a score of 0.5 or more are called")
    elif not outcome.cutoff.reachable:
        shell.warn(outcome.cutoff.reason)
    elif outcome.cutoff.goal.confidence is None:
        shell.say(
            "nothing is promised about these calls: the model was fitted without --confidence"
        )
    summary = {
        "ranking": out,
        "rows": outcome.n_rows,
        "calls": outcome.n_calls,
        "instances": outcome.n_instances,
        "cutoff": outcome.cutoff.to_dict(),
        "drift": None if outcome.drift is None else str(outcome.drift),
    }
    shell.results(json_out, summary)
    shell.close(
        f"wrote {opt.shown(out)}: {outcome.n_rows:,} of {outcome.n_instances:,} instances of "
        f"{outcome.n_samples:,} samples, {outcome.n_calls:,} of them called"
    )


@opt.command("hierlpr sets --model sets.hlpr --scores new.csv --out sets.csv")
@opt.path("--model", "M", "Model file that hierlpr fit --error wrote.")
@opt.path("--scores", "S", _SCORES)
@opt.path("--out", "F", ".csv or .parquet with sample,label,set; - for stdout.")
@opt.flag(
    "--deepest",
    "Write one row per sample with its deepest sure label (empty if there is none).",
)
@opt.flag("--possible-only", "List only sure and possible labels.")
@opt.with_names
@opt.scheduler
@opt.clusters
@opt.prediction
def sets(
    model: str, scores: str, out: str, json_out: str | None, quiet: bool, **options: Any
) -> None:
    """Write for every sample which labels are sure, possible or neither.

    After hierlpr fit --error 0.1, the sure labels are all correct for at least 90 % of new samples,
    and no true label is missing from the possible ones for at least 90 %.
    """
    shell = Shell(quiet=quiet)
    path = shell.output_file(out, ".csv")
    outcome = opt.run_workflow(
        shell, workflows.sets_file, model, scores, unit="instances", out=path, **options
    )
    if options["deepest"] and not outcome.rule.one_path:
        shell.warn(
            "samples may have several paths of sure labels, of which the deepest is listed; for a "
            "taxonomy, fit with --one-path"
        )
    if outcome.rule.sure_level is None:
        shell.warn(str(outcome.rule))
    summary = {
        "sets": out,
        "rows": outcome.n_rows,
        "samples": outcome.n_samples,
        "sure": outcome.n_sure,
        "possible": outcome.n_possible,
        "rule": outcome.rule.to_dict(),
        "statement": str(outcome.rule),
    }
    shell.results(json_out, summary, str(outcome.rule))
    shell.close(
        f"wrote {opt.shown(out)}: {outcome.n_rows:,} rows of {outcome.n_samples:,} samples, "
        f"{outcome.n_sure:,} labels sure and {outcome.n_possible:,} possible (including the sure "
        "ones)"
    )


@opt.command("hierlpr check --model model.hlpr --scores new.csv")
@opt.model
@opt.path(
    "--scores",
    "S",
    "Scores of new samples, without truth, in any format of fit or, for a model of assign, of "
    "assign.",
)
@opt.path(
    "--out",
    "M2",
    "Write a model adapted to the prevalences of these samples. It has no cutoff. Refused if the "
    "scores differ too much.",
    required=False,
)
@opt.clusters
@opt.prediction
def check(
    model: str, scores: str, out: str | None, json_out: str | None, quiet: bool, **options: Any
) -> None:
    """Report how far new scores differ from those of the fit, as CSV with one row per label.

    Changed prevalences can be corrected (--out, or rank --adapt). Other differences mean that the
    classifiers or the samples have changed.
    """
    shell = Shell(quiet=quiet)
    options["out"] = shell.output_file(out, ".hlpr")
    drift = opt.run_workflow(
        shell, workflows.check_file, model, scores, unit="instances", **options
    ).drift
    if not drift.is_clean:
        shell.warn(str(drift))
    columns, text = drift.columns(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in row])
    summary = {"samples": drift.n_samples, "words": str(drift), "labels": columns}
    shell.results(json_out, summary, text.getvalue().rstrip("\n"))
    wrote = "" if out is None else f"; wrote {opt.shown(out)}, which has no cutoff"
    shell.close(f"{drift}{wrote}" if drift.is_clean else f"checked{wrote}")


@opt.command(
    "hierlpr report --model model.hlpr --scores test.csv --truth test_truth.csv --out report.html"
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
@opt.path("--out", "HTML", "Page to write, such as report.html.")
@click.option("--title", help="Heading of the page.")
@opt.count(
    "--max-samples",
    "Samples shown individually. 0 keeps names and scores of samples out of the page.",
    200,
    least=0,
)
@opt.path("--audit", "DIR", "Show the audit of these samples in this folder.", required=False)
@opt.missing_truth
@opt.propagate_truth
@opt.weights
@opt.clusters
@opt.execution
@opt.tables
@opt.without_evidence
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
    page = shell.output_file(out, ".html")
    outcome = opt.run_workflow(
        shell, workflows.report_file, model, scores, truth, out=page, **options
    )
    answer = outcome.report.answer
    shell.notes(filter(None, (answer.difference, answer.unreachable)))
    shell.close(
        f"wrote {opt.shown(out)} ({Path(page).stat().st_size / 1000:,.0f} kB): "
        f"{answer.n_samples:,} samples x {answer.n_labels:,} labels"
    )
