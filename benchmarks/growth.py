"""How processor time grows with samples and with labels, from files to files in batches.

    python benchmarks/growth.py           about two minutes
    python benchmarks/growth.py 4         four times the data

Rank, fit (without the joint posterior) and evaluate are timed in one warm process, so that loading
Python has no part in it. The exponent is the slope of log time against log size; 1 is linear.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hierlpr import Hierarchy, workflows
from hierlpr.data.tables import Table
from hierlpr.io import write_hierarchy, write_scores, write_truth

SAMPLES, LABELS, GROWTH = 10_000, 50, (1, 4, 16)
LIMIT = 1.1


def make(folder: Path, n_samples: int, n_labels: int) -> None:
    """A random tree, scores and truth, wide Parquet."""
    rng = np.random.default_rng(0)
    names = [f"L{i}" for i in range(n_labels)]
    edges = [(names[int(rng.integers(0, i))], names[i]) for i in range(1, n_labels)]
    h = Hierarchy(edges, labels=names)
    held = h.close_upward(rng.random((n_samples, n_labels)) < 2 / n_labels)
    scores = rng.normal(0.35, 0.2, held.shape) + 0.3 * held
    samples = tuple(f"P{i:09d}" for i in range(n_samples))
    folder.mkdir()
    write_hierarchy(folder / "tree.csv", h)
    write_scores(folder / "scores.parquet", Table(scores, h.labels, samples))
    write_truth(folder / "truth.parquet", Table(held.astype(float), h.labels, samples))


def steps(folder: Path) -> dict[str, Callable[[], object]]:
    files = [folder / name for name in ("scores.parquet", "truth.parquet", "model.hlpr")]
    tree, ranked, parts = folder / "tree.csv", folder / "ranked.parquet", {"memory": "64MiB"}
    return {
        "fit": lambda: workflows.fit_file(tree, *files, joint=False, goal={"fdr": 0.1}, **parts),
        "rank": lambda: workflows.rank_file(files[2], files[0], ranked, **parts),
        "evaluate": lambda: workflows.evaluate_file(ranked, files[1], tree, **parts),
    }


def timed(n_samples: int, n_labels: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name) / "data"
        make(folder, n_samples, n_labels)
        found = {}
        for what, step in steps(folder).items():
            began = time.process_time()
            step()
            found[what] = time.process_time() - began
        return found


def main() -> None:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    timed(1000, LABELS)  # loads and compiles what there is
    for along in ("samples", "labels"):
        sizes = [(int(SAMPLES * scale) * (g if along == "samples" else 1),
                  LABELS * (g if along == "labels" else 1)) for g in GROWTH]  # fmt: skip
        found = [timed(*size) for size in sizes]
        for what in found[0]:
            cpu = [times[what] for times in found]
            slope = float(np.polyfit(np.log(GROWTH), np.log(cpu), 1)[0])
            row = {"what": what, "along": along, "sizes": sizes,
                   "cpu": [round(x, 2) for x in cpu], "exponent": round(slope, 2),
                   "limit": LIMIT}  # fmt: skip
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
