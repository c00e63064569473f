"""Measure the error rates and sizes of the sets of sure and possible labels.

Large simulated populations are drawn once, and calibration samples are drawn from them repeatedly,
so that the error rate of a rule in the population is known. Then the sure labels of hierlpr are
counted beside two rules that call one path per sample at the same promised error, on X-ray images
(imclef07a) and on a simulated taxonomy.

    python experiments/sets/run.py [--replications N] [--only NAME ...]
"""

import argparse
import csv
import os
import sys
import tomllib
from pathlib import Path

import numpy as np

from hierlpr import Hierarchy, HierLPR, consistent_scores, simulate
from hierlpr.cutoff.set_values import (
    SetValues,
    by_cost,
    call_order,
    least_chance,
    many_label_values,
    one_path_values,
)
from hierlpr.cutoff.sets import choose_sets
from hierlpr.joint import end_posterior

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from clus_arff import read_arff  # noqa: E402
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
    parts = list(many_label_values(score, h, least_chance(config["error"])))
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
    """Return one row: the mean error, or with a confidence how often it exceeds the limit."""
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
    """Draw one path per sample in a random tree, with noisy evidence for each of its labels."""
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


def by_path_cost(values: np.ndarray, h: Hierarchy, floor: float) -> np.ndarray:
    """Return the values of a rule that follows one path, with labels weighted by their cost."""
    chance = np.clip(values, 0.0, 1.0)
    return by_cost(chance, call_order(chance, h), floor)


def compare(name: str, h: Hierarchy, scores, truth, config: dict) -> list[dict]:
    """Return the mean number of sure labels at equal error, over random splits."""
    rng = np.random.default_rng(config["seed"])
    part = config["imclef07a"]
    found: dict[str, list] = {}
    order = rng.permutation(len(scores))
    fit, rest = order[: part["n_fit"]], order[part["n_fit"] :]
    model = HierLPR(h).fit(scores[fit], truth[fit])
    score = model.predict_proba(scores[rest])
    own = model.lpr_.predict(scores[rest])
    lpr = consistent_scores(own, h)
    held, prior, floor = truth[rest], model.lpr_.report.base_rate, least_chance(config["error"])
    print(name, "weights of depths", model.path_weight_.round(2))

    def one_path(weight, floor):
        (values,) = one_path_values(end_posterior(own, prior, h, weight), h, floor)
        return values.sure

    def many(floor):
        return np.concatenate([part.sure for part in many_label_values(score, h, floor)])

    values = {
        "hierlpr": many(floor),
        "hierlpr, one path": one_path(model.path_weight_, floor),
        "one path, weights of depths alone": one_path(model.path_weight_, 1.0),
        "one path, cost alone": one_path(None, floor),
        "one path, neither": one_path(None, 1.0),
        "many paths, not by cost": many(1.0),
        "climb": climb_values(lpr, h),
        "climb, by cost": by_path_cost(climb_values(lpr, h), h, floor),
        "climb, own LPRs": climb_values(own, h),
        "climb, joint": climb_values(score, h),
        "top-down": descent_values(lpr, h),
        "top-down, by cost": by_path_cost(descent_values(lpr, h), h, floor),
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
    more = more_than("climb", values, held, config)
    return [
        {"data": name, "method": method, "error": f"{np.mean([e for e, _ in runs]):.4f}",
         "sure_labels": f"{np.mean([s for _, s in runs]):.3f}",
         "true_labels": f"{held.sum() / len(held):.3f}",
         "more_than_climb": f"{more[method].mean():.3f}", "se": f"{more[method].std(ddof=1):.3f}"}
        for method, runs in found.items()
    ]  # fmt: skip


def more_than(other: str, values: dict, held: np.ndarray, config: dict) -> dict:
    """Return how many more labels are sure than by another method, in resampled samples."""
    rng = np.random.default_rng(config["seed"])
    worst = {method: np.where(held, -1.0, value).max(axis=1) for method, value in values.items()}
    sizes: dict[str, list] = {method: [] for method in values}
    for _ in range(config["imclef07a"]["bootstraps"]):
        drawn = rng.integers(len(held), size=len(held))
        for method, value in values.items():
            level = np.quantile(worst[method][drawn], 1.0 - config["error"], method="higher")
            sizes[method].append((value[drawn] > level).sum() / len(held))
    return {method: np.array(size) - np.array(sizes[other]) for method, size in sizes.items()}


def write(path: Path, rows: list[dict]) -> None:
    """Write a table."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run the named parts."""
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
