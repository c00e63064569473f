"""``hierlpr demo``: a disease-like example, the whole way through files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hierlpr.cli._evaluate import evaluate
from hierlpr.cli._fit import fit
from hierlpr.cli._rank import rank
from hierlpr.cli._report import report
from hierlpr.cli._simulate import draw, simulation_names, write_simulation

if TYPE_CHECKING:
    from hierlpr.io import RankingFile
    from hierlpr.research.simulate import Simulation

__all__ = ["demo"]

N_FIT, N_RANKED = 980, 196
FDR = 0.1


@click.command(epilog="Example: hierlpr demo --out example --calls 20")
@click.option(
    "--out", default="hierlpr-demo", show_default=True, metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path), help="Folder for the files and the report.",
)  # fmt: skip
@click.option(
    "--calls", type=click.IntRange(min=1), default=12, show_default=True,
    help="How many first calls to print.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Seed of the made-up data.",
)  # fmt: skip
@click.pass_context
def demo(ctx: click.Context, out: Path, calls: int, seed: int) -> None:
    """Run a disease-like example end to end: simulate, fit, rank, evaluate, report.

    110 labels in 24 trees, many of them rare. A model is fitted on 980 samples, with a cutoff for
    an FDR of 10 %, and 196 other samples are ranked, called, and shown in a report.
    """
    from hierlpr._base.files import making

    names = [*simulation_names(), "model.hlpr", "ranking.csv", "report.html"]
    with making(out, names, what="demo"):
        _demo(ctx, out, calls, seed)


def _demo(ctx: click.Context, out: Path, calls: int, seed: int) -> None:
    train, test = draw("disease", N_FIT, N_RANKED, 0, seed)
    write_simulation(out, train, test)
    h = test.hierarchy
    click.echo(
        f"{test.n_samples} samples x {h.n_labels} labels, {int(test.truth.sum()):,} true: {h!r}"
    )
    files = {name: str(out / name) for name in (
        "hierarchy.csv", "scores.csv", "truth.csv", "test_scores.csv", "test_truth.csv",
        "model.hlpr", "ranking.csv", "report.html",
    )}  # fmt: skip
    tree, model, ranking = files["hierarchy.csv"], files["model.hlpr"], files["ranking.csv"]
    _run(ctx, fit, hierarchy=tree, scores=files["scores.csv"], truth=files["truth.csv"],
         fdr=FDR, out=model)  # fmt: skip
    _run(ctx, rank, model=model, scores=files["test_scores.csv"], out=ranking)
    _show(ranking, test, calls)
    _run(ctx, evaluate, hierarchy=tree, ranking=ranking, truth=files["test_truth.csv"])
    _run(ctx, report, model=model, scores=files["test_scores.csv"],
         truth=files["test_truth.csv"], out=files["report.html"])  # fmt: skip
    click.echo(
        f"\nThe report: {out / 'report.html'} (open it in a browser)\n\n"
        "With your own files, type:\n"
        "  hierlpr fit --hierarchy TREE.csv --scores SCORES.csv --truth TRUTH.csv --fdr 0.1 "
        "--out model.hlpr\n"
        "  hierlpr rank --model model.hlpr --scores NEW.csv --out calls.csv\n"
        "  hierlpr report --model model.hlpr --scores TEST.csv --truth TEST_TRUTH.csv "
        "--out report.html"
    )


def _run(ctx: click.Context, command: click.Command, **options: Any) -> None:
    """Print the command as a user would type it, and run it."""
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    click.echo(f"\n$ hierlpr {command.name} {words}")
    ctx.invoke(command, quiet=True, **options)


def _show(path: str, test: Simulation, calls: int) -> None:
    """Print the first calls, the hit curve, and what a flat order would have violated."""
    import numpy as np

    from hierlpr import metrics
    from hierlpr.io import read_ranking, read_scores
    from hierlpr.model import load_score_model

    h = test.hierarchy
    ranked = read_ranking(path, h)
    row = np.array([int(name.removeprefix("t")) - 1 for name in ranked.samples])[ranked.sample]
    truth = test.truth[row, ranked.label]
    click.echo(f"\nThe first {calls} calls:")
    _print_calls(ranked, truth, h.labels, calls)
    click.echo("\nTrue calls among the first ones (hit curve):")
    click.echo(_plot(metrics.hit_curve(truth)[1], n_true=int(truth.sum())))
    folder = Path(path).parent
    scores = read_scores(folder / "test_scores.csv", h).table.values
    lpr = load_score_model(folder / "model.hlpr").lpr_.predict(scores)
    flat = np.argsort(-lpr, axis=None, kind="stable")
    before = metrics.order_violations_error(flat // h.n_labels, flat % h.n_labels, h)
    after = metrics.order_violations_error(row, ranked.label, h)
    area = metrics.normalized_hit_area_score
    click.echo(
        f"\nSorted by LPR alone, a label comes before its parent {before:,} times "
        f"(hit area {area(test.truth.reshape(-1)[flat]):.4f}).\n"
        f"hierlpr: {after} times (hit area {area(truth):.4f}; 0 is random, 1 is perfect)."
    )


def _print_calls(ranked: RankingFile, truth: Any, labels: tuple[str, ...], n: int) -> None:
    click.echo("  rank  sample   lpr  score  true  label")
    for i in range(min(n, len(ranked))):
        mark = "yes" if truth[i] else "no"
        lpr = float("nan") if ranked.lpr is None else ranked.lpr[i]
        click.echo(
            f"  {i + 1:4d}  {ranked.samples[ranked.sample[i]]:>6}  {lpr:.2f}   "
            f"{ranked.score[i]:.2f}  {mark:>4}  {labels[ranked.label[i]]}"
        )


def _plot(hits: Any, *, n_true: int, width: int = 60, height: int = 10) -> str:
    """Hit curve of the first calls, drawn with block characters; the diagonal is perfect."""
    n_shown = min(hits.size - 1, 2 * n_true)
    columns = [hits[round((x + 1) * n_shown / width)] / n_true for x in range(width)]
    lines = []
    for y in range(height, 0, -1):
        row = "".join("█" if c * height >= y - 0.5 else " " for c in columns)
        axis = f"{n_true if y == height else '':>6}"
        lines.append(f"{axis} │{row}")
    lines.append(f"{'0':>6} └{'─' * width}")
    lines.append(f"{'':8}{'0':<{width - 12}}{n_shown:>6,} calls")
    return "\n".join(lines)
