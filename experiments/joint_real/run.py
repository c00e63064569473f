"""Measure the gain of the joint posterior on real data.

First-stage scores come from one logistic regression per label: out-of-fold on the training samples,
on which LPRs and weights are learned, and from a fit on all of them for the test samples.

    python experiments/joint_real/run.py                    # all sets, an hour; needs HIERLPR_DATA
    python experiments/joint_real/run.py eisen_FUN --cache data/scores

Writes ``results.csv`` beside this script: AU(PRC) of the block scores and log-loss per sample on
the test samples, without the joint posterior, with the exact one, and with ``"auto"``.
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
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from hierlpr import Hierarchy, HierLPR, metrics

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from clus_arff import read_arff  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE / "../../../shared/data"))


class Scored(NamedTuple):
    """First-stage scores and truth of training and test samples."""

    scores: np.ndarray
    truth: np.ndarray
    test_scores: np.ndarray
    test_truth: np.ndarray
    hierarchy: Hierarchy


def standardized(train: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fill in means for missing features and scale both by the training samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # features that are missing throughout
        mean = np.nan_to_num(np.nanmean(train, axis=0))
    train, other = np.where(np.isnan(train), mean, train), np.where(np.isnan(other), mean, other)
    spread = train.std(axis=0)
    used = spread > 0
    centre = train.mean(axis=0)
    return tuple((x[:, used] - centre[used]) / spread[used] for x in (train, other))  # type: ignore[return-value]


def fit_and_score(x: np.ndarray, y: np.ndarray, new: np.ndarray, config: Any) -> np.ndarray:
    """Return the scores of new samples from one logistic regression per label."""
    x, new = standardized(x, new)
    scores = np.zeros((len(new), y.shape[1]))
    least = config["min_positives"]
    for k in np.flatnonzero((y.sum(axis=0) >= least) & ((~y).sum(axis=0) >= least)):
        model = LogisticRegression(C=config["regularization"], max_iter=200, tol=1e-3)
        scores[:, k] = model.fit(x, y[:, k]).decision_function(new)
    return scores


def from_arff(files: dict[str, Any], config: Any) -> Scored:
    """Out-of-fold scores of the training samples, and scores of the test samples."""
    parts = [read_arff(DATA / name) for name in files["train"]]
    test = read_arff(DATA / files["test"], hierarchy=parts[0].hierarchy)
    x = np.vstack([part.features for part in parts])
    y = np.vstack([part.truth for part in parts])
    scores = np.empty(y.shape)
    folds = KFold(config["folds"], shuffle=True, random_state=config["seed"])
    for kept, out in folds.split(x):
        scores[out] = fit_and_score(x[kept], y[kept], x[out], config)
    test_scores = fit_and_score(x, y, test.features, config)
    return Scored(scores, y, test_scores, test.truth, parts[0].hierarchy)


def from_scores(name: str) -> Scored:
    """Ready scores, half of the folds to learn from."""
    with np.load(DATA / name, allow_pickle=False) as z:
        labels = [str(label) for label in z["labels"]]
        edges = [(labels[p], labels[i]) for i, p in enumerate(z["parent"]) if p >= 0]
        h = Hierarchy(edges, labels=labels)
        scores, truth = z["S"].astype(float), h.close_upward(z["Y"])
        learn = np.isin(z["fold"], np.unique(z["fold"])[::2])
    return Scored(scores[learn], truth[learn], scores[~learn], truth[~learn], h)


def load(name: str, config: Any, cache: Path | None) -> Scored:
    """One set by its name, from the cache if it is there."""
    files = config["sets"][name]
    if "scores" in files:
        return from_scores(files["scores"])
    stored = None if cache is None else cache / f"{name}.npz"
    if stored is not None and stored.exists():
        h = read_arff(DATA / files["train"][0]).hierarchy
        with np.load(stored) as z:
            return Scored(z["scores"], z["truth"], z["test_scores"], z["test_truth"], h)
    scored = from_arff(files, config)
    if stored is not None:
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.savez(stored, **{k: v for k, v in scored._asdict().items() if k != "hierarchy"})
    return scored


def log_loss(p: np.ndarray, truth: np.ndarray) -> float:
    """Return the log-loss per sample, summed over the labels."""
    inside = np.clip(p, 1e-12, 1.0 - 1e-12)
    return float(-np.where(truth, np.log(inside), np.log1p(-inside)).sum(axis=1).mean())


def compare(name: str, data: Scored) -> list[dict[str, Any]]:
    """One row for each way to use the joint posterior."""
    rows = []
    for joint in (False, True, "auto"):
        start = time.process_time()
        model = HierLPR(data.hierarchy, joint=joint).fit(data.scores, data.truth)
        seconds = time.process_time() - start
        scores = model.predict_proba(data.test_scores)
        weights = None if model.joint_ is None else model.joint_.tempering
        rows.append(
            {
                "set": name,
                "joint": joint,
                "au_prc": f"{metrics.au_prc_score(data.test_truth, scores):.4f}",
                "log_loss": f"{log_loss(model.transform(data.test_scores), data.test_truth):.3f}",
                "use": "none" if weights is None else weights.use,
                "mean_weight_of_others": "0" if weights is None else f"{weights.others.mean():.2f}",
                "violations": len(data.hierarchy.violations(scores)),
                "fit_seconds": f"{seconds:.1f}",
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run the sets named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="names from config.toml; all if none is named")
    parser.add_argument("--cache", type=Path, help="folder for first-stage scores")
    parser.add_argument("--out", type=Path, default=HERE / "results.csv")
    arguments = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    if not DATA.is_dir():
        raise SystemExit(f"The real data are not at {DATA}: set HIERLPR_DATA.")
    rows: list[dict[str, Any]] = []
    for name in arguments.sets or list(config["sets"]):
        rows += compare(name, load(name, config, arguments.cache))
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
