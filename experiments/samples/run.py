"""Measure what each promise gives, by number of labelled samples and how they are split.

    python experiments/samples/run.py [--runs N] [--taxa DATA/taxa]

Each run draws labelled samples of the simulated diseases (110 labels, 6 levels), fits on some of
them and calibrates on the others: pooled precision, precision at every depth, and sure and possible
labels, each with and without a confidence where there is a choice. ``split`` is the share kept for
calibration: a third, or the default of `fit_calibrate`. Recall and the sizes of sets are measured
on other samples. ``one label`` has normal scores, and beside it exact binomial tests of raw
thresholds on all samples, which know that larger scores are better. ``one name`` is the share of
new ITS sequences that `hierlpr assign` names at the genus (``taxa/new.py``); it needs ``--taxa``.
"""

import argparse
import csv
import gzip
import sys
import tomllib
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.stats import binom

from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.cutoff.split import calibration_share
from hierlpr.exceptions import HierlprWarning

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "taxa"))
from new import run_once  # noqa: E402

COLUMNS = ["promise", "split", "labelled", "runs", "certified", "found", "error", "found_se"]
Row = tuple[float, float, float]  # certified, share of true labels found, wrong calls or samples


def read_config() -> dict:
    """Return the settings of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def found_and_wrong(calls: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the share of true labels that are called, and of calls that are wrong."""
    correct = (calls & truth).sum()
    return correct / truth.sum(), 1.0 - correct / calls.sum() if calls.any() else 0.0


def diseases(n_labelled: int, share: float | None, config: dict, seed: int) -> dict[str, Row]:
    """Return the row of every promise for one draw of simulated diseases."""
    rng = np.random.default_rng(seed)
    data = simulate.disease(n_samples=n_labelled + config["new"], rng=rng)
    order = rng.permutation(data.n_samples)
    new, truth = data.scores[order[n_labelled:]], data.truth[order[n_labelled:]]
    rows = {}

    def split(promise: str) -> tuple[HierLPR, tuple[np.ndarray, np.ndarray]]:
        n_kept = round((share or calibration_share(n_labelled, promise=promise)) * n_labelled)
        kept, fitted = np.split(order[:n_labelled], [n_kept])
        model = HierLPR(data.hierarchy).fit(data.scores[fitted], data.truth[fitted])
        return model, (data.scores[kept], data.truth[kept])

    goal = {"precision": config["precision"], "confidence": config["confidence"]}
    model, kept = split("calls")
    model.calibrate(*kept, **goal)
    called = found_and_wrong(model.predict(new), truth)
    rows["pooled precision"] = (float(model.cutoff_.reachable), *called)
    model.calibrate(*kept, groups="depth", **goal)
    certified = float(np.mean(model.cutoff_.to_frame()["certified"]))
    rows["precision at every depth"] = (certified, *found_and_wrong(model.predict(new), truth))
    model.calibrate(*kept, maximize="f1")
    rows["largest F (no promise)"] = (1.0, *found_and_wrong(model.predict(new), truth))
    model, kept = split("sets")
    for name, confidence in (("average", None), ("confidence", config["confidence"])):
        model.calibrate_sets(*kept, error=config["error"], confidence=confidence)
        sure = model.predict_sets(new).sure
        wrong = (sure & ~truth).any(axis=1).mean()
        rows[f"sure labels, {name}"] = (
            float(sure.any()),
            (sure & truth).sum() / truth.sum(),
            wrong,
        )
    return rows


def one_label(n_labelled: int, share: float | None, config: dict, seed: int) -> dict[str, Row]:
    """Return the rows of one label without a hierarchy, and of exact tests of raw thresholds."""
    rng, options = np.random.default_rng(seed), config["one_label"]
    truth = rng.random((n_labelled + options["new"], 1)) < options["prevalence"]
    scores = options["separation"] * truth + rng.normal(size=truth.shape)
    new = (scores[n_labelled:], truth[n_labelled:])
    scores, truth = scores[:n_labelled], truth[:n_labelled]
    goal = {"precision": config["precision"], "confidence": config["confidence"]}
    model = HierLPR(Hierarchy(labels=["x"]))
    model.fit_calibrate(scores, truth, calibration_share=share, random_state=seed, **goal)
    rows = {
        "one label": (
            float(model.cutoff_.reachable),
            *found_and_wrong(model.predict(new[0]), new[1]),
        )
    }
    # The numbers of calls are tested in a sequence that starts with a number whose test can pass;
    # the first that fails ends it.
    sorted_truth = truth[np.argsort(-scores[:, 0], kind="stable"), 0]
    n_calls, threshold = 0, np.inf
    for n in range(round(options["first_calls"] * n_labelled), n_labelled):
        n_wrong = int(np.sum(~sorted_truth[:n]))
        if binom.cdf(n_wrong, n, 1.0 - config["precision"]) > 1.0 - config["confidence"]:
            break
        n_calls, threshold = n, np.sort(-scores[:, 0])[n - 1]
    rows["one label, exact tests of raw thresholds"] = (
        float(n_calls > 0),
        *found_and_wrong(-new[0] <= threshold if n_calls else np.zeros_like(new[1]), new[1]),
    )
    return rows


def study(config: dict, taxa: Path | None) -> list[dict]:
    """Return one row per promise, split and number of labelled samples, means over the runs."""
    found = defaultdict(list)
    for n in config["labelled"]:
        for seed in (config["seed"] + 1000 * n + run for run in range(config["runs"])):
            for split, share in (("a third", 1 / 3), ("default", None)):
                for promise, row in diseases(n, share, config, seed).items():
                    found[promise, split, n].append(row)
        for seed in range(config["one_label"]["runs"]):
            for split, share in (("a third", 1 / 3), ("default", None)):
                for promise, row in one_label(n, share, config, seed).items():
                    found[promise, split, n].append(row)
    if taxa is not None:
        with gzip.open(taxa / "its.tsv.gz", "rt", encoding="utf-8") as packed:
            lines = packed.readlines()
        options = {"new": config["new"], "new_error": config["error"]}
        for n in config["labelled"]:
            for run in range(config["runs"]):
                named, _, wrong, *_ = run_once(lines, n, options, config["seed"] + run)
                found["one name (ITS)", "default", n].append((1.0, named, wrong))
    rows = []
    for key, each in sorted(found.items()):
        error = np.std(each, axis=0, ddof=1)[1] / np.sqrt(len(each))
        values = [*key, len(each), *np.mean(each, axis=0).round(4), error.round(4)]
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def main() -> None:
    """Run the study and write its summary."""
    config = read_config()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=config["runs"])
    parser.add_argument("--taxa", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "summary.csv")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", HierlprWarning)
    config["runs"] = arguments.runs
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(study(config, arguments.taxa))


if __name__ == "__main__":
    main()
