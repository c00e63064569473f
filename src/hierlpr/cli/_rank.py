"""``hierlpr rank``: the calls of new samples, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel
    from hierlpr.scale import Outcome

__all__ = ["rank"]


@click.command(epilog="Example: hierlpr rank --model model.hlpr --scores new.csv --out calls.csv")
@click.option("--model", required=True, type=click.Path(), metavar="M",
              help="Model file that hierlpr fit wrote.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of the samples to rank, in any format of fit; also a folder of Parquet "
              "files, or an address such as s3://bucket/scores.parquet.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(), metavar="F",
              help=".csv or .parquet with rank,sample,label,lpr,score,call; .tsv in the CAFA "
              "layout; without an ending a folder of Parquet files.")  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="List only the first N.")
@click.option("--calls-only", is_flag=True, help="List only what is called.")
@click.option("--memory", default="1GB", show_default=True, metavar="SIZE",
              help="Working memory. Scores that need more are read, ranked and sorted in parts; "
              "the result is the same.")  # fmt: skip
@click.option("--resume", is_flag=True,
              help="Continue an interrupted run from its finished partitions, and keep them if "
              "this run fails.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS",
              help="Rank on the workers of this Dask scheduler, such as tcp://host:8786; local "
              "starts one worker a core here. Writes a folder of Parquet files.")  # fmt: skip
@click.option("--partitions", type=click.IntRange(min=1), metavar="N",
              help="Number of parts to rank one by one; by default as --memory needs.")  # fmt: skip
@click.option("--work", type=click.Path(file_okay=False), metavar="DIR",
              help="Where a folder for work files is made, beside the output if not given. The "
              "workers of a scheduler must share it.")  # fmt: skip
@names_option
@lenient_option
@json_option
@quiet_option
def rank(
    model: str,
    scores: str,
    out: str,
    top: int | None,
    calls_only: bool,
    hierarchy: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **parts: Any,
) -> None:
    """Rank all (sample, label) instances, best first, and mark the calls.

    No label comes before its parents. The score is that of the block of labels called together;
    it never rises along the list. The cutoff of the model decides the calls.
    """
    shell = Shell(quiet=quiet)
    from hierlpr._base.files import refuse_overlap
    from hierlpr._base.own_folders import claimed
    from hierlpr.model import load_score_model

    inputs = {"--model": model, "--scores": scores, "--hierarchy": hierarchy}
    refuse_overlap({"--out": out, "--json": json_out}, inputs, parts["work"])
    fitted = load_score_model(model)
    options: dict[str, Any] = {
        "top": top,
        "calls_only": calls_only,
        "aliases": other_names(hierarchy),
        "lenient": lenient,
    }
    if _fits(scores, out, **parts):
        with claimed(out):
            done = _whole(fitted, scores, out, shell, **options)
    else:
        done = _in_parts(model, scores, out, shell, **options, **parts)
    if fitted.cutoff_.kind == "default":
        shell.warn("the model has no cutoff; calls are those with a score of 0.5 or more")
    if json_out is not None:
        put_json(json_out, {"ranking": out, "rows": done.n_rows, "calls": done.n_calls,
                            "instances": done.n_instances,
                            "cutoff": fitted.cutoff_.to_dict()})  # fmt: skip
    shell.close(
        f"wrote {out}: {done.n_rows:,} of {done.n_instances:,} instances of "
        f"{done.n_samples:,} samples, {done.n_calls:,} of them called"
    )


def _fits(
    scores: str,
    out: str,
    *,
    memory: str,
    resume: bool,
    scheduler: str | None,
    partitions: int | None,
    work: str | None,
) -> bool:
    """Whether to hold everything in memory: it fits, and nothing asks for parts."""
    from pathlib import Path

    from hierlpr.scale import Budget, estimate_instances, parse_memory

    budget = Budget(parse_memory(memory))
    if resume or work is not None or scheduler is not None or partitions is not None:
        return False
    if not Path(out).suffix or "://" in out or "://" in scores:
        return False
    return budget.holds(estimate_instances(scores))


def _whole(
    fitted: ScoreModel,
    scores: str,
    out: str,
    shell: Shell,
    *,
    top: int | None,
    calls_only: bool,
    aliases: Any,
    lenient: bool,
) -> Outcome:
    from hierlpr.io import read_scores, write_ranking
    from hierlpr.scale import Outcome, calls_along

    shell.step(0, 3, "reading scores")
    read = read_scores(scores, fitted.hierarchy_, aliases=aliases, lenient=lenient)
    shell.read(read.report)
    shell.step(1, 3, f"ranking {read.table.n_samples:,} samples")
    order = fitted.rank(read.table, top=top)
    call = calls_along(order, fitted, read.table)
    shell.step(2, 3, f"writing {out}")
    n_rows = write_ranking(out, order, call=call, keep=call if calls_only else None)
    return Outcome(
        n_rows, int(call.sum()), read.table.n_samples, order.n_instances, read.report
    )  # fmt: skip


def _in_parts(
    model: str,
    scores: str,
    out: str,
    shell: Shell,
    *,
    scheduler: str | None,
    **options: Any,
) -> Outcome:
    from contextlib import nullcontext

    from hierlpr.scale import rank_file

    executor: Any = nullcontext()
    if scheduler is not None:
        from hierlpr.scale.cluster import cluster

        executor = cluster(scheduler)
    with executor as where, shell.rates("instances") as on_progress:
        done = rank_file(model, scores, out, executor=where, on_progress=on_progress, **options)
    shell.read(done.report)
    return done
