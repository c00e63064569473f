"""``hierlpr assign``: one trusted name per sample, from the files of other tools."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import click

from hierlpr import assignment
from hierlpr._utils.display import escape_control, text_table
from hierlpr.assignment import LearnOutcome
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell
from hierlpr.io import load_hierarchy
from hierlpr.io.predictions import FORMATS


@opt.command(
    "hierlpr assign --predictions asv.sintax --truth known.tsv --error 0.1 --out model.hlpr",
    "hierlpr assign --model model.hlpr --predictions new.sintax --out new.tsv",
)
@opt.path("--predictions", "P", FORMATS)
@opt.path("--out", "F", "With --truth a model file; with --model .csv, .tsv, .parquet or .h5ad.")
@opt.path(
    "--truth",
    "T",
    "Learn from samples with known names: a table of sample and name or path (also Camtrap DP and "
    "Wildlife Insights), a QIIME 2 taxonomy, COCO Camera Traps or Label Studio JSON, or .h5ad.",
    required=False,
)
@opt.path("--model", "M", "Name new samples with a model that --truth wrote.", required=False)
@opt.number(
    "--error",
    "E",
    "With --truth: at most this share of new samples gets a wrong name; default: 0.1.",
)
@opt.number(
    "--precision",
    "P",
    "With --truth, instead of --error: of the samples named at a rank or deeper, at least this "
    "share is correct at that rank.",
)
@opt.number("--confidence", "C", "Guarantee --error or --precision with this probability.")
@opt.flag("--like-input", "Write the format of the predictions, with paths shortened.")
@opt.path("--report", "PAGE", "Also write an HTML page about the names.", required=False)
@click.option("--truth-column", metavar="NAME", help="Column of the truth with the names.")
@click.option("--sample-column", metavar="NAME", help="Column of the truth with the samples.")
@click.option(
    "--clusters",
    metavar="COLUMN|FILE",
    help="What labelled samples belong to (donor, camera, genus): a column of the truth, or a "
    "table (sample, cluster). The promise is then about new clusters.",
)
@opt.path(
    "--hierarchy", "H", "Hierarchy to use instead of the one that the paths imply.", required=False
)
@click.option(
    "--confidences",
    metavar="TABLE",
    help="DADA2: the table of bootstraps. .h5ad: columns of obs, separated by commas.",
)
@click.option("--levels", metavar="NAMES", help=".h5ad: columns of obs with names, coarsest first.")
@opt.calibration_share
@opt.seed
@opt.json_out
@opt.quiet
def assign(
    predictions: str,
    out: str,
    truth: str | None,
    model: str | None,
    like_input: bool,
    hierarchy: str | None,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Name every sample at the deepest rank that can be trusted.

    With --truth, learn from labelled samples and write a model. With --model, name new samples; the
    output has the columns sample,name,path,rank,chance, followed by those of the tool. The name is
    empty if no rank can be trusted.
    """
    shell = Shell(quiet=quiet)
    if (truth is None) == (model is None):
        raise click.UsageError("give --truth to learn, or --model to name new samples.")
    names = ("error", "precision", "confidence", "truth_column", "sample_column", "clusters")
    learning = opt.take(options, (*names, "calibration_share", "seed"))
    more: dict[str, Any] = opt.take(options, ("confidences", "report"))
    more["levels"] = [x.strip() for x in (options["levels"] or "").split(",") if x.strip()]
    if hierarchy is not None:
        more["hierarchy"] = load_hierarchy(hierarchy).hierarchy
    opt.refuse_overlap()
    more["report"] = shell.output_file(more["report"], ".html")
    if model is None:
        if like_input:
            raise click.UsageError("--like-input needs --model.")
        learned = assignment.learn_names(
            shell.input_file(predictions),
            shell.input_file(str(truth)),
            shell.output_file(out, ".hlpr"),
            **learning,
            **more,
        )
        _print_learned(shell, learned, out, json_out)
        return
    learning.pop("seed")
    if unused := [name for name, value in learning.items() if value is not None]:
        raise click.UsageError(f"--{unused[0].replace('_', '-')} needs --truth.")
    path = shell.output_file(out, "" if like_input else ".csv")
    outcome = assignment.assign_names(
        model, shell.input_file(predictions), path, like_input=like_input, **more
    )
    shell.notes(outcome.notes)
    shell.results(json_out, asdict(outcome) | {"output": out})
    ranks = ", ".join(f"{n:,} {escape_control(rank)}" for rank, n in outcome.by_rank.items())
    shell.close(
        f"wrote {opt.shown(out)}: {outcome.n_named:,} of {outcome.n_samples:,} samples have a name "
        f"({ranks})"
    )


def _print_learned(shell: Shell, outcome: LearnOutcome, out: str, json_out: str | None) -> None:
    """Print what a person wants to know before trusting the names."""
    shell.notes(outcome.notes)
    usual = f"{outcome.usual:g}"
    shares = ("named", "correct", "stop", "stop_correct", "usual_named", "usual_correct")
    rows = [[row.rank, *(_percent(getattr(row, x)) for x in shares)] for row in outcome.ranks]
    head = ["rank", "named", "correct", "stop here", "correct", f"at {usual}", "correct"]
    where = "" if outcome.n_clusters is None else f" in {outcome.n_clusters:,} clusters"
    lines = [
        f"Learned from {outcome.n_labelled:,} labelled samples{where}: {outcome.n_fitted:,} to "
        f"estimate chances, {outcome.n_held_out:,} held out to choose how deep to go.",
        outcome.promise,
    ]
    if outcome.wrong is not None and outcome.usual_wrong is not None:
        lines += [
            text_table(head, rows),
            f"Of the held-out samples, {100 * outcome.wrong:.1f} % got a wrong name; with the "
            f"usual threshold of {usual} it would be {100 * outcome.usual_wrong:.1f} %.",
        ]
    lines.append(outcome.more)
    numbers = {x.name: getattr(outcome, x.name) for x in fields(outcome)}
    result = {**numbers, "model": out, "ranks": [asdict(row) for row in outcome.ranks]}
    shell.results(json_out, result, "\n".join(lines))
    shell.close(f"wrote {opt.shown(out)}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
