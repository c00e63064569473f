"""`hierlpr assign --confidence` on sequences of genera and of families that nobody labelled.

Each run labels a quarter of the genera (or families) and names the sequences of another quarter,
with the promise that at most 10 % get a wrong name, with 90 % confidence: once as if sequences were
independent, once with ``clusters=``, which promises it of a random sequence of a new genus. `above`
is the share of runs (at most .10 promised) in which more than 10 % of such sequences, all genera
counting equally, had a wrong name, `rows_above` that with all sequences counting equally; `wrong`,
`rows_wrong` and `named` (to the genus or species) are means. They go to clusters.csv beside this
script.

    python experiments/taxa/clusters.py DATA           # the folder with its.tsv.gz and 16s.tsv.gz
    python experiments/taxa/clusters.py DATA --runs 3
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tomllib
from pathlib import Path

import numpy as np
from new import GENUS, HERE, name_lines

COLUMNS = ["set", "cluster", "clusters", "runs", "above", "rows_above"]
COLUMNS += ["wrong", "rows_wrong", "named"]
DEPTH = {"genus": 6, "family": 5}  # names of a true path
GOAL = {"error": 0.1, "confidence": 0.9}


def run_once(lines: list[str], depth: int, is_clustered: bool, share: float, seed: int) -> list:
    """Return the shares of wrong names by cluster and by sequence, and the share named."""
    cells = [line.rstrip().split("\t") for line in lines[1:]]
    names = [";".join(x[-1].split(";")[:depth]) for x in cells]
    _, number = np.unique(names, return_inverse=True)
    place = np.random.default_rng(seed).permutation(number.max() + 1)[number]
    n = int(share * (number.max() + 1))
    labelled, new = (1 + np.flatnonzero((place >= at) & (place < at + n)) for at in (0, n))
    clusters = {cells[i - 1][0]: names[i - 1] for i in labelled} if is_clustered else None
    _, paths = name_lines(lines, labelled, new, clusters=clusters, seed=seed, **GOAL)
    wrong = np.array([name != true[: len(name)] for name, true in paths], dtype=float)
    _, group = np.unique(number[new - 1], return_inverse=True)
    by_cluster = np.bincount(group, wrong) / np.bincount(group)
    return [by_cluster.mean(), wrong.mean(), np.mean([len(name) >= GENUS for name, _ in paths])]


def main() -> None:
    """Run the study and write clusters.csv."""
    config = tomllib.loads((HERE / "config.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int, default=config["cluster_runs"])
    parser.add_argument("--out", type=Path, default=HERE / "clusters.csv")
    given = parser.parse_args()
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name in config["sets"]:
            with gzip.open(given.data / f"{name}.tsv.gz", "rt", encoding="utf-8") as packed:
                lines = packed.readlines()
            for kind, depth in DEPTH.items():
                for is_clustered in (False, True):
                    seeds = range(config["seed"], config["seed"] + given.runs)
                    runs = [run_once(lines, depth, is_clustered, config["share"], x) for x in seeds]
                    rows = np.array(runs)
                    shares = [*(rows[:, :2] > GOAL["error"]).mean(axis=0), *rows.mean(axis=0)]
                    said = "yes" if is_clustered else "no"
                    writer.writerow([name, kind, said, given.runs, *(f"{x:.4f}" for x in shares)])
                    file.flush()


if __name__ == "__main__":
    main()
