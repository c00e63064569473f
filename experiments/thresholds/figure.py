"""Draw thresholds.png, and thresholds-tall.png for phones, from runs.csv.

Both are in docs/images, and show the precision that is reached for a target of 90 %.
"""

import csv
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
NAMES = {
    "plain": "threshold\n0.5",
    "pooled": "one threshold\nat 90 %",
    "per label": "one per label\nat 90 %",
    "mapie": "MAPIE\n(certified)",
    "calibrated mapie": "each calibrated,\nthen MAPIE",
    "hierlpr": "hierlpr\n(certified)",
}
TITLES = {"disease": "110 diseases (simulated)", "enron": "e-mails, 56 topics (real scores)"}


def main() -> None:
    """Draw the panels side by side, and one below the other."""
    with (HERE / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.2), sharey=True, layout="constrained")
    draw(figure, panels, rows, "thresholds.png")
    figure, panels = plt.subplots(2, 1, figsize=(6.4, 8), sharey=True, layout="constrained")
    draw(figure, panels, rows, "thresholds-tall.png")


def draw(figure: Any, panels: Any, rows: list[dict[str, str]], name: str) -> None:
    """Draw one panel per data set, one column per method, one point per run."""
    rng = np.random.default_rng(0)
    for axes, (data, title) in zip(panels, TITLES.items(), strict=True):
        axes.axhline(0.9, color="black", linewidth=1, linestyle="--")
        for x, method in enumerate(NAMES):
            own = [r for r in rows if r["data"] == data and r["method"] == method]
            precision = np.array([float(r["precision"]) for r in own])
            recall = np.mean([float(r["recall"]) for r in own])
            colour = "tab:blue" if method == "hierlpr" else "tab:grey"
            made = precision[~np.isnan(precision)]
            low = np.maximum(made, 0.78)  # a threshold of 0.5 is far below on the diseases
            axes.plot(
                x + rng.uniform(-0.2, 0.2, made.size), low, "o", ms=3, alpha=0.6, color=colour
            )
            text = f"{np.sum(made < 0.9):.0f} below\nfinds {recall:.0%}"
            axes.text(x, 0.966, text if made.size else "makes\nno call", ha="center", va="bottom")
            if made.size and made.mean() < 0.78:
                axes.text(x, 0.784, f"{made.mean():.0%} correct", ha="center", va="bottom")
        axes.set(title=title, ylim=(0.775, 1.0), xlim=(-0.6, 5.6))
        axes.set_xticks(range(len(NAMES)), NAMES.values(), fontsize=7.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.set_yticks([0.8, 0.85, 0.9, 0.95])
    panels[0].set_ylabel("correct calls, new samples")
    panels[0].text(-0.55, 0.902, "target", va="bottom")
    figure.suptitle("Target precision 90 %: 100 runs per rule")
    figure.savefig(HERE.parents[1] / "docs" / "images" / name, dpi=140)


if __name__ == "__main__":
    main()
