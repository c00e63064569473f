"""Test promises for new patients, where several samples come from each.

Count the runs in which a certified target is missed on new clusters, with `clusters=`, without, and
with one random row per cluster, and compare the recall (features.csv, scores.csv); the same for the
best of several certified models (models.csv).

    python experiments/clusters/run.py [features|scores|models ...] [--runs N] [--out FOLDER]
"""

import argparse
import csv
import math
import os
import tomllib
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from hierlpr import HierarchicalClassifier, Hierarchy, HierLPR, HierlprWarning, certify

HERE = Path(__file__).resolve().parent
EDGES = [("A", "A1"), ("A", "A2"), ("B", "B1"), ("B", "B2")]
TREES = Hierarchy(EDGES)
PARENT = [0, 0, 0, 3, 3, 3]  # of the columns A A1 A2 B B1 B2; a root is its own


def read_config() -> dict:
    """Return the sizes and seeds of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def close(truth: np.ndarray) -> np.ndarray:
    """Return truth in which a child is only true where its parent is."""
    return truth & truth[:, PARENT]


def summary(results: list[tuple[float, float]], config: dict, target: float) -> dict:
    """Count the runs below the target among pairs of precision (NaN: no calls) and recall."""
    runs, delta = len(results), 1.0 - config["confidence"]
    precision, recall = np.array(results).T
    below = int(np.count_nonzero(precision < target))
    return {
        "runs": runs,
        "below": below,
        "rate": round(below / runs, 4),
        "limit": round(delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs), 4),
        "recall": round(float(recall.mean()), 4),
    }


def measured(calls: np.ndarray, truth: np.ndarray, weight: np.ndarray | float = 1.0) -> tuple:
    """Return precision and recall of calls, with weights of the samples."""
    weight = np.broadcast_to(np.asarray(weight), len(calls))[:, None]
    hits, n_calls = (weight * (calls & truth)).sum(), (weight * calls).sum()
    return (hits / n_calls if n_calls else math.nan), hits / (weight * truth).sum()


# -- a classifier on features ---------------------------------------------------------------------


def visits(rng: np.random.Generator, n_patients: int, rows: int, noise: float) -> tuple:
    """Draw features, truth and patients: all visits of a patient share truth and features."""
    direction = np.random.default_rng(7).normal(size=(10, 6)) / math.sqrt(10)
    x = rng.normal(size=(n_patients, 10))
    truth = close(x @ direction + 0.5 * rng.normal(size=(n_patients, 6)) > 0.2)
    patient = np.repeat(np.arange(n_patients), rows)
    return x[patient] + noise * rng.normal(size=(patient.size, 10)), truth[patient], patient


def estimator(name: str, seed: int) -> object:
    """Return the classifier of a cell."""
    if name == "logistic":
        return LogisticRegression()
    return ExtraTreesClassifier(100, random_state=seed) if name == "extra-trees" else "auto"


def study_features(config: dict, runs: int | None) -> list[dict]:
    """Return one row per classifier, number of visits and way to treat them."""
    part, table = config["features"], []
    for name, n_runs in part["runs"].items():
        for rows in part["rows"]:
            results: dict[str, list] = {"clusters": [], "rows": []}
            for run in range(runs or n_runs):
                rng = np.random.default_rng([config["seed"], rows, run])
                x, truth, patient = visits(rng, part["patients"], rows, part["noise"])
                new, new_truth, _ = visits(rng, part["new_patients"], 1, part["noise"])
                for way, ids in (("clusters", patient), ("rows", None)):
                    model = HierarchicalClassifier(
                        estimator(name, run), TREES, precision=part["precision"],
                        confidence=config["confidence"], random_state=run,
                    )  # fmt: skip
                    model.fit(x, truth, clusters=ids)
                    results[way].append(measured(model.predict(new), new_truth))
            for way, pairs in results.items():
                row = {"classifier": name, "rows": rows, "way": way}
                table.append(row | summary(pairs, config, part["precision"]))
                print(table[-1], flush=True)
    return table


# -- scores with shared errors --------------------------------------------------------------------


def scored(rng: np.random.Generator, n_patients: int, rows: int, shared: float) -> tuple:
    """Draw scores, truth and patients, who have 1 to 2 `rows` - 1 samples each."""
    patient = np.repeat(np.arange(n_patients), rng.integers(1, 2 * rows, n_patients))
    truth = close(rng.random((n_patients, 6)) < [0.5, 0.5, 0.3, 0.4, 0.5, 0.3])[patient]
    common = rng.normal(size=(n_patients, 6))[patient]
    noise = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.normal(size=truth.shape)
    return expit(2.2 * truth + noise - 1.1), truth, patient


def one_row(rng: np.random.Generator, patient: np.ndarray) -> np.ndarray:
    """Return one random row of each patient."""
    shuffled = rng.permutation(patient.size)
    return shuffled[np.unique(patient[shuffled], return_index=True)[1]]


def study_scores(config: dict, runs: int | None) -> list[dict]:
    """Return one row per promise, number of patients, samples of each, and way to treat them."""
    part, table = config["scores"], []
    for rows in part["rows"]:
        rng = np.random.default_rng([config["seed"], 1, rows])
        new, new_truth, new_patient = scored(rng, part["new_patients"], rows, part["shared"])
        weight = 1.0 / np.bincount(new_patient)[new_patient]
        for n_patients in part["patients"]:
            results: dict[tuple[str, str], list] = {}
            for run in range(runs or part["runs"]):
                rng = np.random.default_rng([config["seed"], 2, rows, n_patients, run])
                x, truth, patient = scored(rng, part["fit_patients"], rows, part["shared"])
                model = HierLPR(TREES, joint=False).fit(x, truth, clusters=patient)
                x, truth, patient = scored(rng, n_patients, rows, part["shared"])
                chosen = one_row(rng, patient)
                ways = {
                    "clusters": (x, truth, patient),
                    "one row": (x[chosen], truth[chosen], None),
                    "rows": (x, truth, None),
                }
                for way, (scores, known, ids) in ways.items():
                    model.calibrate(
                        scores, known, precision=part["precision"],
                        confidence=config["confidence"], clusters=ids,
                    )  # fmt: skip
                    pair = measured(model.predict(new), new_truth, weight)
                    results.setdefault(("precision", way), []).append(pair)
                    model.calibrate_sets(
                        scores, known, error=part["error"],
                        confidence=config["confidence"], clusters=ids,
                    )  # fmt: skip
                    sure = model.predict_sets(new).sure
                    correct = ~(sure & ~new_truth).any(axis=1)
                    share = float((weight * correct).sum() / weight.sum())
                    found = measured(sure, new_truth, weight)[1]
                    results.setdefault(("sets", way), []).append((share, found))
            for (promise, way), pairs in results.items():
                row = {"promise": promise, "patients": n_patients, "rows": rows, "way": way}
                table.append(row | summary(pairs, config, 0.9))
                print(table[-1], flush=True)
    return table


# -- the best of several models -------------------------------------------------------------------


def study_models(config: dict, runs: int | None) -> list[dict]:
    """Return how often the best of several models misses its target, by the way it is chosen."""
    part, results = config["models"], {"certify": [], "each alone, best kept": []}
    for run in range(runs or part["runs"]):
        rng = np.random.default_rng([config["seed"], 3, run])
        fits = [scored(rng, 300, 1, 0.0)[:2] for _ in range(part["n_models"])]
        models = [HierLPR(TREES, joint=False).fit(*data) for data in fits]
        x, truth, _ = scored(rng, part["samples"], 1, 0.0)
        new, new_truth, _ = scored(rng, 20000, 1, 0.0)
        goal = {"precision": part["precision"], "confidence": config["confidence"]}
        alone = [model.calibrate(x, truth, **goal) for model in models]
        best = max(alone, key=lambda m: m.cutoff_.recall or 0.0)
        results["each alone, best kept"].append(measured(best.predict(new), new_truth))
        best = certify(models, x, truth, **goal)
        results["certify"].append(measured(best.predict(new), new_truth))
    table = [{"way": k} | summary(v, config, part["precision"]) for k, v in results.items()]
    print(table, flush=True)
    return table


STUDIES = {"features": study_features, "scores": study_scores, "models": study_models}


def main() -> None:
    """Run the studies named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore", HierlprWarning)
    for name in options.studies or STUDIES:
        table = STUDIES[name](read_config(), options.runs)
        with open(options.out / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, table[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
