"""One trusted name per sequence, against fixed and tuned thresholds, on two sets of real sequences.

Each run draws samples to fit on, to calibrate on and to test on. A sample has a wrong name if any
rank of its name is not in its true path; the share of such test samples should be at most the
stated error. Recall is the share of the true labels, of all ranks, that are named, and the mean
rank is the number of ranks named per sample. A tuned threshold is the smallest confidence at which
at most the stated error is wrong on the calibration samples; like the fixed ones it is one number
for all taxa. Thresholds tuned per rank are the smallest confidences at which at most a share q of
the names of each rank is wrong, with the largest q that meets the stated error. Means with standard
errors over runs go to summary.csv beside this script.

    python experiments/taxa/run.py DATA           # the folder with its.tsv.gz and 16s.tsv.gz
    python experiments/taxa/run.py DATA --runs 3
"""

from __future__ import annotations

import argparse
import csv
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from hierlpr import HierLPR
from hierlpr.cutoff.instances import holds_at
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.data.tables import Table
from hierlpr.io.predictions import read_predictions
from hierlpr.io.true_names import read_true_names
from hierlpr.report.names import name_by_threshold

HERE = Path(__file__).resolve().parent
COLUMNS = ["set", "rule", "runs", "wrong", "wrong_se", "recall", "mean_rank", "species", "within"]
Measures = tuple[float, float, float, float]


def measure(named: np.ndarray, truth, above, is_species: np.ndarray) -> Measures:
    """Return the share of wrong names, recall, mean rank, and the share named at species."""
    rows = np.flatnonzero(named >= 0)
    called = above[named[rows]]  # each name with its ancestors
    n_right = np.asarray(called.multiply(truth[rows]).sum(axis=1)).ravel()
    n_called = np.diff(called.indptr)
    return (
        float((n_right < n_called).sum() / named.size),
        float(n_right.sum() / truth.sum()),
        float(n_called.sum() / named.size),
        float(is_species[named[rows]].sum() / named.size),
    )


def rules(model, scores, truth, parts, config, hierarchy) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names that each rule gives the test samples."""
    kept, test = parts
    labels = hierarchy.labels
    for error in config["errors"]:
        model.calibrate_sets(Table(scores[kept], labels), truth[kept], error=error, one_path=True)
        yield f"error {error:g}", model.name_samples(Table(scores[test], labels))[0]
    for level in config["thresholds"]:
        yield f"threshold {level:g}", name_by_threshold(scores[test], hierarchy, level)
    worst = worst_confidence(scores[kept], truth[kept], hierarchy)
    for error in config["errors"]:
        level = np.sort(worst)[::-1][int(error * kept.size)]  # this share is above it
        yield f"tuned threshold {error:g}", name_by_threshold(scores[test], hierarchy, level + 1e-9)
    for error in config["errors"]:
        level = tune_per_rank(scores[kept], truth[kept], hierarchy, error)
        yield f"tuned per rank {error:g}", name_by_threshold(scores[test], hierarchy, level)


def tune_per_rank(scores, truth, hierarchy, error: float) -> np.ndarray:
    """Return one threshold per label, equal within a rank, that meets the stated error."""
    paths = likely_paths(scores, hierarchy)
    is_true = holds_at(truth, paths.sample, paths.label)
    depth = np.asarray(hierarchy.levels)
    best = np.full(hierarchy.n_labels, np.inf)
    for share in np.linspace(0.0, 3.0 * error, 61):
        level = np.full(hierarchy.n_labels, np.inf)
        for rank in np.unique(depth):
            at = np.flatnonzero(depth[paths.label] == rank)
            at = at[np.argsort(-paths.chance[at], kind="stable")]
            chance = paths.chance[at]
            is_last = np.append(chance[1:] < chance[:-1], True)  # of equal confidences
            n_wrong = np.cumsum(~is_true[at])
            kept = np.flatnonzero(is_last & (n_wrong <= share * np.arange(1, at.size + 1)))
            level[depth == rank] = chance[kept[-1]] if kept.size else np.inf
        named = name_by_threshold(scores, hierarchy, level)
        row = np.flatnonzero(named >= 0)
        # Truth is closed upward, so a name is right if its deepest label is.
        n_wrong = np.count_nonzero(~holds_at(truth, row, named[row]))
        best = level if n_wrong <= error * named.size else best
    return best


def worst_confidence(scores, truth, hierarchy) -> np.ndarray:
    """Return the highest threshold at which each sample gets a wrong name; -1 if never."""
    paths = likely_paths(scores, hierarchy)
    reach = paths.chance.copy()
    below = np.flatnonzero(np.diff(paths.sample, prepend=-1) == 0)
    for _ in range(hierarchy.depth):  # the smallest confidence down to each label
        reach[below] = np.minimum(reach[below], reach[below - 1])
    is_false = ~holds_at(truth, paths.sample, paths.label)
    worst = np.full(scores.shape[0], -1.0)
    np.maximum.at(worst, paths.sample[is_false], reach[is_false])
    return worst


def run_set(path: Path, config: dict, n_runs: int) -> Iterator[dict]:
    """Yield one row per run and rule."""
    found = read_predictions(path)
    rows, truth, _ = read_true_names(path, found, column="Truth")
    scores, h = found.scores[rows], found.hierarchy
    own = sparse.eye_array(h.n_labels, format="csr", dtype=bool)
    above = sparse.csr_array(h.close_upward(own), dtype=float)
    is_species = np.array([rank == "species" for rank in found.ranks])
    for run in range(n_runs):
        rng = np.random.default_rng([config["seed"], run])
        order = rng.permutation(rows.size)
        ends = np.cumsum([int(config[x] * rows.size) for x in ("fit", "calibration")])
        fit, kept, test = np.split(order, ends)
        model = HierLPR(h).fit(Table(scores[fit], h.labels), truth[fit])
        for rule, named in rules(model, scores, truth, (kept, test), config, h):
            measured = measure(named, truth[test], above, is_species)
            yield {"rule": rule, "run": run, "measured": measured}


def summarize(name: str, rows: list[dict]) -> Iterator[list]:
    """Yield the means over runs; `within` says whether the error is met within 3 s.e."""
    for rule in dict.fromkeys(row["rule"] for row in rows):
        values = np.array([row["measured"] for row in rows if row["rule"] == rule])
        mean, se = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        stated = float(rule.rpartition(" ")[2])
        within = "yes" if mean[0] <= stated + 3 * se[0] else "no"
        numbers = [f"{mean[0]:.4f}", f"{se[0]:.4f}", *(f"{x:.4f}" for x in mean[1:])]
        yield [name, rule, len(values), *numbers, "" if rule.startswith("thr") else within]


def main() -> None:
    """Run the study and write summary.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "summary.csv")
    given = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for name in config["sets"]:
            path = given.data / f"{name}.tsv.gz"
            rows = list(run_set(path, config, given.runs or config["runs"]))
            writer.writerows(summarize(name, rows))
            file.flush()


if __name__ == "__main__":
    main()
