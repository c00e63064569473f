"""``hierlpr fit``: from files to a model file with a cutoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json
from hierlpr.exceptions import DataError

if TYPE_CHECKING:
    from hierlpr.workflows import FitOutcome

LPR_NAMES = (
    "auto", "probability", "p-spline", "isotonic", "density-ratio", "spline", "local-quadratic",
)  # fmt: skip


@click.command(
    epilog="Example: hierlpr fit --hierarchy tree.csv --scores scores.csv --truth truth.csv "
    "--fdr 0.1 --out model.hlpr"
)
@opt.hierarchy
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Wide (sample,LABEL,...), long (sample,label,score), CAFA or Clus predictions; "
              ".csv, .tsv, .parquet, .arff.")  # fmt: skip
@opt.truth
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="MODEL",
              help="Model file to write, such as model.hlpr.")  # fmt: skip
@click.option("--fdr", type=float, metavar="A", help="Cut so that at most this share is wrong.")
@click.option("--precision", type=float, metavar="P",
              help="Cut so that at least this share is right.")  # fmt: skip
@click.option("--max-f", is_flag=True, help="Cut at the highest F.")
@click.option("--beta", type=float, default=1.0, show_default=True,
              help="Weight of recall in --max-f.")  # fmt: skip
@click.option("--confidence", type=float, metavar="C",
              help="Guarantee the target with this probability over the samples.")  # fmt: skip
@click.option("--sets-error", type=float, metavar="E",
              help="Learn sure and possible labels: at most this share of new samples has a sure "
              "label that does not hold, or one that holds and is not possible.")  # fmt: skip
@click.option("--sets-confidence", type=float, metavar="C",
              help="Promise it with this confidence, given these calibration samples.")  # fmt: skip
@click.option("--one-path", is_flag=True,
              help="Say that every sample has at most one path of labels, as in a taxonomy: more "
              "labels are sure.")  # fmt: skip
@click.option("--lpr", type=click.Choice(LPR_NAMES), default="auto", show_default=True,
              help="How local precision rates are estimated.")  # fmt: skip
@click.option("--joint/--no-joint", default=None,
              help="Use all scores of a sample for each of its labels: always, or never; by "
              "default as far as held-out samples support it.")  # fmt: skip
@click.option("--calibration-scores", type=click.Path(), metavar="S",
              help="Scores of other samples, for the cutoff.")  # fmt: skip
@click.option("--calibration-truth", type=click.Path(), metavar="T",
              help="Truth of those samples.")  # fmt: skip
@opt.absent
@click.option("--missing", type=click.Choice(["error", "allow"]), default="error",
              show_default=True,
              help="Whether cells of a wide table of scores may be empty, here and when the model "
              "is used; a missing score says nothing about its label.")  # fmt: skip
@opt.close_truth
@opt.weights
@click.option("--max-weight", type=float, metavar="B",
              help="The largest weight a sample can have, known before the truth; --confidence "
              "with --weights needs it.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Chooses the third of the samples that is kept for the cutoff.")  # fmt: skip
@opt.with_truth
def fit(
    hierarchy: str,
    scores: str,
    truth: str,
    out: str,
    joint: bool | None,
    calibration_scores: str | None,
    calibration_truth: str | None,
    weights: str | None,
    max_weight: float | None,
    seed: int,
    json_out: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn how precise every score is, and where to cut, and write a model file.

    With a target (--fdr, --precision, --max-f) or --sets-error a third of the samples is kept for
    it and not fitted on; --calibration-scores and --calibration-truth give other samples instead.
    """
    shell = Shell(quiet=quiet)
    goal, sets = _target(options), _sets_target(options)
    if (calibration_scores is None) != (calibration_truth is None):
        raise click.UsageError("give both --calibration-scores and --calibration-truth, or none.")
    if calibration_scores is not None and goal is None and sets is None:
        raise click.UsageError(
            "calibration files need --fdr, --precision, --max-f or --sets-error."
        )
    _bound(goal, weights, max_weight)
    from hierlpr import workflows

    opt.refuse_overlap()
    loaded, table = opt.read_hierarchy_file(shell, options, hierarchy)
    calibration: Any = None
    if calibration_scores is not None:
        calibration = (table(calibration_scores), table(calibration_truth))
    with shell.rates() as on_progress:
        done = workflows.fit_file(
            loaded, table(scores), table(truth), out, goal=goal, sets=sets, calibration=calibration,
            joint="auto" if joint is None else joint, seed=seed, weights=table(weights),
            on_progress=on_progress, **options,
        )  # fmt: skip
    for report in done.reports:
        shell.read(report)
    shell.notes(done.notes)
    if goal is not None or sets is not None:
        what = "the cutoff" if sets is None else "the sets" if goal is None else "cutoff and sets"
        _say_kept(done, seed, shell, what, is_file=calibration is not None)
    _tell(done, out, json_out, shell)


def _bound(goal: dict[str, Any] | None, weights: str | None, max_weight: float | None) -> None:
    """Put the largest weight into the goal; refuse what makes no sense, before any work."""
    is_certified = goal is not None and "confidence" in goal
    if max_weight is None:
        if weights is not None and is_certified:
            raise click.UsageError(
                "--confidence with --weights needs --max-weight, the largest weight that a sample "
                "can have, known before the truth."
            )
        return
    if weights is None or goal is None or not is_certified:
        raise click.UsageError("--max-weight needs --weights and a target with --confidence.")
    if not 0.0 < max_weight < float("inf"):
        raise click.UsageError(f"--max-weight must be a positive number, got {max_weight}.")
    goal["max_weight"] = max_weight


def _say_kept(done: FitOutcome, seed: int, shell: Shell, what: str, *, is_file: bool) -> None:
    kept, n = done.n_calibration, done.n_calibration_given
    if not is_file:
        shell.say(f"{kept:,} of {n:,} samples are kept for {what} (seed {seed})")
    elif kept < n:
        shell.say(f"{kept:,} of the {n:,} calibration samples are used for {what} (seed {seed}); "
                  "more would add nothing but work")  # fmt: skip


def _sets_target(options: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options that become those of ``HierLPR.calibrate_sets``; None if none is given."""
    names = ("sets_error", "sets_confidence", "one_path")
    error, confidence, one_path = opt.taken(options, names).values()
    if error is None:
        if confidence is not None or one_path:
            name = "--sets-confidence" if confidence is not None else "--one-path"
            raise click.UsageError(f"{name} needs --sets-error.")
        return None
    _check_shares({"--sets-error": error, "--sets-confidence": confidence})
    return {"error": error, "confidence": confidence, "one_path": one_path}


def _target(options: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options that become those of ``HierLPR.calibrate``; None without a target."""
    names = ("fdr", "precision", "max_f", "beta", "confidence")
    fdr, precision, max_f, beta, confidence = opt.taken(options, names).values()
    targets = {"--fdr": fdr, "--precision": precision, "--max-f": max_f or None}
    given = [name for name, value in targets.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other; give one.")
    _check_shares({"--fdr": fdr, "--precision": precision, "--confidence": confidence})
    if confidence is not None and given not in (["--fdr"], ["--precision"]):
        raise click.UsageError("--confidence needs --fdr or --precision.")
    if not given:
        return None
    if max_f:
        if not 1e-100 <= beta <= 1e100:  # its square must be a number too
            raise click.UsageError(f"--beta must be a number from 1e-100 to 1e100, got {beta}.")
        return {"maximize": f"f{beta!r}"}
    chosen: dict[str, Any] = {"fdr": fdr} if fdr is not None else {"precision": precision}
    return chosen | ({"confidence": confidence} if confidence is not None else {})


def _check_shares(given: dict[str, float | None]) -> None:
    from hierlpr._base.checks import check_level

    for name, value in given.items():
        if value is not None:
            try:
                check_level(value, name=name)
            except DataError as error:
                raise click.UsageError(str(error)) from error


def _tell(done: FitOutcome, out: str, json_out: str | None, shell: Shell) -> None:
    from pathlib import Path

    model, cutoff = done.model, done.model.cutoff_
    if not cutoff.reachable:
        shell.warn(cutoff.reason)
    if model.joint_ is not None:
        shell.say(model.joint_.describe())
    if json_out is not None:
        result = {
            "model": out,
            "labels": model.hierarchy_.n_labels,
            "samples_fitted": done.n_fitted,
            "samples_for_cutoff": done.n_calibration,
            "joint": None if model.joint_ is None else model.joint_.tempering.use,
            "cutoff": cutoff.to_dict(),
            "statement": str(cutoff),
        }
        if model.sets_ is not None:
            result |= {"sets": model.sets_.to_dict(), "sets_statement": str(model.sets_)}
        put_json(json_out, result)
    if json_out != "-" and cutoff.reachable:
        shell.result(str(cutoff))
    if json_out != "-" and model.sets_ is not None:
        shell.result(str(model.sets_))
    used = "for the cutoff" if model.sets_ is None else "kept for the promises"
    shell.close(
        f"wrote {out} ({Path(out).stat().st_size / 1000:,.0f} kB): {model.hierarchy_.n_labels:,} "
        f"labels, {done.n_fitted:,} samples fitted, {done.n_calibration:,} {used}"
    )
