"""Compare the joint posterior with LPRs, HierLPR, ClusHMC and the true posterior in simulations.

Four studies; results go to CSV files beside this script.

    python experiments/joint/run.py                               # all, about an hour
    python experiments/joint/run.py settings --replications 4 --out OUT
    python experiments/joint/run.py dag

``settings`` adds missing runs to ``runs.csv`` and summarizes them in ``settings.csv``: normalized
hit area and pooled precision for recall up to 0.5 of each method in the paper's settings, and how
far the joint posterior is ahead, with the standard error of the paired difference.
``dag``: the posterior on random DAGs, exact and with one parent per label, against enumeration.
``guarantee``: how often a certified false discovery rate is exceeded on new samples.
``faulty``: samples whose scores are all too high, so that labels of a sample are not independent.
"""

from __future__ import annotations

import argparse
import csv
import tomllib
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr import Hierarchy, HierLPR, metrics, rank, simulate
from hierlpr.baselines import ClusHMC, lpr_alone
from hierlpr.exceptions import HierlprWarning
from hierlpr.joint import LabelPrior, posteriors
from hierlpr.joint.posterior import forest_posteriors

HERE = Path(__file__).parent
METHODS = ("LPR", "HierLPR", "joint", "joint auto", "ClusHMC", "oracle")
MEASURES = ("hit_area", "early_precision")


def measure(truth: np.ndarray, ranking: Any) -> tuple[float, float]:
    """Return the normalized hit area and the precision for recall up to 0.5 of one ranking."""
    called = truth[ranking.sample, ranking.label]
    return (
        float(metrics.normalized_hit_area_score(called)),
        float(metrics.early_precision_score(called, max_recall=0.5)),
    )


def rank_by(method: str, train: Any, test: Any, clus: dict[str, Any], seed: int) -> Any:
    """Rank the test samples by one method, fitted on the training samples."""
    h = train.hierarchy
    if method == "oracle":
        return rank(test.posterior_true, h)
    if method == "ClusHMC":
        trees = ClusHMC(**clus, random_state=seed).fit(train.scores, train.truth, h)
        return trees.rank(test.scores, h)
    joint: Any = {"joint": True, "joint auto": "auto"}.get(method, False)
    model = HierLPR(h, joint=joint).fit(train.scores, train.truth)
    if method == "LPR":
        return lpr_alone(model.transform(test.scores), h)
    return model.rank(test.scores)


def run_settings(config: dict[str, Any], out: Path, methods: list[str]) -> None:
    """Add missing runs to runs.csv, one row per replication and method; then summarize."""
    path = out / "runs.csv"
    done = read(path)
    for s, setting in enumerate(config["settings"]):
        clus = config["clus"].get(setting, config["clus"]["default"])
        for seed in range(config["replications"]):
            missing = [m for m in methods if (setting, str(seed), m) not in done]
            if not missing:
                continue
            train, test = simulate.train_test(
                setting,
                n_train=config["n_train"],
                n_test=config["n_test"],
                rng=np.random.default_rng([config["seed"], s, seed]),
            )
            for method in missing:
                ranking = rank_by(method, train, test, clus, seed)
                done[setting, str(seed), method] = measure(test.truth, ranking)
            write_runs(done, path)
    write(summary(done, config["settings"]), out / "settings.csv")


def summary(runs: dict[tuple[str, str, str], Any], settings: list[str]) -> list[dict[str, Any]]:
    """Return means, and how far `joint` is ahead, over the replications that have both."""
    rows = []
    for setting, method in product(settings, METHODS):
        seeds = sorted({k[1] for k in runs if k[0] == setting and k[2] == method}, key=int)
        seeds = [seed for seed in seeds if (setting, seed, "joint") in runs]
        if not seeds:
            continue
        values = np.array([runs[setting, seed, method] for seed in seeds])
        ahead = np.array([runs[setting, seed, "joint"] for seed in seeds]) - values
        errors = ahead.std(axis=0, ddof=1) / np.sqrt(len(seeds))
        for c, name in enumerate(MEASURES):
            rows.append(
                {
                    "setting": setting,
                    "method": method,
                    "measure": name,
                    "mean": f"{values[:, c].mean():.5f}",
                    "joint_ahead_by": f"{ahead[:, c].mean():.5f}",
                    "standard_error": f"{errors[c]:.5f}",
                    "replications": len(seeds),
                }
            )
    return rows


def read(path: Path) -> dict[tuple[str, str, str], Any]:
    """Return the results so far by setting, replication and method."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            (r["setting"], r["replication"], r["method"]): tuple(float(r[m]) for m in MEASURES)
            for r in csv.DictReader(file)
        }


def write_runs(runs: dict[tuple[str, str, str], Any], path: Path) -> None:
    """Write all results so far."""
    rows = [
        {"setting": s, "replication": r, "method": m}
        | {name: f"{v:.6f}" for name, v in zip(MEASURES, values, strict=True)}
        for (s, r, m), values in runs.items()
    ]
    write(rows, path)


def run_guarantee(config: dict[str, Any], out: Path) -> None:
    """Write guarantee.csv: how often a certified cutoff is below target (allowed: 1 in 10)."""
    options = config["guarantee"]
    rows = []
    for setting, joint in product(options["settings"], (False, True, "auto")):
        rates, recalls, unreachable = [], [], 0
        for seed in range(options["replications"]):
            rng = np.random.default_rng([config["seed"], 77, seed])
            model = simulate.setting_model(setting, rng=rng)
            fit, held = (model.draw(options["n_samples"], rng) for _ in range(2))
            test = model.draw(options["n_test"], rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HierlprWarning)  # targets out of reach are counted
                fitted = HierLPR(model.hierarchy, joint=joint).fit(fit.scores, fit.truth)
                fitted.calibrate(
                    held.scores,
                    held.truth,
                    fdr=options["fdr"],
                    confidence=options["confidence"],
                    unreachable="nothing",
                )
            unreachable += not fitted.cutoff_.reachable
            calls = fitted.predict(test.scores)
            rates.append(float((calls & ~test.truth).sum() / max(calls.sum(), 1)))
            recalls.append(float((calls & test.truth).sum() / max(test.truth.sum(), 1)))
        rows.append(
            {
                "setting": setting,
                "joint": joint,
                "share_above_target": f"{np.mean(np.array(rates) > options['fdr']):.3f}",
                "mean_fdr": f"{np.mean(rates):.4f}",
                "mean_recall": f"{np.mean(recalls):.4f}",
                "not_reachable": unreachable,
                "replications": len(rates),
            }
        )
        write(rows, out / "guarantee.csv")


# -- faulty samples --------------------------------------------------------------------------------


def draw_faulty(
    h: Hierarchy, n: int, case: dict[str, Any], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores, `separation` apart; those of a share of the samples are higher `by` a number.

    With ``by="saturated"`` scores are probabilities, and all of these samples are .999.
    """
    truth = np.zeros((n, h.n_labels), dtype=bool)
    for label in h.labels:  # parents first
        above = [truth[:, h.index(p)] for p in h.parents(label)]
        possible = above[0] if above else np.ones(n, dtype=bool)
        truth[:, h.index(label)] = possible & (rng.random(n) < (0.35 if above else 0.3))
    scores = case["separation"] * truth + rng.normal(size=truth.shape)
    faulty = rng.random(n) < case["share"]
    if case["by"] == "saturated":
        scores = 1.0 / (1.0 + np.exp(0.5 * case["separation"] + 1.0 - scores))
        scores[faulty] = 0.999
    else:
        scores[faulty] += case["by"]
    return scores, truth


def run_faulty(config: dict[str, Any], out: Path) -> None:
    """Write faulty.csv: AU(PRC) of joint="auto" minus AU(PRC) of the LPRs."""
    options, rows = config["faulty"], []
    roots = [f"{i}" for i in range(3)]
    two = [(p, f"{p}.{c}") for p in roots for c in range(options["children"])]
    three = [(p, f"{p}.{c}") for _, p in two for c in range(options["children"])]
    for edges, cases in product((two, two + three), options["cases"]):
        h = Hierarchy(edges, labels=roots)
        for values in product(*cases.values()):
            case, gains, used = dict(zip(cases, values, strict=True)), [], 0
            for seed in range(case["runs"]):
                rng = np.random.default_rng([config["seed"], 99, seed])
                fit, new = (draw_faulty(h, n, case, rng) for n in (case["n"], options["n_test"]))
                models = [HierLPR(h, joint=joint).fit(*fit) for joint in (False, "auto")]
                areas = [metrics.au_prc_score(new[1], m.predict_proba(new[0])) for m in models]
                gains.append(areas[1] - areas[0])
                used += models[1].joint_.is_used
            found = {
                "mean_gain": f"{np.mean(gains):.4f}",
                "standard_error": f"{np.std(gains, ddof=1) / np.sqrt(len(gains)):.4f}",
                "worst": f"{np.min(gains):.4f}",
                "used": used,
            }
            rows.append({"labels": h.n_labels, **case, **found})
            print(rows[-1], flush=True)
            write(rows, out / "faulty.csv")


# -- DAGs ------------------------------------------------------------------------------------------


def random_dag(rng: np.random.Generator, n: int, *, deep: bool) -> list[list[int]]:
    """Parents of each node; in a deep DAG they are among the three nodes before it."""
    parents: list[list[int]] = [[]]
    for i in range(1, n):
        pool = np.arange(max(0, i - 3), i) if deep else np.arange(i)
        k = min(len(pool), int(rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2])))
        parents.append(sorted(rng.choice(pool, k, replace=False).tolist()))
    return parents


def prior_mass(states: np.ndarray, parents: list[list[int]], on: np.ndarray) -> np.ndarray:
    """Probability of every set of labels."""
    mass = np.ones(len(states))
    for i, above in enumerate(parents):
        possible = states[:, above].all(axis=1)
        off = np.where(possible, 1.0 - on[i], 1.0)
        mass *= np.where(states[:, i], np.where(possible, on[i], 0.0), off)
    return mass


def run_dag(config: dict[str, Any], out: Path) -> None:
    """Write dag.csv: errors of the exact pass and of one parent per label, against enumeration."""
    options = config["dag"]
    n = options["labels"]
    states = np.array(list(product((False, True), repeat=n)))
    rows = []
    kinds = product((False, True), ((0.05, 0.4), (0.3, 0.95)), ((2.0, 4.0, 5.5), (4.0, 5.5)))
    for deep, shares, qualities in kinds:
        rng = np.random.default_rng([config["seed"], deep, len(qualities), int(100 * shares[0])])
        errors: dict[str, list[np.ndarray]] = {"own LPR": [], "one parent": [], "exact": []}
        excess: dict[str, list[float]] = {name: [] for name in errors}
        for _ in range(options["cases"]):
            parents = random_dag(rng, n, deep=deep)
            on = rng.uniform(*shares, n)
            mass = prior_mass(states, parents, on)
            prevalence = mass @ states
            truth = states[rng.choice(len(states), size=options["samples"], p=mass / mass.sum())]
            eta = rng.choice(qualities, n)
            scores = rng.beta(np.where(truth, 6.0, eta), np.where(truth, eta, 6.0))
            evidence = (6.0 - eta) * np.log(scores / (1.0 - scores))
            joint = mass * np.exp(evidence @ states.T)
            exact = joint @ states / joint.sum(axis=1, keepdims=True)
            names = [f"L{i:02}" for i in range(n)]
            edges = [(names[p], names[i]) for i in range(n) for p in parents[i]]
            h = Hierarchy(edges, labels=names)
            prior = LabelPrior(prevalence, on)
            lpr = 1.0 / (1.0 + np.exp(-(evidence + prior.log_odds)))
            found = {
                "own LPR": lpr,
                "one parent": forest_posteriors(lpr, prior, h),
                "exact": posteriors(lpr, prior, h),
            }
            for name, p in found.items():
                errors[name].append(np.abs(p - exact))
                excess[name].append(log_loss(exact, p) - log_loss(exact, exact))
        for name, values in errors.items():
            all_errors = np.array(values)
            rows.append(
                {
                    "shape": "deep" if deep else "wide",
                    "shares": f"{shares[0]}-{shares[1]}",
                    "qualities": "/".join(f"{q:g}" for q in qualities),
                    "posterior": name,
                    "mean_error": f"{all_errors.mean():.2e}",
                    "error_99_percent": f"{np.quantile(all_errors, 0.99):.2e}",
                    "largest_error": f"{all_errors.max():.2e}",
                    "excess_log_loss": f"{np.mean(excess[name]):.2e}",
                }
            )
        write(rows, out / "dag.csv")


def log_loss(expected: np.ndarray, p: np.ndarray) -> float:
    """Return the expected log-loss per sample of `p` if `expected` is the truth."""
    inside = np.clip(p, 1e-15, 1.0 - 1e-15)
    loss = expected * np.log(inside) + (1.0 - expected) * np.log1p(-inside)
    return float(-loss.sum(axis=1).mean())


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write one CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run the studies named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", help="settings, dag, guarantee, faulty; default: all")
    parser.add_argument("--replications", type=int, help="instead of the configured number")
    parser.add_argument("--method", action="append", choices=METHODS, help="only this one")
    parser.add_argument("--out", type=Path, default=HERE)
    arguments = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    chosen = arguments.studies or ["settings", "dag", "guarantee", "faulty"]
    if arguments.replications is not None:
        config["replications"] = arguments.replications
    arguments.out.mkdir(parents=True, exist_ok=True)
    if "settings" in chosen:
        run_settings(config, arguments.out, arguments.method or list(METHODS))
    if "dag" in chosen:
        run_dag(config, arguments.out)
    if "guarantee" in chosen:
        run_guarantee(config, arguments.out)
    if "faulty" in chosen:
        run_faulty(config, arguments.out)


if __name__ == "__main__":
    main()
