"""Compare rankings of real data: one model per label, ranked by every method.

Each set is ranked by raw scores, max-propagation, top-down, LPR alone and HierLPR, from logistic
models and from forests, and by ClusHMC, which learns all labels from the features in one model. The
results go to results.csv beside this script.

    python experiments/real/run.py                           # every set, about an hour of CPU
    python experiments/real/run.py cellcycle_FUN --models logistic clus

The data are looked for in HIERLPR_DATA, or in ../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr import Hierarchy, metrics, rank
from hierlpr.baselines import ClusHMC, lpr_alone, max_propagation, raw_scores, top_down
from hierlpr.lpr import fit_lpr

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[1] / ".." / "shared" / "data"))
MODELS = ("logistic", "forest", "clus")
PUBLISHED = ("CLUS-HMC", "CLUS-ENS", "C-HMCNN")


@dataclass(frozen=True)
class Data:
    """Features without gaps, and truth, of a training and a test part."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    hierarchy: Hierarchy


def load(files: dict[str, Any]) -> Data:
    """Read a set; gaps become the mean of the training part."""
    first = read_arff(DATA / files["train"][0])
    h = first.hierarchy
    parts = [first, *(read_arff(DATA / name, hierarchy=h) for name in files["train"][1:])]
    test = read_arff(DATA / files["test"], hierarchy=h)
    train_x = np.vstack([part.features for part in parts])
    test_x = test.features
    mean = np.nan_to_num(np.nanmean(train_x, axis=0))
    train_x, test_x = (np.where(np.isnan(x), mean, x) for x in (train_x, test_x))
    return Data(train_x, np.vstack([p.truth for p in parts]), test_x, test.truth, h)


def logistic_scores(data: Data, config: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Out-of-fold scores of the training part, and scores of the test part."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler().fit(data.train_x)
    x, new = scale.transform(data.train_x), scale.transform(data.test_x)
    rng = np.random.default_rng(config["seed"])
    fold = rng.permutation(len(x)) % config["folds"]

    def fitted(rows: np.ndarray, k: int, others: np.ndarray) -> np.ndarray:
        status = data.train_y[rows, k]
        if status.all() or not status.any():
            return np.full(len(others), status.mean())
        # Strong shrinkage: there are hundreds of features and often a handful of positives.
        model = LogisticRegression(C=0.01, max_iter=200).fit(x[rows], status)
        return model.predict_proba(others)[:, 1]

    held_out, tested = np.zeros(data.train_y.shape), np.zeros(data.test_y.shape)
    for k in range(data.hierarchy.n_labels):
        for f in range(config["folds"]):
            held_out[fold == f, k] = fitted(np.flatnonzero(fold != f), k, x[fold == f])
        tested[:, k] = fitted(np.arange(len(x)), k, new)
    return held_out, tested


def forest_scores(data: Data, config: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Out-of-bag scores of the training part, and scores of the test part."""
    from sklearn.ensemble import ExtraTreesClassifier

    held_out, tested = np.zeros(data.train_y.shape), np.zeros(data.test_y.shape)
    for k in range(data.hierarchy.n_labels):
        status = data.train_y[:, k]
        if status.all() or not status.any():
            held_out[:, k] = tested[:, k] = status.mean()
            continue
        model = ExtraTreesClassifier(
            config["forest_trees"], min_samples_leaf=config["forest_leaf"], bootstrap=True,
            oob_score=True, random_state=config["seed"],
        )  # fmt: skip
        with warnings.catch_warnings():  # a sample in every bag has no out-of-bag score
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            model.fit(data.train_x, status)
        outside = model.oob_decision_function_[:, 1]
        held_out[:, k] = np.where(np.isfinite(outside), outside, status.mean())
        tested[:, k] = model.predict_proba(data.test_x)[:, 1]
    return held_out, tested


def measure(order: Any, truth: np.ndarray, h: Hierarchy) -> dict[str, Any]:
    """Return the measures of one ranking; instances with equal scores are one group."""
    called = truth[order.sample, order.label]
    return {
        "au_prc": metrics.au_prc_score(called, order.score),
        "f_max": metrics.f_max_score(called, order.score),
        "hit_area": metrics.normalized_hit_area_score(called, order.score),
        "early_precision": metrics.early_precision_score(called, order.score),
        "violations": metrics.order_violations_error(order.sample, order.label, h),
    }


def run_set(name: str, config: dict[str, Any], models: list[str]) -> list[dict[str, Any]]:
    """All methods on one set."""
    data = load(config["sets"][name])
    h, rows = data.hierarchy, []

    def add(model: str, method: str, order: Any, seconds: float) -> None:
        row = {"set": name, "model": model, "method": method, **measure(order, data.test_y, h)}
        rows.append({**row, "seconds": seconds})
        print(f"{name:14} {model:9} {method:16} AU(PRC) {row['au_prc']:.4f}", flush=True)

    for model, make in (("logistic", logistic_scores), ("forest", forest_scores)):
        if model not in models:
            continue
        start = time.process_time()
        held_out, tested = make(data, config)
        first_stage = time.process_time() - start
        for method in (raw_scores, max_propagation, top_down):
            start = time.process_time()
            order = method(tested, h)
            add(model, method.__name__, order, time.process_time() - start)
        start = time.process_time()
        lpr = fit_lpr(held_out, data.train_y).predict(tested)
        fitting = time.process_time() - start
        for label, method in (("LPR", lpr_alone), ("HierLPR", rank)):
            start = time.process_time()
            order = method(lpr, h)
            add(model, label, order, fitting + time.process_time() - start)
        rows[-1]["first_stage_seconds"] = first_stage
    if "clus" in models:
        start = time.process_time()
        clus = ClusHMC(
            n_trees=config["clus_trees"], weights=config["clus_weights"], stopping=None,
            n_jobs=2, random_state=config["seed"],
        ).fit(data.train_x, data.train_y, h)  # fmt: skip
        add("-", "ClusHMC", clus.rank(data.test_x, h), time.process_time() - start)
    return rows


def published() -> dict[str, dict[str, str]]:
    """AU(PRC) of other systems, by set."""
    with (DATA / "published_auprc.csv").open() as file:
        return {row["dataset"]: row for row in csv.DictReader(file)}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the rows of the sets and models run now, keep the others."""
    done = {(row["set"], row["model"]) for row in rows}
    if path.exists():
        with path.open() as file:
            rows = [r for r in csv.DictReader(file) if (r["set"], r["model"]) not in done] + rows
    columns = ["set", "model", "method", "au_prc", "f_max", "hit_area", "early_precision",
               "violations", "seconds", "first_stage_seconds", *PUBLISHED]  # fmt: skip
    others = published()
    for row in rows:
        row.update({name: others.get(row["set"], {}).get(name, "") for name in PUBLISHED})
    rows.sort(key=lambda row: (row["set"], row["model"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})


def main() -> None:
    """Run the named sets and models."""
    config = tomllib.loads((HERE / "config.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=[*config["sets"], []], default=[])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--out", type=Path, default=HERE / "results.csv")
    args = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"The data are not at {DATA}; set HIERLPR_DATA.")
    for name in args.sets or config["sets"]:
        write(args.out, run_set(name, config, args.models))


if __name__ == "__main__":
    main()
