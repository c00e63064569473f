"""``hierlpr fit``: from files to a model file with a cutoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hierlpr.cli._shell import (
    Shell,
    hierarchy_options,
    json_option,
    lenient_option,
    put_json,
    quiet_option,
    reading_options,
)

if TYPE_CHECKING:
    from hierlpr.io import HierarchyFile, Pair
    from hierlpr.model import ScoreModel
    from hierlpr.scale import FitOutcome

__all__ = ["fit"]

LPR_NAMES = ("auto", "p-spline", "isotonic", "density-ratio", "spline", "local-quadratic")


@click.command(
    epilog="Example: hierlpr fit --hierarchy tree.csv --scores scores.csv --truth truth.csv "
    "--fdr 0.1 --out model.hlpr"
)
@click.option("--hierarchy", required=True, type=click.Path(), metavar="H",
              help="OBO, edge list, JSON, path list or Clus ARFF.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Wide (sample,LABEL,...), long (sample,label,score), CAFA or Clus predictions; "
              ".csv, .tsv, .parquet, .arff.")  # fmt: skip
@click.option("--truth", required=True, type=click.Path(), metavar="T",
              help="Wide 0/1, long pairs (sample,label), CAFA or Clus.")  # fmt: skip
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
@click.option("--lpr", type=click.Choice(LPR_NAMES), default="auto", show_default=True,
              help="How local precision rates are estimated.")  # fmt: skip
@click.option("--joint/--no-joint", default=None,
              help="Use all scores of a sample for each of its labels: always, or never; by "
              "default as far as held-out samples support it.")  # fmt: skip
@click.option("--calibration-scores", type=click.Path(), metavar="S",
              help="Scores of other samples, for the cutoff.")  # fmt: skip
@click.option("--calibration-truth", type=click.Path(), metavar="T",
              help="Truth of those samples.")  # fmt: skip
@click.option("--absent", type=click.Choice(["negative", "skip"]),
              help="Scored samples that the truth lacks: without any label (default for a long "
              "table), or left out (default for CAFA truth).")  # fmt: skip
@click.option("--close-truth", is_flag=True, help="Add the missing ancestors of true labels.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Chooses the third of the samples that is kept for the cutoff.")  # fmt: skip
@click.option("--memory", default="1GB", show_default=True, metavar="SIZE",
              help="Working memory. Scores that need more are read and fitted in parts; the model "
              "is the same.")  # fmt: skip
@click.option("--work", type=click.Path(file_okay=False), metavar="DIR",
              help="Where a folder for work files of a fit in parts is made, beside the model if "
              "not given.")  # fmt: skip
@hierarchy_options
@lenient_option
@json_option
@quiet_option
def fit(
    hierarchy: str,
    scores: str,
    truth: str,
    out: str,
    fdr: float | None,
    precision: float | None,
    max_f: bool,
    beta: float,
    confidence: float | None,
    lpr: str,
    joint: bool | None,
    calibration_scores: str | None,
    calibration_truth: str | None,
    absent: str | None,
    close_truth: bool,
    seed: int,
    memory: str,
    work: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **reading: Any,
) -> None:
    """Learn how precise every score is, and where to cut, and write a model file.

    With a target (--fdr, --precision or --max-f) a third of the samples is kept for the cutoff
    and not fitted on; --calibration-scores and --calibration-truth give other samples instead.
    """
    shell = Shell(quiet=quiet)
    goal = target(fdr, precision, max_f, beta, confidence)
    if (calibration_scores is None) != (calibration_truth is None):
        raise click.UsageError("give both --calibration-scores and --calibration-truth, or none.")
    if calibration_scores is not None and goal is None:
        raise click.UsageError("calibration files need --fdr, --precision or --max-f.")
    from hierlpr._base.files import refuse_overlap
    from hierlpr._base.own_folders import claimed
    from hierlpr.io import load_hierarchy

    inputs = {"--hierarchy": hierarchy, "--scores": scores, "--truth": truth,
              "--calibration-scores": calibration_scores,
              "--calibration-truth": calibration_truth}  # fmt: skip
    refuse_overlap({"--out": out, "--json": json_out}, inputs, work)
    loaded = load_hierarchy(hierarchy, lenient=lenient, **reading_options(**reading))
    shell.read(loaded.report)
    files = (scores, truth, calibration_scores, calibration_truth)
    options: dict[str, Any] = {"absent": absent, "close_truth": close_truth, "lenient": lenient,
                               "goal": goal, "lpr": lpr, "joint": joint, "seed": seed}  # fmt: skip
    if _fits(files, memory, work):
        with claimed(out):
            done = _whole(files, out, loaded, shell, **options)
    else:
        done = _in_parts(files, out, loaded, shell, memory=memory, work=work, **options)
    _tell(done, out, json_out, shell)


def target(
    fdr: float | None, precision: float | None, max_f: bool, beta: float, confidence: float | None
) -> dict[str, Any] | None:
    """Turn the options into those of ``HierLPR.calibrate``, or None without a target."""
    given = [
        name for name, value in (("--fdr", fdr), ("--precision", precision)) if value is not None
    ]
    given += ["--max-f"] if max_f else []
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other; give one.")
    for name, value in (("--fdr", fdr), ("--precision", precision), ("--confidence", confidence)):
        if value is not None and not 0.0 < value < 1.0:
            raise click.UsageError(f"{name} must lie strictly between 0 and 1, got {value}.")
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


def read_pair(
    scores: str,
    truth: str,
    loaded: HierarchyFile,
    shell: Shell,
    *,
    absent: Any,
    close_truth: bool,
    lenient: bool,
) -> Pair:
    """Read scores and truth and bring them to the same samples, saying what was seen."""
    from hierlpr.io import pair_samples, read_scores, read_truth

    h, aliases = loaded.hierarchy, loaded.aliases
    scored = read_scores(scores, h, aliases=aliases, lenient=lenient)
    shell.read(scored.report)
    known = read_truth(truth, h, aliases=aliases, close=close_truth, lenient=lenient)
    shell.read(known.report)
    pair = pair_samples(scored, known, absent=absent)
    shell.notes(pair.notes)
    return pair


def _fits(files: tuple[str | None, ...], memory: str, work: str | None) -> bool:
    """Whether to hold everything in memory: it fits, and nothing asks for parts."""
    from hierlpr.scale import Budget, estimate_instances, parse_memory

    budget = Budget(parse_memory(memory))
    given = [path for path in files if path is not None]
    if work is not None or any("://" in path for path in given):
        return False
    # Truth may be larger than the scores it belongs to, or the other way round.
    pairs = [given[i : i + 2] for i in range(0, len(given), 2)]
    return budget.holds_fit(sum(max(map(estimate_instances, pair)) for pair in pairs))


def _whole(
    files: tuple[str, str, str | None, str | None],
    out: str,
    loaded: HierarchyFile,
    shell: Shell,
    *,
    goal: dict[str, Any] | None,
    lpr: str,
    joint: Any,
    seed: int,
    **options: Any,
) -> FitOutcome:
    """Fit with everything in memory."""
    import numpy as np

    from hierlpr.data.tables import draw_samples, sample_limit, split_samples
    from hierlpr.scale import FitOutcome

    def limit(pair: Pair) -> int:
        return sample_limit(pair.scores.n_samples, loaded.hierarchy, pair.scores.n_stored)

    scores, truth, calibration_scores, calibration_truth = files
    shell.step(1, 4, "reading scores and truth")
    pair = read_pair(scores, truth, loaded, shell, **options)
    held_out = None
    if calibration_scores is not None and calibration_truth is not None:
        other = read_pair(calibration_scores, calibration_truth, loaded, shell, **options)
        n = other.scores.n_samples
        held_out = other.rows(draw_samples(n, limit(other), seed))
        _say_kept(held_out.scores.n_samples, n, seed, shell, is_file=True)
    elif goal is not None:
        n = pair.scores.n_samples
        fitted, kept = split_samples(n, limit(pair), seed, name=scores)
        pair, held_out = pair.rows(fitted), pair.rows(kept)
        _say_kept(kept.size, n, seed, shell, is_file=False)
    shell.step(2, 4, f"fitting {loaded.hierarchy.n_labels:,} labels")
    model = _fitted(pair, held_out, loaded, goal, lpr=lpr, joint=joint)
    shell.step(3, 4, f"writing {out}")
    model.save(out)
    n_calibration = held_out.scores.n_samples if held_out is not None else 0
    errors = np.zeros(loaded.hierarchy.n_labels)
    return FitOutcome(model, pair.scores.n_samples, n_calibration, (), (), errors)


def _say_kept(kept: int, n: int, seed: int, shell: Shell, *, is_file: bool) -> None:
    if not is_file:
        shell.say(f"{kept:,} of {n:,} samples are kept for the cutoff (seed {seed})")
    elif kept < n:
        shell.say(f"{kept:,} of the {n:,} calibration samples are used for the cutoff (seed "
                  f"{seed}); more would add nothing but work")  # fmt: skip


def _in_parts(
    files: tuple[str, str, str | None, str | None],
    out: str,
    loaded: HierarchyFile,
    shell: Shell,
    *,
    joint: Any,
    **options: Any,
) -> FitOutcome:
    """Fit in parts, from files of any size."""
    from hierlpr.scale import fit_file

    scores, truth, *other = files
    calibration: Any = tuple(other) if other[0] is not None else None
    chosen: dict[str, Any] = {} if joint is None else {"joint": joint}
    with shell.rates("") as on_progress:
        done = fit_file(
            loaded.hierarchy, scores, truth, out, calibration=calibration, aliases=loaded.aliases,
            on_progress=on_progress, **chosen, **options,
        )  # fmt: skip
    for report in done.reports:
        shell.read(report)
    shell.notes(done.notes)
    if options["goal"] is not None:
        _say_kept(done.n_calibration, done.n_calibration_given, options["seed"], shell,
                  is_file=calibration is not None)  # fmt: skip
    return done


def _fitted(
    pair: Pair,
    held_out: Pair | None,
    loaded: HierarchyFile,
    goal: dict[str, Any] | None,
    *,
    lpr: str,
    joint: bool | None,
) -> ScoreModel:
    import warnings

    from hierlpr.exceptions import UnreachableWarning
    from hierlpr.model import ScoreModel

    chosen: dict[str, Any] = {} if joint is None else {"joint": joint}
    model = ScoreModel(hierarchy=loaded.hierarchy, lpr=lpr, **chosen)
    model.fit(pair.scores, pair.truth)
    if goal is not None and held_out is not None:
        with warnings.catch_warnings():
            # The cutoff says in its own words what could not be reached.
            warnings.simplefilter("ignore", UnreachableWarning)
            model.calibrate(held_out.scores, held_out.truth, **goal)
    return model


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
        put_json(json_out, result)
    if json_out != "-" and cutoff.reachable:
        shell.result(str(cutoff))
    shell.close(
        f"wrote {out} ({Path(out).stat().st_size / 1000:,.0f} kB): {model.hierarchy_.n_labels:,} "
        f"labels, {done.n_fitted:,} samples fitted, {done.n_calibration:,} for the cutoff"
    )
