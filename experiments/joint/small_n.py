"""Compare ``joint="auto"`` with the LPRs when 30 to 1,000 samples are available for fitting.

    python experiments/joint/small_n.py                        # about an hour; adds what is missing
    python experiments/joint/small_n.py --sizes 30 --replications 2 --out OUT

Twelve populations: the paper's settings, random trees and DAGs, and scores that violate the model
of the joint posterior (noise shared by all labels of a sample, scores copied from the parents,
coarse scores with ties). For each fit the AU(PRC) of the block scores on new samples is compared
with the LPRs alone; a fit is worse if it loses more than two standard errors, computed over batches
of the test samples.

``small_n_runs.csv`` has one row per fit, ``small_n.csv`` summarizes them. ``lowest`` is the mean
gain in the worst population, with its standard error over the fits.
"""

from __future__ import annotations

import argparse
import csv
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr import Hierarchy, HierLPR, consistent_scores, metrics, simulate

HERE = Path(__file__).parent
FIELDS = ("population", "n", "replication", "use", "gain", "standard_error")

Draw = Callable[[int], tuple[np.ndarray, np.ndarray]]
Make = Callable[[np.random.Generator], tuple[Hierarchy, Draw]]


def of_model(model_of: Callable[[np.random.Generator], Any]) -> Make:
    """Draw from a simulated model, whose scores are independent given the labels."""

    def make(rng: np.random.Generator) -> tuple[Hierarchy, Draw]:
        model = model_of(rng)

        def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
            drawn = model.draw(n, rng)
            return drawn.scores, drawn.truth

        return model.hierarchy, draw

    return make


def of_noise(
    hierarchy_of: Callable[[np.random.Generator], Hierarchy],
    *,
    shared: float,
    own: float,
    copied: float = 0.0,
    steps: float | None = None,
) -> Make:
    """Draw scores that depend on each other given the labels, against the joint model."""

    def make(rng: np.random.Generator) -> tuple[Hierarchy, Draw]:
        model = simulate.random_model(hierarchy_of(rng), rng=rng)
        h = model.hierarchy

        def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
            truth = model.draw(n, rng).truth
            noise = shared * rng.normal(size=(n, 1)) + own * rng.normal(size=truth.shape)
            scores = 1.5 * truth + noise
            for number in np.flatnonzero(np.diff(h.parent_ptr)) if copied else ():
                label, parent = h.order[number], h.order[h.parent_idx[h.parent_ptr[number]]]
                scores[:, label] += copied * (scores[:, parent] - scores[:, label])
            return (scores if steps is None else np.round(scores * steps) / steps), truth

        return h, draw

    return make


def tree(n: int) -> Callable[[np.random.Generator], Hierarchy]:
    """Random trees of `n` labels."""
    return lambda rng: simulate.random_tree(n, rng=rng)


def dag(n: int) -> Callable[[np.random.Generator], Hierarchy]:
    """Random DAGs of `n` labels."""
    return lambda rng: simulate.random_dag(n, rng=rng)


POPULATIONS: dict[str, Make] = {
    "setting 1": of_model(lambda rng: simulate.setting_model("1", rng=rng)),
    "setting 2": of_model(lambda rng: simulate.setting_model("2", rng=rng)),
    "setting 3": of_model(lambda rng: simulate.setting_model("3", rng=rng)),
    "tree of 25": of_model(lambda rng: simulate.setting_model("tree25", rng=rng)),
    "tree of 12": of_model(lambda rng: simulate.random_model(tree(12)(rng), rng=rng)),
    "DAG of 12": of_model(lambda rng: simulate.random_model(dag(12)(rng), rng=rng)),
    "shared noise": of_noise(tree(12), shared=1.0, own=0.6),
    "copied scores": of_noise(tree(12), shared=0.0, own=1.0, copied=0.8),
    "coarse scores": of_noise(tree(8), shared=0.3, own=0.8, steps=1.0),
    "coarse scores, DAG": of_noise(dag(8), shared=0.6, own=0.6, steps=2.0),
    "weak scores": of_noise(tree(12), shared=0.3, own=2.0),
    "much shared noise": of_noise(tree(40), shared=1.5, own=0.5),
}


def run_one(name: str, n: int, replication: int, config: dict[str, Any]) -> dict[str, Any]:
    """Fit with and without the joint posterior on the same samples."""
    place = list(POPULATIONS).index(name)
    rng = np.random.default_rng([config["seed"], place, n, replication])
    h, draw = POPULATIONS[name](rng)
    (scores, truth), (new_scores, new_truth) = draw(n), draw(config["n_test"])
    plain, joint = (HierLPR(h, joint=x, n_jobs=1).fit(scores, truth) for x in (False, "auto"))
    before, after = (
        areas(new_truth, model.transform(new_scores), h, config["batches"])
        for model in (plain, joint)
    )
    error = np.nanstd((after - before)[1:], ddof=1) / np.sqrt(config["batches"])
    use = joint.joint_.tempering.use
    values = (name, n, replication, use, after[0] - before[0], error)
    return dict(zip(FIELDS, values, strict=True))


def areas(truth: np.ndarray, p: np.ndarray, h: Hierarchy, batches: int) -> np.ndarray:
    """AU(PRC) of the block scores, of all samples and then batch by batch."""
    blocks = consistent_scores(p, h, n_jobs=1)
    parts = [slice(None), *np.array_split(np.arange(len(truth)), batches)]
    return np.array(
        [metrics.au_prc_score(truth[i], blocks[i]) if truth[i].any() else np.nan for i in parts]
    )


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how often the joint posterior is used and its gain, by size and overall."""
    sizes = sorted({int(row["n"]) for row in runs})
    runs = [row for row in runs if np.isfinite(float(row["gain"]))]  # none if nothing is positive
    rows = []
    for n in (*sizes, None):
        part = [r for r in runs if n in (None, int(r["n"]))]
        gain = np.array([float(r["gain"]) for r in part])
        error = np.array([float(r["standard_error"]) for r in part])
        name = np.array([r["population"] for r in part])
        by_name = {x: gain[name == x] for x in POPULATIONS if x in name}
        lowest = min(by_name, key=lambda x: by_name[x].mean())
        rows.append(
            {
                "n": "all" if n is None else n,
                "fits": len(part),
                "used": f"{np.mean([r['use'] != 'none' for r in part]):.3f}",
                "mean_gain": f"{gain.mean():.4f}",
                "worse": int(np.sum(gain < -2.0 * error)),
                "worst": f"{gain.min():.4f}",
                "lowest": f"{by_name[lowest].mean():.4f}",
                "lowest_error": f"{stderr(by_name[lowest]):.4f}",
                "population": lowest,
            }
        )
    return rows


def stderr(gain: np.ndarray) -> float:
    """Standard error of the mean of some fits."""
    return float(gain.std(ddof=1) / np.sqrt(gain.size)) if gain.size > 1 else np.nan


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows of one kind."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run missing fits, and summarize."""
    config = tomllib.loads((HERE / "config.toml").read_text())["small_n"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=config["sizes"])
    parser.add_argument("--replications", type=int, default=config["replications"])
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    path = options.out / "small_n_runs.csv"
    runs: list[dict[str, Any]] = []
    if path.exists():
        with path.open(newline="") as file:
            runs = list(csv.DictReader(file))
    done = {(r["population"], int(r["n"]), int(r["replication"])) for r in runs}
    for replication in range(options.replications):
        for n in options.sizes:
            for name in POPULATIONS:
                if (name, n, replication) not in done:
                    row = run_one(name, n, replication, config)
                    rounded = {k: f"{row[k]:.6f}" for k in ("gain", "standard_error")}
                    runs.append(row | rounded)
            write(runs, path)
    write(summary(runs), options.out / "small_n.csv")


if __name__ == "__main__":
    main()
