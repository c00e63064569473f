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

    from hierlpr._validation import Matrix
    from hierlpr.evaluation import Evaluation
    from hierlpr.io import RankingFile, TruthFile

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
    help="A ranking (.csv, .parquet) or CAFA predictions (.tsv).",
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
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **reading: Any,
) -> None:
    """Measure a ranking, and its calls, against the truth.

    All instances of the samples with truth count: those that the ranking does not list come last.
    """
    shell = Shell(quiet=quiet)
    from hierlpr.evaluation import evaluate_ranking
    from hierlpr.io import load_hierarchy, read_ranking, read_truth

    loaded = load_hierarchy(hierarchy, lenient=lenient, **reading_options(**reading))
    shell.read(loaded.report)
    h = loaded.hierarchy
    shell.step(1, 4, "reading the ranking")
    ranked = read_ranking(ranking, h, aliases=loaded.aliases, lenient=lenient)
    shell.read(ranked.report)
    shell.step(2, 4, "reading the truth")
    known = read_truth(truth, h, aliases=loaded.aliases, close=close_truth, lenient=lenient)
    shell.read(known.report)
    keep, sample, matrix, notes = match(ranked, known, absent)
    shell.notes(notes)
    shell.step(3, 4, f"measuring {len(ranked):,} instances")
    found = evaluate_ranking(
        sample, ranked.label[keep], ranked.score[keep], matrix, h,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[keep],
    )  # fmt: skip
    if json_out != "-":
        shell.result("\n".join(_lines(found)))
    if json_out is not None:
        put_json(json_out, found.as_dict())
    shell.close(
        f"evaluated {found.sizes['listed']:,} of {found.sizes['instances']:,} instances, "
        f"{found.sizes['positives']:,} of them positive"
    )


def match(
    ranked: RankingFile, known: TruthFile, absent: str | None
) -> tuple[NDArray[np.bool_], NDArray[np.int64], Matrix, list[str]]:
    """Rows of the ranking to keep, their rows in the truth, the truth, and what to say."""
    import numpy as np
    from scipy import sparse

    from hierlpr._validation import listed
    from hierlpr.exceptions import DataError

    names = known.table.samples or ()
    place = {name: i for i, name in enumerate(names)}
    at = np.array([place.get(name, -1) for name in ranked.samples], dtype=np.int64)
    lost = [name for name in ranked.samples if name not in place]
    choice = absent or {"long": "negative", "cafa": "skip"}.get(known.layout)
    if len(lost) == len(ranked.samples):
        raise DataError(
            f"{known.report.path}: none of the ranked samples has truth.\nHint: samples are "
            f"matched by name; the ranking has {listed(ranked.samples, most=3)}, the truth "
            f"{listed(names, most=3)}."
        )
    if lost and choice is None:
        raise DataError(
            f"{known.report.path}: {len(lost):,} ranked sample(s) have no row: {listed(lost)}.\n"
            "Hint: --absent skip leaves them out, --absent negative takes them as having no label."
        )
    notes = []
    matrix = known.table.values
    if lost and choice == "negative":
        notes.append(f"{len(lost):,} ranked samples that the truth file does not mention are "
                     f"taken to have no positive label: {listed(lost)}")  # fmt: skip
        at[at < 0] = len(names) + np.arange(len(lost))
        held = sparse.csr_array(matrix)
        empty = sparse.csr_array((len(lost), held.shape[1]))
        matrix = sparse.csr_array(sparse.vstack([held, empty], format="csr"))
    elif lost:
        notes.append(f"{len(lost):,} ranked samples without truth are left out: {listed(lost)}")
    unlisted = len(set(names) - set(ranked.samples))
    if unlisted:
        notes.append(f"{unlisted:,} samples with truth are not in the ranking; their labels count "
                     "as not called")  # fmt: skip
    row = at[ranked.sample]
    keep = row >= 0
    return keep, row[keep], matrix, notes


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
