"""``hierlpr fit``: from files to a model file with a cutoff."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from hierlpr import workflows
from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell
from hierlpr.cutoff.choose import Unreachable
from hierlpr.hierarchy.roll_up import RollUp
from hierlpr.lpr.estimators import ESTIMATORS
from hierlpr.workflows import FitOutcome

GOAL = ("fdr", "precision", "confidence", "groups", "unreachable", "min_chance", "max_weight")


@opt.command(
    "hierlpr fit --hierarchy tree.csv --scores scores.csv --truth truth.csv --fdr 0.1 "
    "--out model.hlpr"
)
@opt.hierarchy
@opt.path(
    "--scores",
    "S",
    "Wide (sample,LABEL,...), long (sample,label,score) or CAFA; .csv, .tsv, .parquet, or JSON.",
)
@opt.truth
@opt.path("--out", "MODEL", "Model file to write, such as model.hlpr.")
@opt.number("--fdr", "A", "Target: at most this share of the calls is incorrect.")
@opt.number("--precision", "P", "Target: at least this share of the calls is correct.")
@opt.flag("--max-f", "Target: the highest F-measure.")
@opt.number("--beta", "B", "Weight of recall in --max-f; 1 weighs it like precision.", 1.0)
@opt.number("--confidence", "C", "Guarantee the target with this probability.")
@opt.number("--min-chance", "C", "Call no label with a chance below this, nor labels below it.")
@opt.choice(
    "--groups",
    ("depth", "tree", "label"),
    "One cutoff per depth, tree or label. With --confidence, all groups reach the target "
    "simultaneously.",
)
@opt.choice(
    "--unreachable",
    get_args(Unreachable),
    "What to call if the target is unreachable; default: nothing with --confidence, otherwise "
    "best-precision.",
)
@opt.number(
    "--error",
    "E",
    "Learn sure and possible labels: at most this share of new samples has an incorrect sure "
    "label, and at most this share lacks a true label among the possible ones.",
)
@opt.number("--error-confidence", "C", "Guarantee --error with this probability.")
@opt.flag("--one-path", "Each sample has at most one path of labels, as in a taxonomy.")
@opt.choice("--lpr", list(ESTIMATORS), "Estimator of the local precision rates.", "auto")
@click.option(
    "--joint/--no-joint",
    default=None,
    help="Whether the chance of a label depends on all scores of its sample; default: as far as "
    "held-out samples support it.",
)
@opt.path("--calibration-scores", "S", "Scores of other samples for the cutoff.", required=False)
@opt.path("--calibration-truth", "T", "Truth of those samples.", required=False)
@opt.calibration_share
@opt.missing_truth
@opt.choice(
    "--missing-scores",
    ("error", "allow"),
    "Whether scores in a wide table may be missing, here and when the model is used.",
    "error",
)
@opt.choice(
    "--leaves",
    get_args(RollUp),
    "Other labels, if only leaves have scores: the sum (of classes that exclude each other) or the "
    "largest score below; auto: the sum if rows add up to 1.",
    "auto",
)
@opt.propagate_truth
@opt.weights
@opt.number(
    "--max-weight",
    "B",
    "Upper bound on all weights, known before the truth; --confidence with --weights needs it.",
)
@opt.clusters
@opt.count("--seed", "Seed of the split into fit and calibration samples.", 0, least=0)
@opt.with_truth
def fit(
    hierarchy: str,
    scores: str,
    truth: str,
    out: str,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn from samples with known labels, choose a cutoff, and write a model file.

    With a target (--fdr, --precision, --max-f) or --error, some of the samples are kept for
    calibration, unless --calibration-scores and --calibration-truth provide others.
    """
    shell, seed = Shell(quiet=quiet), options["seed"]
    goal, sets = _target(options), _sets_target(options)
    files = opt.take(options, ("calibration_scores", "calibration_truth")).values()
    if None in files and any(files):
        raise click.UsageError("give both --calibration-scores and --calibration-truth, or none.")
    loaded = opt.read_hierarchy_file(shell, options, hierarchy)
    calibration: Any = tuple(map(shell.input_file, files)) if any(files) else None
    joint = options.pop("joint")
    outcome = opt.run_workflow(
        shell,
        workflows.fit_file,
        loaded,
        scores,
        truth,
        out=(path := shell.output_file(out, ".hlpr")),
        goal=goal,
        sets=sets,
        calibration=calibration,
        joint="auto" if joint is None else joint,
        **options,
    )
    if calibration is None and (goal is not None or sets is not None):
        what = "the cutoff" if sets is None else "the sets" if goal is None else "cutoff and sets"
        n_kept, n = outcome.n_calibration, outcome.n_calibration + outcome.n_fitted
        shell.say(f"{n_kept:,} of {n:,} samples are kept for {what} (seed {seed})")
    _print_result(outcome, out, path, json_out, shell)


def _sets_target(options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the options of ``HierLPR.calibrate_sets`` and return them; None if none is given."""
    names = ("error", "error_confidence", "one_path")
    error, confidence, one_path = opt.take(options, names).values()
    if error is None and (confidence is not None or one_path):
        raise click.UsageError("--error-confidence and --one-path need --error.")
    sets = {"error": error, "confidence": confidence, "one_path": one_path}
    return None if error is None else sets


def _target(options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the options of ``HierLPR.calibrate`` and return them; None without a target."""
    max_f, beta = opt.take(options, ("max_f", "beta")).values()
    goal = {name: x for name, x in opt.take(options, GOAL).items() if x is not None}
    if max_f:
        goal["maximize"] = f"f{beta!r}"
    targets = goal.keys() & {"fdr", "precision", "maximize"}
    if goal and not targets:
        option = next(iter(goal)).replace("_", "-")
        raise click.UsageError(f"--{option} needs --fdr, --precision or --max-f.")
    if len(targets) > 1:
        raise click.UsageError("--fdr, --precision and --max-f exclude each other; give one.")
    return goal or None


def _print_result(
    outcome: FitOutcome, out: str, path: str, json_out: str | None, shell: Shell
) -> None:
    """Print the statements about the cutoff and the sets, and write the JSON."""
    model, cutoff = outcome.model, outcome.model.cutoff_
    if not cutoff.reachable:
        shell.warn(cutoff.reason)
    lines = [str(cutoff)] if cutoff.reachable or (cutoff.groups and cutoff.n_calls) else []
    if model.joint_ is not None:
        shell.say(model.joint_.describe())
    result = {
        "model": out,
        "labels": model.hierarchy_.n_labels,
        "samples_fitted": outcome.n_fitted,
        "samples_for_cutoff": outcome.n_calibration,
        "joint": None if model.joint_ is None else model.joint_.tempering.use,
        "cutoff": cutoff.to_dict(),
        "statement": str(cutoff),
    }
    if model.sets_ is not None:
        result |= {"sets": model.sets_.to_dict(), "sets_statement": str(model.sets_)}
        lines.append(str(model.sets_))
    shell.results(json_out, result, "\n".join(lines))
    shell.close(
        f"wrote {opt.shown(out)} ({Path(path).stat().st_size / 1000:,.0f} kB): "
        f"{model.hierarchy_.n_labels:,} labels, {outcome.n_fitted:,} samples fitted, "
        f"{outcome.n_calibration:,} for calibration"
    )
