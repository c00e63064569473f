"""How often a sample's sure or possible labels break their promise, and how many there are.

Simulated populations are drawn once, large; calibration samples and new samples are drawn from
them again and again, so that the error rate of a rule over the population is known. Then, at equal
promised error, the sure labels of hierlpr are counted beside two rules that call one path a sample,
on X-ray images (imclef07a) and on a simulated taxonomy.

    python experiments/sets/run.py [--replications N] [--only NAME ...]
"""

import argparse
import csv
import os
import sys
import tomllib
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from hierlpr import Hierarchy, HierLPR, consistent_scores, simulate
from hierlpr.cutoff.sets import SetValues, choose_sets, many_label_values, one_path_values
from hierlpr.io import read_arff
from hierlpr.joint import end_posterior

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from selective import climb_values, descent_values  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[2] / "shared" / "data"))


def read_config() -> dict:
    """Return the settings of the study."""
    return tomllib.loads((HERE / "config.toml").read_text())


def population(name: str, n: int, rng: np.random.Generator) -> tuple:
    """Return the hierarchy, block scores and truth of `n` samples of a population."""
    if name == "few":
        h = Hierarchy([("A", "B")])
        score = np.array([[0.9, 0.9], [0.9, 0.9], [0.6, 0.2], [0.3, 0.1]])
        truth = np.array([[1, 1], [0, 0], [1, 0], [0, 0]], dtype=bool)
        kind = rng.choice(4, size=n, p=[0.5, 0.06, 0.24, 0.2])
        return h, score[kind], truth[kind]
    if name == "dependent":
        h = simulate.random_forest(15, rng=rng)
        level = np.sort(rng.random((n, 15)), axis=1)[:, ::-1]
        score = np.empty_like(level)
        score[:, h.order] = level
        truth = np.repeat(rng.random((n, 1)) < level.mean(axis=1, keepdims=True), 15, axis=1)
        return h, score, truth
    h = simulate.random_dag(20, rng=rng) if name == "dag" else simulate.random_tree(25, rng=rng)
    drawn = simulate.random_model(h, rng=rng).draw(n + 1500, rng=rng)
    scores = drawn.scores.copy()
    if name == "wrong":
        scores[:, ::2] = rng.random(scores[:, ::2].shape)
    if name == "discrete":
        scores = np.rint(scores * 4) / 4
    model = HierLPR(h, joint=False).fit(scores[:1500], drawn.truth[:1500])
    return h, model.predict_proba(scores[1500:]), drawn.truth[1500:]


def error_rates(name: str, config: dict, replications: int) -> list[dict]:
    """Error rates of the rules learned from calibration samples of one population."""
    rng = np.random.default_rng([config["seed"], sorted(config["populations"]).index(name)])
    h, score, truth = population(name, config["pool_samples"], rng)
    parts = list(many_label_values(score, h))
    sure = np.concatenate([part.sure for part in parts])
    possible = np.concatenate([part.possible for part in parts])
    worst = np.where(truth, -1.0, sure).max(axis=1)
    least = np.where(truth, possible, 2.0).min(axis=1)
    rows = []
    for n in config["calibration_samples"]:
        for confidence in (None, config["confidence"]):
            errors, sizes = np.empty((replications, 2)), np.empty((replications, 2))
            for r in range(replications):
                part = rng.integers(len(score), size=n)
                rule = choose_sets(
                    lambda part=part: [SetValues(sure[part], possible[part])], truth[part],
                    error=config["error"], confidence=confidence,
                )  # fmt: skip
                errors[r] = (
                    0.0 if rule.sure_level is None else (worst > rule.sure_level).mean(),
                    0.0 if rule.possible_level is None else (least < rule.possible_level).mean(),
                )
                sizes[r] = rule.sure_size, rule.possible_size
            rows.append(row_of(name, n, confidence, errors, sizes, config["error"]))
            print(rows[-1], flush=True)
    return rows


def row_of(name, n, confidence, errors, sizes, error) -> dict:
    """One line of the table: what is promised is the mean error, or how often it exceeds."""
    promised = errors if confidence is None else (errors > error + 1e-12)
    limit = error if confidence is None else 1.0 - confidence
    spread = promised.std(axis=0, ddof=1) / np.sqrt(len(errors))
    values = {
        "population": name, "samples": n, "confidence": confidence or "",
        "sure_error": errors[:, 0].mean(), "possible_error": errors[:, 1].mean(),
        "sure_short": promised[:, 0].mean(), "possible_short": promised[:, 1].mean(),
        "limit": limit, "sure_se": spread[0], "possible_se": spread[1],
        "sure_size": sizes[:, 0].mean(), "possible_size": sizes[:, 1].mean(),
    }  # fmt: skip
    return {k: f"{v:.4f}" if isinstance(v, float | np.floating) else v for k, v in values.items()}


def taxonomy(rng: np.random.Generator, n: int) -> tuple:
    """One path a sample: a random tree with noisy evidence for every label on the path."""
    h = simulate.random_tree(60, rng=rng)
    leaf = rng.choice([h.index(x) for x in h.leaves], size=n)
    truth = np.zeros((n, 60), dtype=bool)
    truth[np.arange(n), leaf] = True
    truth = np.asarray(h.close_upward(truth))
    return h, truth + rng.normal(scale=0.45, size=truth.shape), truth


def xray(config: dict) -> tuple:
    """Out-of-bag scores of one forest for all labels of imclef07a."""
    from sklearn.ensemble import RandomForestClassifier

    data = read_arff(DATA / "imclef07a" / "ImCLEF07A_Train.arff.gz")
    forest = RandomForestClassifier(
        config["trees"], oob_score=True, bootstrap=True, min_samples_leaf=2, random_state=0,
        n_jobs=2, max_features=0.2,
    ).fit(data.features, data.truth)  # fmt: skip
    outside = np.asarray(forest.oob_decision_function_)
    return data.hierarchy, outside[:, 1] if outside.ndim == 3 else outside, data.truth


def weighed_ends(lpr, prevalence, h: Hierarchy, fit_lpr, fit_truth) -> np.ndarray:
    """Where a path ends, with a weight for the evidence of each depth, learned on samples to fit.

    The weights have the least log-loss of the true ends; 1 for all is `end_posterior`.
    """
    depth = np.array([len(h.ancestors(label)) for label in h.labels])
    above = np.asarray(h.close_upward(np.eye(h.n_labels, dtype=bool)))
    share = np.array(prevalence)
    for parent, child in h.edges:
        share[h.index(parent)] -= prevalence[h.index(child)]
    ends = np.flatnonzero(share > 1e-6)
    log_share = np.log(share[ends])

    def evidence(values: np.ndarray) -> np.ndarray:
        known, rate = (np.clip(x, 2.0**-30, 1.0 - 2.0**-30) for x in (values, prevalence))
        log = np.log(known / (1.0 - known)) - np.log(rate / (1.0 - rate))
        by_depth = [above[ends] & (depth == d) for d in range(depth.max() + 1)]
        return np.stack([log @ on_path.T.astype(float) for on_path in by_depth], axis=2)

    def posterior(given: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return softmax(given @ weight + log_share, axis=1)

    deepest = np.where(fit_truth, depth + 1, 0).argmax(axis=1)
    known = np.flatnonzero(np.isin(deepest, ends))
    place, given = np.searchsorted(ends, deepest[known]), evidence(fit_lpr[known])
    row = np.arange(known.size)

    def loss(weight: np.ndarray) -> tuple[float, np.ndarray]:
        found = posterior(given, weight)
        slope = np.einsum("ne,ned->nd", found, given) - given[row, place]
        return -np.log(np.maximum(found[row, place], 1e-300)).mean(), slope.mean(axis=0)

    weight = minimize(loss, np.ones(depth.max() + 1), jac=True, method="L-BFGS-B").x
    print("weights of depths", weight.round(2))
    out = np.zeros_like(lpr)
    out[:, ends] = posterior(evidence(lpr), weight)
    return out


def compare(name: str, h: Hierarchy, scores, truth, config: dict) -> list[dict]:
    """Mean number of sure labels at equal error, over random parts."""
    rng = np.random.default_rng(config["seed"])
    part = config["imclef07a"]
    found: dict[str, list] = {}
    order = rng.permutation(len(scores))
    fit, rest = order[: part["n_fit"]], order[part["n_fit"] :]
    model = HierLPR(h).fit(scores[fit], truth[fit])
    score = model.predict_proba(scores[rest])
    own = model.lpr_.predict(scores[rest])
    lpr = consistent_scores(own, h)
    (one,) = one_path_values(end_posterior(own, model.lpr_.report.base_rate, h), h)
    held = truth[rest]
    ends = weighed_ends(
        own, model.lpr_.report.base_rate, h, model.lpr_.predict(scores[fit]), truth[fit]
    )
    (learned,) = one_path_values(ends, h)
    values = {
        "hierlpr": np.concatenate([part.sure for part in many_label_values(score, h)]),
        "hierlpr, one path": one.sure,
        "one path, weights of depths": learned.sure,
        "climb": climb_values(lpr, h),
        "climb, own LPRs": climb_values(own, h),
        "climb, joint": climb_values(score, h),
        "top-down": descent_values(lpr, h),
        "top-down, joint": descent_values(score, h),
    }
    for _ in range(part["repeats"]):
        drawn = rng.permutation(len(rest))
        learn, new = drawn[: part["calibration"]], drawn[part["calibration"] :]
        for method, value in values.items():
            worst = np.where(held, -1.0, value).max(axis=1)
            place = int(np.ceil((1 - config["error"]) * (learn.size + 1)))
            level = np.sort(worst[learn])[place - 1]
            sure = value[new] > max(level, -1.0)
            found.setdefault(method, []).append(
                ((sure & ~held[new]).any(axis=1).mean(), sure.sum() / len(new))
            )
    return [
        {"data": name, "method": method, "error": f"{np.mean([e for e, _ in runs]):.4f}",
         "sure_labels": f"{np.mean([s for _, s in runs]):.3f}",
         "true_labels": f"{held.sum() / len(held):.3f}"}
        for method, runs in found.items()
    ]  # fmt: skip


def write(path: Path, rows: list[dict]) -> None:
    """Write a table."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run the parts asked for."""
    config = read_config()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=config["replications"])
    parser.add_argument("--only", nargs="+", choices=["errors", "sizes"])
    args = parser.parse_args()
    if args.only is None or "errors" in args.only:
        rows = [r for name in config["populations"]
                for r in error_rates(name, config, args.replications)]  # fmt: skip
        write(HERE / "errors.csv", rows)
    if args.only is None or "sizes" in args.only:
        rng = np.random.default_rng(config["seed"])
        rows = compare("taxonomy", *taxonomy(rng, 10000), config)
        if DATA.is_dir():
            rows += compare("imclef07a", *xray(config["imclef07a"]), config)
        for row in rows:
            print(row)
        write(HERE / "sizes.csv", rows)


if __name__ == "__main__":
    main()
