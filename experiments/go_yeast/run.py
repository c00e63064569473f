"""Yeast genes on the Gene Ontology (cellcycle, 4,125 labels, a DAG): fit, rank, cut, compare.

One logistic model per label on 77 expression features; cross-validated scores of the training and
validation genes fit the LPRs, the test genes are ranked. For the cutoff, models and LPRs come from
the training genes alone, and the validation genes choose it. Results go to CSV files beside this
script; the data set is found through HIERLPR_DATA.

    python experiments/go_yeast/run.py              # a few minutes on two cores
    python experiments/go_yeast/run.py --labels 200 # the most frequent labels with their ancestors
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hierlpr import Hierarchy, HierLPR, baselines, consistent_scores, rank
from hierlpr.metrics import au_prc_score, order_violations_error

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE / "../../../shared/data"))
Float = NDArray[np.float64]


def read_parts() -> dict[str, Any]:
    """Features and closed truth of the training, validation and test genes."""
    folder = DATA / "go_yeast"
    return {
        part: read_arff(folder / f"cellcycle_GO.{part}.arff.gz")
        for part in ("train", "valid", "test")
    }


def fit_scores(
    features: Float, truth: NDArray[np.bool_], new: Float, config: dict[str, Any]
) -> Float:
    """Log-odds of every label for new samples, from models of the given ones."""
    positives = truth.sum(axis=0)
    prevalence = (positives + 0.5) / (len(truth) + 1.0)
    scores = np.tile(np.log(prevalence / (1.0 - prevalence)), (len(new), 1))
    prepare = make_pipeline(SimpleImputer(), StandardScaler()).fit(features)
    x, x_new = prepare.transform(features), prepare.transform(new)
    enough = np.flatnonzero(np.minimum(positives, len(truth) - positives) >= 5)
    enough = enough[positives[enough] >= config["least_positives"]]

    def one(k: int) -> Float:
        model = LogisticRegression(C=config["regularization"], max_iter=200)
        return np.asarray(model.fit(x, truth[:, k]).decision_function(x_new))

    fitted = Parallel(n_jobs=2)(delayed(one)(k) for k in enough.tolist())
    scores[:, enough] = np.array(fitted).T
    return scores


def cross_scores(features: Float, truth: NDArray[np.bool_], config: dict[str, Any]) -> Float:
    """Scores of each sample from models that have not seen it."""
    scores = np.empty(truth.shape)
    folds = KFold(config["folds"], shuffle=True, random_state=config["seed"])
    for fit, held in folds.split(features):
        scores[held] = fit_scores(features[fit], truth[fit], features[held], config)
    return scores


def compare(
    model: HierLPR, scores: Float, truth: NDArray[np.bool_], h: Hierarchy
) -> list[dict[str, Any]]:
    """Return AU(PRC) over all labels and without the three roots, and the edges violated."""
    lpr = model.transform(scores)
    chance = 1.0 / (1.0 + np.exp(-scores))
    inner = np.array([label not in h.roots for label in h.labels])
    methods = {
        "raw scores": chance,
        "max-propagation of scores": baselines.propagate_max(chance, h),
        "top-down on scores": baselines.propagate_min(chance, h),
        "HierLPR on scores": consistent_scores(chance, h),
        "LPR": lpr,
        "max-propagation of LPRs": baselines.propagate_max(lpr, h),
        "top-down on LPRs": baselines.propagate_min(lpr, h),
        "HierLPR": consistent_scores(lpr, h),
    }
    return [
        {
            "method": name,
            "au_prc": round(au_prc_score(truth, values), 4),
            "au_prc_without_roots": round(au_prc_score(truth[:, inner], values[:, inner]), 4),
            "violated_edges": len(h.violations(values)),
        }
        for name, values in methods.items()
    ]


def describe(lpr: Float, h: Hierarchy, truth: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Describe the ranking of the test genes."""
    rank(lpr[:2], h)  # compile
    start = time.process_time()
    r = rank(lpr, h, n_jobs=1)
    seconds = time.process_time() - start
    sizes = np.diff(np.append(np.flatnonzero(r.first), len(r)))
    hits = truth[r.sample, r.label]
    row = {
        "ms_per_sample": round(1e3 * seconds / len(lpr), 2),
        "blocks": r.certified.size,
        "largest_block": int(sizes.max()),
        "not_certified": int(np.count_nonzero(~r.certified)),
        "gap_share": f"{r.eauc_gap() / r.eauc():.2e}",
        "edges_broken": order_violations_error(r.sample, r.label, h),
        "precision_at_10000": round(float(hits[:10_000].mean()), 4),
    }
    return [row]


def cut(
    parts: dict[str, Any], truths: dict[str, Any], h: Hierarchy, config: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return cutoffs chosen on the validation genes and their precision on the test genes."""
    train, valid, test = (parts[p].features for p in ("train", "valid", "test"))
    model = HierLPR(h, joint=False).fit(
        cross_scores(train, truths["train"], config), truths["train"]
    )
    scores = fit_scores(train, truths["train"], np.vstack([valid, test]), config)
    on_valid, on_test = scores[: len(valid)], scores[len(valid) :]
    goals: list[dict[str, Any]] = [{"fdr": fdr} for fdr in config["fdr"]]
    rows = []
    for goal in [*goals, {"maximize": "f1"}]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.calibrate(on_valid, truths["valid"], **goal)
        calls = model.predict(on_test)
        hits = int(np.count_nonzero(calls & truths["test"]))
        rows.append(
            {
                "goal": "largest F1" if "fdr" not in goal else f"FDR {goal['fdr']}",
                "level": round(float(model.cutoff_.level), 4),
                "calls": int(calls.sum()),
                "precision_on_test": round(hits / max(1, int(calls.sum())), 4),
                "recall_on_test": round(hits / int(truths["test"].sum()), 4),
                "calls_without_a_parent": len(h.violations(calls)),
            }
        )
    return rows


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Write rows beside this script, and show them."""
    with open(HERE / name, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"\n{name}")
    for row in rows:
        print("  " + "  ".join(f"{key}={value}" for key, value in row.items()))


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, help="most frequent labels only; nothing is written")
    options = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    parts = read_parts()
    h = parts["train"].hierarchy
    truths = {part: h.close_upward(data.truth) for part, data in parts.items()}
    if options.labels:
        counts = truths["train"].sum(axis=0)
        # A parent is at least as frequent as its children, so ties by level keep the set closed.
        columns = np.lexsort((h.levels, -counts))[: options.labels]
        h = h.subset([h.labels[k] for k in columns])
        truths = {part: truth[:, columns] for part, truth in truths.items()}
    features = np.vstack([parts["train"].features, parts["valid"].features])
    truth = np.vstack([truths["train"], truths["valid"]])
    model = HierLPR(h, joint=False).fit(cross_scores(features, truth, config), truth)
    scores = fit_scores(features, truth, parts["test"].features, config)
    rows = compare(model, scores, truths["test"], h)
    published = [
        {"method": f"{name} (published)", "au_prc": value, "au_prc_without_roots": "",
         "violated_edges": ""}
        for name, value in config["published"].items()
    ]  # fmt: skip
    shape = describe(model.transform(scores), h, truths["test"])
    cutoffs = cut(parts, truths, h, config)
    if options.labels:
        for row in [*rows, *shape, *cutoffs]:
            print(row)
        return
    write("comparison.csv", [*rows, *published])
    write("ranking.csv", shape)
    write("cutoffs.csv", cutoffs)


if __name__ == "__main__":
    main()
