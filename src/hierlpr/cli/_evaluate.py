"""``hierlpr evaluate``: a ranking against the truth."""

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
    import numpy as np
    from numpy.typing import NDArray

    from hierlpr.data.label_sets import LabelSets
    from hierlpr.io import HierarchyFile, RankingFile, TruthSets
    from hierlpr.metrics.evaluation import Evaluation

__all__ = ["evaluate"]


@click.command(
    epilog="Example: hierlpr evaluate --hierarchy tree.csv --ranking calls.csv --truth truth.csv"
)
@click.option(
    "--hierarchy", required=True, type=click.Path(), metavar="H",
    help="OBO, edge list, JSON, path list or Clus ARFF.",
)  # fmt: skip
@click.option(
    "--ranking", required=True, type=click.Path(), metavar="F",
    help="A ranking (.csv, .parquet, a folder of Parquet files) or CAFA predictions (.tsv).",
)  # fmt: skip
@click.option(
    "--truth", required=True, type=click.Path(), metavar="T",
    help="Wide 0/1, long pairs (sample,label), CAFA or Clus.",
)  # fmt: skip
@click.option(
    "--absent", type=click.Choice(["negative", "skip"]),
    help="Ranked samples that the truth lacks: without any label (default for a long table), or "
    "left out (default for CAFA truth).",
)  # fmt: skip
@click.option("--close-truth", is_flag=True, help="Add the missing ancestors of true labels.")
@click.option("--memory", default="1GB", show_default=True, metavar="SIZE",
              help="Working memory. A ranking that needs more is measured in parts; the result is "
              "the same. The truth is held in any case.")  # fmt: skip
@click.option("--partitions", type=click.IntRange(min=1), metavar="N",
              help="Number of parts to measure one by one; by default as --memory "
              "needs.")  # fmt: skip
@click.option("--work", type=click.Path(file_okay=False), metavar="DIR",
              help="Where a folder for work files is made, about 25 bytes a row; the system's "
              "temporary folder if not given.")  # fmt: skip
@hierarchy_options
@lenient_option
@json_option
@quiet_option
def evaluate(
    hierarchy: str,
    ranking: str,
    truth: str,
    absent: str | None,
    close_truth: bool,
    memory: str,
    partitions: int | None,
    work: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **reading: Any,
) -> None:
    """Measure a ranking, and its calls, against the truth.

    All instances of the samples with truth count: those that the ranking does not list come last.
    """
    shell = Shell(quiet=quiet)
    from hierlpr._base.files import refuse_overlap
    from hierlpr.io import load_hierarchy

    inputs = {"--hierarchy": hierarchy, "--ranking": ranking, "--truth": truth}
    refuse_overlap({"--json": json_out}, inputs, work)
    loaded = load_hierarchy(hierarchy, lenient=lenient, **reading_options(**reading))
    shell.read(loaded.report)
    options: dict[str, Any] = {"absent": absent, "close": close_truth, "lenient": lenient}
    if work is None and partitions is None and _fits(ranking, truth, memory):
        found = _whole(ranking, truth, loaded, shell, **options)
    else:
        found = _in_parts(
            ranking, truth, loaded, shell, memory=memory, partitions=partitions, work=work,
            **options,
        )  # fmt: skip
    if json_out != "-":
        shell.result("\n".join(_lines(found)))
    if json_out is not None:
        put_json(json_out, found.as_dict())
    shell.close(
        f"evaluated {found.sizes['listed']:,} of {found.sizes['instances']:,} instances, "
        f"{found.sizes['positives']:,} of them positive"
    )


def _fits(ranking: str, truth: str, memory: str) -> bool:
    """Whether to hold everything in memory."""
    from hierlpr.scale import Budget, estimate_instances, estimate_rows, parse_memory

    budget = Budget(parse_memory(memory))
    if "://" in ranking or "://" in truth:
        return False
    return budget.holds_evaluation(estimate_rows(ranking), estimate_instances(truth))


def _whole(
    ranking: str,
    truth: str,
    loaded: HierarchyFile,
    shell: Shell,
    *,
    absent: Any,
    close: bool,
    lenient: bool,
) -> Evaluation:
    from hierlpr.io import read_ranking, read_truth_sets
    from hierlpr.metrics.evaluation import evaluate_ranking

    h = loaded.hierarchy
    shell.step(1, 4, "reading the ranking")
    ranked = read_ranking(ranking, h, aliases=loaded.aliases, lenient=lenient)
    shell.read(ranked.report)
    shell.step(2, 4, "reading the truth")
    known = read_truth_sets(truth, h, aliases=loaded.aliases, close=close, lenient=lenient)
    shell.read(known.report)
    keep, sample, sets, notes = match(ranked, known, absent)
    shell.notes(notes)
    shell.step(3, 4, f"measuring {len(ranked):,} instances")
    return evaluate_ranking(
        sample, ranked.label[keep], ranked.score[keep], sets, h,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[keep],
    )  # fmt: skip


def _in_parts(
    ranking: str, truth: str, loaded: HierarchyFile, shell: Shell, **options: Any
) -> Evaluation:
    from hierlpr.scale import evaluate_file

    with shell.rates("rows") as on_progress:
        done = evaluate_file(
            ranking, truth, loaded.hierarchy, aliases=loaded.aliases, on_progress=on_progress,
            **options,
        )  # fmt: skip
    shell.read(done.ranking)
    shell.read(done.truth)
    shell.notes(done.notes)
    return done.evaluation


def match(
    ranked: RankingFile, known: TruthSets, absent: Any
) -> tuple[NDArray[np.bool_], NDArray[np.int64], LabelSets, list[str]]:
    """Rows of the ranking to keep, their rows in the truth, the truth, and what to say."""
    import numpy as np

    from hierlpr.io.pairing import match_samples, unlisted_note

    found = match_samples(
        ranked.samples, known, absent=absent, source=ranked.report.path, word="ranked"
    )
    notes, at, sets, names = list(found.notes), found.at.copy(), known.sets, known.samples
    n_lost = int((at < 0).sum())
    if n_lost and found.negative:
        at[at < 0] = len(names) + np.arange(n_lost)
        sets = sets.with_empty(n_lost)
    unlisted = len(set(names) - set(ranked.samples))
    if unlisted:
        notes.append(unlisted_note(unlisted))
    row = at[ranked.sample]
    keep = row >= 0
    return keep, row[keep], sets, notes


def _lines(found: Evaluation) -> list[str]:
    parts = found.as_dict()
    width = max(len(name) for part in parts.values() for name in part)
    lines = []
    for title, part in parts.items():
        if not part:
            continue
        lines.append(f"{title}:")
        for name, value in part.items():
            shown = "not defined" if value is None else (
                f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            )  # fmt: skip
            lines.append(f"  {name:<{width}}  {shown}")
    return lines
