"""How often samples that belong together are noticed, and independent ones taken for such.

`warned` is the share of draws with the warning about names of samples or, for features, about rows
that nearly equal another one; at most 1 % is wanted where samples are independent. They go to
detection.csv beside this script.

    python experiments/clusters/detection.py DATA           # the folder with the real sets
    python experiments/clusters/detection.py DATA --runs 3
"""

import argparse
import csv
import gzip
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from hierlpr import simulate
from hierlpr.data.clusters import cluster_note
from hierlpr.data.duplicates import has_close_neighbours

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

# Names of the i-th sample of a cluster, and what may stand in a name without meaning anything.
FORMS = (
    "pt{:03d}_visit{}", "CAM{:02d}_{:04d}.JPG", "plate{}-w{}", "2026-05-{:02d} {:02d}:00", "{1}@{0}"
)  # fmt: skip


def read_taxa(path: Path) -> tuple[sparse.csr_array, list[str], dict[str, np.ndarray]]:
    """Return truth, its labels, and the genus and the family of sequences of a set of taxa."""
    with gzip.open(path, "rt", encoding="utf-8") as packed:
        paths = [line.rstrip("\n").split("\t")[-1].split(";") for line in packed][1:]
    names = [[";".join(path[: i + 1]) for i in range(len(path))] for path in paths]
    labels, column = np.unique([name for row in names for name in row], return_inverse=True)
    row = np.repeat(np.arange(len(names)), [len(row) for row in names])
    truth = sparse.csr_array((np.ones(row.size, dtype=bool), (row, column)))
    groups = {
        kind: np.unique([x[min(depth, len(x)) - 1] for x in names], return_inverse=True)[1]
        for kind, depth in (("genus", 6), ("family", 5))
    }
    return truth, labels.tolist(), groups


def names_of(number: np.ndarray, form: str, rng: np.random.Generator) -> list[str]:
    """Return names of samples of numbered clusters, whose numbers say nothing else."""
    code, count = rng.permutation(int(number.max()) + 1), np.zeros(number.max() + 1, int)
    names = []
    for x in number.tolist():
        names.append(form.format(code[x], count[x]))
        count[x] += 1
    return names


def named_rows(
    truth: object, groups: dict[str, np.ndarray], config: dict, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield what samples have in common, some rows of the truth, and the number of their group."""
    n, size = config["samples"], config["rows"]
    rows = rng.choice(truth.shape[0], n, replace=False)
    yield "nothing", rows, rng.permutation(n) // size
    yield "patient", np.repeat(rows[: n // size], size), np.arange(n) // size
    for kind, number in groups.items():
        some = np.flatnonzero(np.isin(number, rng.permutation(number.max() + 1)[: config["taxa"]]))
        yield kind, some, np.unique(number[some], return_inverse=True)[1]


def study_names(data: Path, config: dict, runs: int) -> Iterator[list]:
    """Yield how often names raise the warning, for every set and what samples have in common."""
    sets = {path: read_taxa(data / path) for path in config["taxa_sets"]}
    for path in config["arff_sets"]:
        arff = read_arff(data / path)
        sets[path] = arff.truth, list(arff.hierarchy.labels), {}
    for name in config["simulated"]:
        population = simulate.disease(n_samples=4000, rng=1)
        if name != "disease":
            population, _ = simulate.train_test(int(name), rng=1)
        sets[f"simulated, {name}"] = population.truth, list(population.hierarchy.labels), {}
    for name, (truth, labels, groups) in sets.items():
        warned: dict[str, list[bool]] = {}
        for run in range(runs):
            rng = np.random.default_rng([config["seed"], run])
            form = FORMS[run % len(FORMS)]
            for kind, rows, number in named_rows(truth, groups, config, rng):
                names = names_of(number, form, rng)
                note = cluster_note(names, truth[rows], labels)
                warned.setdefault(kind, []).append(bool(note))
        for kind, each in warned.items():
            yield ["names", name, kind, runs, np.mean(each)]


def study_features(data: Path, config: dict, runs: int) -> Iterator[list]:
    """Yield how often features raise the warning about copies."""
    for path in config["arff_sets"]:
        x = read_arff(data / path).features
        x = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
        warned: dict[str, list[bool]] = {}
        for run in range(runs):
            rng = np.random.default_rng([config["seed"], 1, run])
            rows = x[rng.choice(len(x), config["samples"], replace=False)]
            half = rows[::2]
            noise = 0.05 * rows.std(axis=0) * rng.normal(size=half.shape)
            between = half + rng.random((len(half), 1)) * (rng.permutation(half) - half)
            for kind, drawn in (
                ("nothing", rows),
                ("copies with noise", np.vstack([half, half + noise])),
                ("points between two", np.vstack([half, between])),
            ):
                warned.setdefault(kind, []).append(has_close_neighbours(drawn))
        for kind, each in warned.items():
            yield ["features", path, kind, runs, np.mean(each)]


def main() -> None:
    """Run both studies and write detection.csv."""
    config = tomllib.loads((HERE / "config.toml").read_text())["detection"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int, default=config["runs"])
    parser.add_argument("--out", type=Path, default=HERE / "detection.csv")
    options = parser.parse_args()
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["signs", "set", "in_common", "runs", "warned"])
        for study in (study_names, study_features):
            for *cells, share in study(options.data, config, options.runs):
                writer.writerow([*cells, f"{share:.4f}"])
                file.flush()


if __name__ == "__main__":
    main()
