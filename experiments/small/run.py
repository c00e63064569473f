"""Compare the default with simple models on few samples of scikit-learn's data sets.

Classes of digits, iris, wine and breast cancer, each under a small tree, and a linear simulation.
Training samples are drawn at random, and up to 600 others are used to test. Rows go to results.csv
beside this script: AU(PRC) of the default, of one logistic model per label alone and with HierLPR,
and of a random forest of all labels.

    python experiments/small/run.py                  # every set and size, two draws each
    python experiments/small/run.py iris20 --draws 1
    python experiments/small/run.py --table          # results.csv as a table
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hierlpr import HierarchicalClassifier, Hierarchy, metrics
from hierlpr.model import cross_fitting

OUT = Path(__file__).resolve().parent / "results.csv"
COLUMNS = ["set", "draw", "default", "logistic", "logistic_hierlpr", "forest", "weights"]
Case = tuple[str, np.ndarray, np.ndarray, Hierarchy, int]


def grouped(y: np.ndarray, groups: dict[str, list[int]]) -> tuple[Hierarchy, np.ndarray]:
    """Return a tree of groups of classes, with the classes below groups of more than one."""
    names: list[str] = []
    edges: list[tuple[str, str]] = []
    columns: list[np.ndarray] = []
    for group, classes in groups.items():
        names.append(group)
        columns.append(np.isin(y, classes))
        for one in classes if len(classes) > 1 else []:
            names.append(f"{group}/{one}")
            edges.append((group, names[-1]))
            columns.append(y == one)
    return Hierarchy(edges, labels=names), np.stack(columns, axis=1)


def linear() -> tuple[np.ndarray, np.ndarray, Hierarchy]:
    """Draw thirty labels, each linear in 20 features with noise, and true only if its parent is."""
    rng = np.random.default_rng(0)
    parent = {k: int(rng.integers(0, k)) for k in range(3, 30)}
    edges = [(f"L{p}", f"L{k}") for k, p in parent.items()]
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1400, 20))
    weight = np.random.default_rng(777).normal(size=(20, 30)) / np.sqrt(20)
    level = x @ weight + 0.5 * rng.normal(size=(1400, 30))
    truth = level > np.quantile(level, 0.6)
    for k, p in parent.items():
        truth[:, k] &= truth[:, p]
    return x, truth, Hierarchy(edges, labels=[f"L{k}" for k in range(30)])


def cases() -> Iterator[Case]:
    """Name, features, truth, hierarchy and number of training samples."""
    digits = load_digits()
    h, truth = grouped(
        digits.target, {"round": [0, 6, 8, 9], "line": [1, 4, 7], "curve": [2, 3, 5]}
    )
    for n in (30, 60, 150, 400):
        yield f"digits{n}", digits.data, truth, h, n
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        data = load()
        h, truth = grouped(data.target, {"a": [0], "b": [1, 2]})
        for n in (20, 40, 100):
            yield f"{name}{n}", data.data, truth, h, n
    cancer = load_breast_cancer()
    bad, texture, area = cancer.target == 0, cancer.data[:, 21], cancer.data[:, 23]
    truth = np.stack([bad, bad & (area > 900), ~bad, ~bad & (texture > 23)], axis=1)
    h = Hierarchy([("m", "m1"), ("b", "b1")], labels=["m", "m1", "b", "b1"])
    for n in (30, 60, 200):
        yield f"cancer{n}", np.delete(cancer.data, [21, 23], axis=1), truth, h, n
    x, truth, h = linear()
    yield "linear40", x, truth, h, 40


def run(case: Case, draw: int) -> dict[str, object]:
    """Fit all on one draw of training samples."""
    name, features, held, h, n = case
    order = np.random.default_rng(100 + draw).permutation(len(features))
    x, truth = features[order[:n]], held[order[:n]]
    x_new, truth_new = features[order[n:][:600]], held[order[n:][:600]]
    model = HierarchicalClassifier(hierarchy=h, random_state=draw).fit(x, truth)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    cross_fitting.MIN_SUPPORT = 1  # few samples: a classifier for every label
    plain = HierarchicalClassifier(logistic, hierarchy=h, random_state=draw).fit(x, truth)
    forest = RandomForestClassifier(300, random_state=draw).fit(x, truth)
    shares = np.zeros(truth_new.shape)
    for k, (p, known) in enumerate(zip(forest.predict_proba(x_new), forest.classes_, strict=True)):
        shares[:, k] = p[:, list(known).index(1)] if 1 in known else 0.0
    found = {
        "default": model.predict_proba(x_new), "logistic": plain.scores(x_new),
        "logistic_hierlpr": plain.predict_proba(x_new), "forest": shares,
    }  # fmt: skip
    row: dict[str, object] = {"set": name, "draw": draw}
    row |= {k: f"{metrics.au_prc_score(truth_new, v):.4f}" for k, v in found.items()}
    weights = model.estimators_[0].weights_
    return row | {"weights": " ".join(f"{k} {w:.2f}" for k, w in weights.items())}


def table(path: Path) -> str:
    """Return a table: fewest and most samples of each set, the best in bold."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    lines = [
        "| set and samples | default | logistic | logistic with HierLPR | random forest |",
        "| --- | --- | --- | --- | --- |",
    ]
    by_kind: dict[str, list[str]] = {}
    for name in dict.fromkeys(row["set"] for row in rows):
        by_kind.setdefault(name.rstrip("0123456789"), []).append(name)
    for name in [x for names in by_kind.values() for x in dict.fromkeys([names[0], names[-1]])]:
        mine = [row for row in rows if row["set"] == name]
        means = [np.mean([float(row[k]) for row in mine]) for k in COLUMNS[2:6]]
        cells = [f"**{m:.3f}**" if m == max(means) else f"{m:.3f}" for m in means]
        kind = name.rstrip("0123456789")
        lines.append(f"| {kind}, {name[len(kind) :]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the named sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print the table and run nothing")
    args = parser.parse_args()
    if args.table:
        print(table(args.out))
        return
    rows = [
        run(case, draw)
        for case in cases()
        for draw in range(args.draws)
        if not args.sets or case[0] in args.sets
    ]
    with args.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
