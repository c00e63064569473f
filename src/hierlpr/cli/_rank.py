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
    import numpy as np
    from numpy.typing import NDArray

    from hierlpr.model import HierLPR
    from hierlpr.ranking import Ranking
    from hierlpr.scores import Table

__all__ = ["rank"]


@click.command(epilog="Example: hierlpr rank --model model.hlpr --scores new.csv --out calls.csv")
@click.option("--model", required=True, type=click.Path(), metavar="M",
              help="Model file that hierlpr fit wrote.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of the samples to rank, in any format of fit.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="F",
              help=".csv or .parquet with rank,sample,label,lpr,score,call; .tsv in the CAFA "
              "layout.")  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="List only the first N.")
@click.option("--calls-only", is_flag=True, help="List only what is called.")
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
) -> None:
    """Rank all (sample, label) instances, best first, and mark the calls.

    No label comes before its parents. The score is that of the block of labels called together;
    it never rises along the list. The cutoff of the model decides the calls.
    """
    shell = Shell(quiet=quiet)
    from hierlpr.io import read_scores, write_ranking
    from hierlpr.model import load_model

    fitted = load_model(model)
    shell.step(0, 3, "reading scores")
    aliases = other_names(hierarchy)
    read = read_scores(scores, fitted.hierarchy_, aliases=aliases, lenient=lenient)
    shell.read(read.report)
    shell.step(1, 3, f"ranking {read.table.n_samples:,} samples")
    order = fitted.rank(read.table, top=top)
    call = calls_along(order, fitted, read.table)
    n_calls = int(call.sum())
    shell.step(2, 3, f"writing {out}")
    if calls_only:
        n_rows = write_ranking(out, order, call=call, keep=call)
    else:
        n_rows = write_ranking(out, order, call=call)
    if fitted.cutoff_.kind == "default":
        shell.warn("the model has no cutoff; calls are those with a score of 0.5 or more")
    if json_out is not None:
        put_json(json_out, {"ranking": out, "rows": n_rows, "calls": n_calls,
                            "instances": order.n_instances,
                            "cutoff": fitted.cutoff_.to_dict()})  # fmt: skip
    shell.close(
        f"wrote {out}: {n_rows:,} of {order.n_instances:,} instances of "
        f"{read.table.n_samples:,} samples, {n_calls:,} of them called"
    )


def calls_along(order: Ranking, model: HierLPR, table: Table) -> NDArray[np.bool_]:
    """Whether each listed instance is called."""
    import numpy as np

    cutoff: Any = model.cutoff_
    if cutoff.groups is None and cutoff.max_calls is None:
        return np.asarray(order.score >= cutoff.level)
    calls = model.predict(table)
    if isinstance(calls, np.ndarray):
        return np.asarray(calls[order.sample, order.label], dtype=bool)
    return np.asarray(calls[order.sample, order.label], dtype=bool).ravel()
