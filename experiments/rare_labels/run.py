"""Compare curves shared by labels with one curve per label, for rare labels.

A simulated nearest-neighbour predictor over a tree of enzyme-like classes, most of them with a
handful of samples. Scores are similarities, which are comparable across labels, or the same after
an increasing transform per label, which makes them incomparable. Three kinds of tables: complete
scores, the ten nearest reference samples' labels listed with their ancestors, and the same listed
alone. Optionally also the taxonomic classifiers in a folder of data, and the real sets of
experiments/joint_real. Results go to results.csv.

    python experiments/rare_labels/run.py [--replications N] [--taxa FOLDER] [--cache FOLDER]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, metrics
from hierlpr.lpr.estimators import Auto

HERE = Path(__file__).parent
KINDS = ("complete", "listed with ancestors", "listed alone")
METHODS = {
    "own curves": {"lpr": Auto(kappa=0.0)},
    "shared curves": {"lpr": Auto(kappa=np.inf)},
    "both (default)": {"lpr": "auto"},
}


def taxonomy(rng: np.random.Generator) -> Hierarchy:
    """A tree of four levels: 6 roots, then about 5, 4 and 2 children per label."""
    edges, level = [], [f"{i}" for i in range(1, 7)]
    labels = list(level)
    for mean in (5, 4, 2):
        below = []
        for parent in level:
            children = [f"{parent}.{j}" for j in range(1, 2 + rng.poisson(mean - 1))]
            edges += [(parent, child) for child in children]
            below += children
        labels += below
        level = below
    return Hierarchy(edges, labels=labels)


def simulate(
    seed: int, *, n: int = 800, comparable: bool = True
) -> tuple[Hierarchy, np.ndarray, np.ndarray, np.ndarray]:
    """Hierarchy, truth, scores and the ten labels nearest to each of `n` samples.

    A sample is the sum of vectors of its labels plus noise. Its score for a label is the largest
    similarity to a reference sample of that label.
    """
    rng = np.random.default_rng(seed)
    h = taxonomy(rng)
    leaves = np.flatnonzero([not h.children(label) for label in h.labels])
    frequency = 1.0 / np.arange(1, leaves.size + 1) ** 0.9
    frequency = rng.permutation(frequency / frequency.sum())
    size = {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6}
    vector = rng.normal(size=(h.n_labels, 24)) * [[size[d]] for d in np.asarray(h.levels)]
    above = np.eye(h.n_labels, dtype=bool)
    above = h.close_upward(above)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        leaf = rng.choice(leaves, count, p=frequency)
        noise = rng.normal(size=(count, 24)) * rng.uniform(0.5, 1.5, (count, 1))
        return above[leaf] @ vector + noise, leaf

    reference, reference_leaf = draw(n)
    features, leaf = draw(n)
    distance = np.sqrt(((features[:, None] - reference[None]) ** 2).sum(axis=2))
    near = np.exp(-distance / 4.0)
    scores = np.full((n, h.n_labels), 0.01)
    for r in range(n):
        own = above[reference_leaf[r]]
        scores[:, own] = np.maximum(scores[:, own], near[:, [r]])
    listed = np.zeros(scores.shape, dtype=bool)
    nearest = np.argsort(-near, axis=1)[:, :10]
    listed[np.arange(n)[:, None], reference_leaf[nearest]] = True
    if not comparable:
        scores = scores ** rng.uniform(0.3, 3.0, h.n_labels) * rng.lognormal(0, 2, h.n_labels)
    return h, above[leaf], scores, listed


def table_of(kind: str, h: Hierarchy, scores: np.ndarray, listed: np.ndarray):
    """Return the scores as a predictor would give them."""
    if kind == "complete":
        return scores
    shown = h.close_upward(listed) if kind == "listed with ancestors" else listed
    row, column = np.nonzero(shown)
    return sparse.csr_array((scores[row, column], (row, column)), shape=scores.shape)


def measures(truth: np.ndarray, score: np.ndarray) -> dict[str, float]:
    """Average precision, recall at 95 % precision, and log-loss per sample."""
    order = np.argsort(-score, axis=None, kind="stable")
    hits = np.cumsum(truth.ravel()[order])
    precision, recall = hits / np.arange(1, hits.size + 1), hits / truth.sum()
    good = np.flatnonzero(precision >= 0.95)
    p = np.clip(score, 1e-5, 1.0 - 1e-5)
    return {
        "au_prc": metrics.au_prc_score(truth, score),
        "recall_at_95": float(recall[good[-1]]) if good.size else 0.0,
        "log_loss": float(-np.log(np.where(truth, p, 1.0 - p)).sum(axis=1).mean()),
    }


def run_simulation(replications: int) -> list[dict[str, object]]:
    """Means over replications: fit on two thirds of the samples, measured on the others."""
    rows: list[dict[str, object]] = []
    for comparable in (True, False):
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for seed in range(replications):
            h, truth, scores, listed = simulate(seed, comparable=comparable)
            fit = np.arange(len(truth)) < 2 * len(truth) // 3
            for kind in KINDS:
                table = table_of(kind, h, scores, listed)
                for name, options in METHODS.items():
                    model = HierLPR(h, joint=False, **options).fit(table[fit], truth[fit])
                    score = model.predict_proba(table[~fit])
                    dense = score if isinstance(score, np.ndarray) else score.toarray()
                    found.setdefault((kind, name), []).append(measures(truth[~fit], dense))
        data = "comparable scores" if comparable else "scores of different scales"
        for (kind, name), values in found.items():
            mean = {key: round(np.mean([v[key] for v in values]), 4) for key in values[0]}
            rows.append({"data": data, "kind": kind, "curves": name, **mean})
    return rows


def read_taxa(path: Path) -> tuple[Hierarchy, sparse.csr_array, sparse.csr_array, np.ndarray]:
    """Hierarchy, listed confidences, truth and fold of a taxonomic classifier's file."""
    with gzip.open(path, "rt") as file:
        lines = [line.rstrip("\n").split("\t") for line in file][1:]
    label: dict[str, int] = {}
    edges: dict[tuple[str, str], None] = {}

    def numbers(taxon: str) -> list[int]:
        names = taxon.split(";")
        paths = [";".join(names[: i + 1]) for i in range(len(names))]
        edges.update(dict.fromkeys(pairwise(paths)))
        return [label.setdefault(p, len(label)) for p in paths]

    scored = [(numbers(line[2]), [float(x) for x in line[3].split(";")]) for line in lines]
    true = [numbers(line[4]) if line[4] else [] for line in lines]
    shape = len(lines), len(label)

    def csr(columns: list[list[int]], values: list[list[float]]) -> sparse.csr_array:
        ptr = np.cumsum([0, *map(len, columns)])
        return sparse.csr_array((np.concatenate(values), np.concatenate(columns), ptr), shape=shape)

    scores = csr([x for x, _ in scored], [y[: len(x)] for x, y in scored])
    truth = csr(true, [[True] * len(x) for x in true]).astype(bool)
    fold = np.array([int(line[1]) for line in lines])
    return Hierarchy(list(edges), labels=list(label)), scores, truth, fold


def run_taxa(folder: Path) -> list[dict[str, object]]:
    """Log-loss per listed pair: fit on eight of ten folds, measured on the others, in rotation."""
    rows: list[dict[str, object]] = []
    for name in ("its", "16s"):
        h, scores, truth, fold = read_taxa(folder / f"{name}.tsv.gz")
        for first in (8, 0, 2, 4, 6):
            test = np.isin(fold, (first, first + 1))
            for curves, options in METHODS.items():
                model = HierLPR(h, joint=False, **options).fit(scores[~test], truth[~test])
                lpr = model.lpr_.predict(scores[test])
                row = np.repeat(np.arange(lpr.shape[0]), np.diff(lpr.indptr))
                held = truth[test].toarray()[row, lpr.indices]
                p = np.clip(lpr.data, 1e-9, 1.0 - 1e-9)
                loss = float(-np.log(np.where(held, p, 1.0 - p)).mean())
                where = f"{name}, folds {first} and {first + 1}"
                rows.append(
                    {"data": where, "kind": "listed", "curves": curves, "log_loss": round(loss, 4)}
                )
    return rows


def run_real(cache: Path) -> list[dict[str, object]]:
    """AU(PRC) and log-loss per sample on the test part of each real set with complete scores."""
    place = HERE.parent / "joint_real"
    spec = importlib.util.spec_from_file_location("joint_real", place / "run.py")
    assert spec is not None
    assert spec.loader is not None
    joint_real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(joint_real)
    config = tomllib.loads((place / "config.toml").read_text())
    rows: list[dict[str, object]] = []
    for name in config["sets"]:
        data = joint_real.load(name, config, cache)
        for curves, options in METHODS.items():
            model = HierLPR(data.hierarchy, joint=False, **options).fit(data.scores, data.truth)
            found = {
                "au_prc": metrics.au_prc_score(
                    data.test_truth, model.predict_proba(data.test_scores)
                ),
                "log_loss": joint_real.log_loss(model.transform(data.test_scores), data.test_truth),
            }
            rounded = {key: round(value, 4) for key, value in found.items()}
            rows.append({"data": name, "kind": "complete", "curves": curves, **rounded})
    return rows


def main() -> None:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=8)
    parser.add_argument("--taxa", type=Path)
    parser.add_argument("--cache", type=Path, help="folder for first-stage scores of real sets")
    parser.add_argument("--out", type=Path, default=HERE / "results.csv")
    options = parser.parse_args()
    rows = run_simulation(options.replications)
    rows += [] if options.taxa is None else run_taxa(options.taxa)
    rows += [] if options.cache is None else run_real(options.cache)
    with options.out.open("w", newline="") as file:
        names = ["data", "kind", "curves", "au_prc", "recall_at_95", "log_loss"]
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print(*row.values(), sep="\t", flush=True)


if __name__ == "__main__":
    main()
