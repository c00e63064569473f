"""Compare scores of leaves, rolled up, with scores of one classifier per label, by AU(PRC).

The sets are a tree of 84 product categories with simulated counts of words (three seeds) and, if
the data are there (HIERLPR_DATA), X-ray images (imclef07a). Scores of leaves are the
`predict_proba` of one classifier; those of all labels come from one classifier per label, or one
forest for all. The results go to summary.csv beside this script.

    python experiments/leaves/run.py                         # about five minutes of CPU
"""

from __future__ import annotations

import csv
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from hierlpr import Hierarchy, HierLPR

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[1] / ".." / "shared" / "data"))
SEEDS, WORDS = (0, 1, 2), 400
PARTS = (1500, 1500, 3000)  # products to train classifiers, to fit and to evaluate


def products(seed: int) -> tuple[Hierarchy, np.ndarray, np.ndarray]:
    """Return a tree (4 x 4 x 4), counts of words, and the leaf of each sample."""
    groups = [(a, f"{a}{b}") for a in "ABCD" for b in range(4)]
    h = Hierarchy([*groups, *((g, f"{g}{c}") for _, g in groups for c in range(4))])
    rng = np.random.default_rng(seed)
    taste = {label: rng.normal(0.0, 1.0, WORDS) * (rng.random(WORDS) < 0.1) for label in h.labels}
    rate = np.array([sum(taste[x] for x in (leaf, *h.ancestors(leaf))) for leaf in h.leaves])
    leaf = rng.choice(len(h.leaves), sum(PARTS), p=rng.dirichlet(np.ones(len(h.leaves))))
    chance = np.exp(rate + rng.normal(0.0, 1.0, WORDS))
    chance /= chance.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(40, chance[k]) for k in leaf])
    return h, np.log1p(counts), leaf


def compare(name: str, classifier: str, h: Hierarchy, x: np.ndarray, leaf: np.ndarray, parts):
    """Return AU(PRC) on the last part of the samples with each kind of scores."""
    train, fit, test = (slice(a, b) for a, b in zip((0, *parts), parts, strict=False))
    names = np.array(h.leaves)[leaf]
    truth = np.array([[x in (k, *h.ancestors(k)) for x in h.labels] for k in h.leaves])[leaf]
    if classifier == "logistic":
        x = StandardScaler().fit(x[train]).transform(x)
        one = LogisticRegression(C=0.1, max_iter=500)
        all_labels = OneVsRestClassifier(one)
    else:
        options = {"n_estimators": 100, "min_samples_leaf": 2, "random_state": 0}
        one, all_labels = ExtraTreesClassifier(**options), ExtraTreesClassifier(**options)
    found = one.fit(x[train], names[train]).predict_proba(x)
    proba = np.zeros((len(x), len(h.leaves)))  # leaves that the classifier has not seen: 0
    proba[:, [h.leaves.index(k) for k in one.classes_]] = found
    direct = all_labels.fit(x[train], truth[train]).predict_proba(x)
    if isinstance(direct, list):  # of a forest; a label that is always true or false has 1 column
        direct = np.stack(
            [p[:, -1] * (truth[train, k].any()) for k, p in enumerate(direct)], axis=1
        )
    scores = {"sum": (proba, "sum"), "max": (proba, "max"), "all labels": (direct, "auto")}
    row = {"set": name, "classifier": classifier}
    for kind, (score, leaves) in scores.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HierLPR(h, leaves=leaves).fit(score[fit], names[fit])
            row[kind] = round(model.score(score[test], names[test]), 4)
            auto = HierLPR(h, joint=False).fit(score[fit], names[fit]).leaves_
        if kind == "sum":
            row["auto"] = auto
    print(row, flush=True)
    return row


def images() -> tuple[Hierarchy, np.ndarray, np.ndarray]:
    """Return the hierarchy, features and leaf of X-ray images; the test part comes last."""
    folder = DATA / "imclef07a"
    train = read_arff(folder / "ImCLEF07A_Train.arff.gz")
    test = read_arff(folder / "ImCLEF07A_Test.arff.gz", hierarchy=train.hierarchy)
    order = np.random.default_rng(0).permutation(len(train.truth))  # the file is sorted
    x = np.vstack([train.features[order], test.features])
    truth = np.vstack([train.truth[order], test.truth])
    columns = [train.hierarchy.index(k) for k in train.hierarchy.leaves]
    assert (truth[:, columns].sum(axis=1) == 1).all()
    return train.hierarchy, x, truth[:, columns].argmax(axis=1)


def main() -> None:
    """Run all sets and write the table."""
    rows = []
    for seed in SEEDS:
        h, x, leaf = products(seed)
        for classifier in ("logistic", "forest"):
            rows.append(compare(f"products {seed}", classifier, h, x, leaf, np.cumsum(PARTS)))
    if DATA.is_dir():
        h, x, leaf = images()
        rows.append(compare("imclef07a", "forest", h, x, leaf, (5000, 10000, len(x))))
    with (HERE / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
