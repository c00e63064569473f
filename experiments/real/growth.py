"""Measure CPU time and peak memory of the default as samples and labels grow.

Features are simulated, and the labels of a random forest depend on some of them. Every size is
fitted in a separate process. Rows go to growth.csv beside this script.

    python experiments/real/growth.py                # all sizes, minutes
    python experiments/real/growth.py --table        # growth.csv for the docs
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from hierlpr import HierarchicalClassifier, Hierarchy

HERE = Path(__file__).resolve().parent
OUT = HERE / "growth.csv"
COLUMNS = ["samples", "labels", "features", "columns", "epochs", "cpu_minutes", "peak_mb"]
# Samples, labels and features.
SIZES = [
    *((n, 100, 50) for n in (500, 1_000, 2_000)),
    *((500, k, 50) for k in (50, 500, 3_000)),
]  # fmt: skip


def simulate(
    n_samples: int, n_labels: int, n_features: int
) -> tuple[np.ndarray, np.ndarray, Hierarchy]:
    """Return features, truth and a forest with ten roots and random parents."""
    rng = np.random.default_rng(0)
    parent = [int(rng.integers(k)) for k in range(10, n_labels)]
    edges = [(str(p), str(k)) for k, p in enumerate(parent, start=10)]
    hierarchy = Hierarchy(edges, labels=[str(k) for k in range(n_labels)])
    x = rng.normal(size=(n_samples, n_features))
    level = x[:, :10] @ rng.normal(size=(10, n_labels)) / 3.0
    truth = level + rng.normal(size=level.shape) > 0.7
    for k, p in enumerate(parent, start=10):
        truth[:, k] = truth[:, p] & (level[:, k] + rng.normal(size=n_samples) > -0.3)
    return x, truth, hierarchy


def run(n_samples: int, n_labels: int, n_features: int) -> dict[str, object]:
    """Fit one size."""
    x, truth, hierarchy = simulate(n_samples, n_labels, n_features)
    HierarchicalClassifier(hierarchy=hierarchy).fit(x[:30], truth[:30])  # kernels are loaded
    started = time.process_time()
    model = HierarchicalClassifier(hierarchy=hierarchy).fit(x, truth)
    cpu = (time.process_time() - started) / 60.0
    stage = model.estimators_[0]
    networks = stage.members_.get("networks")
    return {
        "samples": n_samples, "labels": n_labels, "features": n_features,
        "columns": stage.labels_.values.shape[1],
        "epochs": networks.plan_.epochs if networks else "",
        "cpu_minutes": f"{cpu:.2f}",
        "peak_mb": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f}",
    }  # fmt: skip


def table(path: Path) -> str:
    """Table of docs/first-stage.md."""
    lines = [
        "| samples | labels | features | different label columns | epochs | CPU minutes | peak |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    with path.open() as file:
        for row in csv.DictReader(file):
            cells = [f"{int(row[k]):,}" for k in ("samples", "labels", "features", "columns")]
            cells += [row["epochs"] or "left out", row["cpu_minutes"]]
            lines.append(f"| {' | '.join(cells)} | {int(row['peak_mb']):,} MB |")
    return "\n".join(lines)


def main() -> None:
    """Run all sizes, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print the table and run nothing")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.table:
        print(table(args.out))
        return
    rows = []
    for size in SIZES:
        with get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(run, size))
        print(rows[-1], flush=True)
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
