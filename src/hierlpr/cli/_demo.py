"""`hierlpr demo`: a disease-like example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hierlpr.ranking import Ranking
    from hierlpr.simulate import Simulation

__all__ = ["demo"]


@click.command(epilog="Example: hierlpr demo --calls 20")
@click.option("--calls", default=12, show_default=True, help="How many first calls to print.")
@click.option("--seed", default=0, show_default=True, help="Seed of the made-up data.")
def demo(calls: int, seed: int) -> None:
    """Rank a disease-like example: 196 samples, 110 labels in 24 trees."""
    import numpy as np

    from hierlpr import metrics, rank, simulate

    data = simulate.disease(rng=seed)
    h = data.hierarchy
    ranking = rank(data.lpr_true, h)
    flat = np.argsort(-data.lpr_true, axis=None, kind="stable")
    flat_truth = data.truth.reshape(-1)[flat]
    truth = data.truth[ranking.sample, ranking.label]
    click.echo(
        f"{data.n_samples} samples x {h.n_labels} labels, {int(truth.sum()):,} true: {h!r}\n"
    )
    click.echo(f"The first {calls} calls:")
    _print_calls(ranking[:calls], data)
    click.echo("\nTrue calls among the first ones (hit curve):")
    click.echo(_plot(metrics.hit_curve(truth)[1], n_true=int(truth.sum())))
    order = np.empty(flat.size, dtype=np.int64)
    order[flat] = np.arange(flat.size)
    before = len(h.violations(-order.reshape(data.truth.shape)))
    order[ranking.sample * h.n_labels + ranking.label] = np.arange(flat.size)
    after = len(h.violations(-order.reshape(data.truth.shape)))
    area = metrics.normalized_hit_area_score
    click.echo(
        f"\nSorted by LPR alone, a label comes before its parent {before:,} times "
        f"(hit area {area(flat_truth):.4f}).\n"
        f"hierlpr: {after} times (hit area {area(truth):.4f}; 0 is random, 1 is perfect)."
    )


def _print_calls(first: Ranking, data: Simulation) -> None:
    labels = data.hierarchy.labels
    click.echo("  rank  sample   lpr  score  true  label")
    for place, (sample, label, lpr, score) in enumerate(first, start=1):
        mark = "yes" if data.truth[sample, label] else "no"
        click.echo(
            f"  {place:4d}  {sample:6d}  {lpr:.2f}   {score:.2f}  {mark:>4}  {labels[label]}"
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
