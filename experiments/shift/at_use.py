"""Count how often using a model warns about scores unlike those of its fit, and false alarms.

A model is fitted, and `rank` or `predict` gets batches of new samples: as they are, multiplied by
100, as log-odds, with permuted columns, and as 1 - s. Real scores are out-of-fold in the fit, and
new ones come from classifiers fitted on all training samples, as users have them. The
populations of experiments/guarantee give unchanged batches only.

    python experiments/shift/at_use.py [--only NAME ...] [--cache DIR]     # needs HIERLPR_DATA

Writes at_use.csv: per population and batch size, the number of batches with a warning. With three
labels, a permutation may exchange labels with nearly the same scores, and scores may be symmetric
about 1/2: such changes cannot be seen in a batch of 50. The e-mails in the test part of enron
seem to differ from those fitted on, so its rows "same" are not false alarms.
"""

import argparse
import csv
import importlib.util
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
from scipy.special import logit

from hierlpr import HierLPR, simulate
from hierlpr.data.tables import Table
from hierlpr.io.predictions import read_known_names, read_predictions
from hierlpr.model.validation import difference_note

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "guarantee"))

import end_to_end  # noqa: E402, F401  (its populations enter the table)
import populations  # noqa: E402, F401
from attack import POPULATIONS, Population, standalone  # noqa: E402

CONFIG = tomllib.loads((HERE / "config.toml").read_text())["at_use"]
CHANGES = ("same", "x 100", "logits", "permuted", "1 - s")
RANDOM = {
    "random tree": lambda n, rng: simulate.random_tree(n, max_depth=6, rng=rng),
    "random forest": lambda n, rng: simulate.random_forest(n, n_trees=10, max_depth=6, rng=rng),
    "random dag": lambda n, rng: simulate.random_dag(n, n_roots=10, rng=rng),
}


def simulated(name, n_fit, rng):
    """A fitted model and new scores."""
    n_new = 20 * max(CONFIG["batches"])
    if name == "disease":
        train, test = (simulate.disease(n_samples=n, rng=rng) for n in (n_fit, n_new))
    elif name in RANDOM:
        h = RANDOM[name](100, rng)
        drawn = simulate.random_model(h, conditional=rng.uniform(0.3, 1.0, 100), rng=rng)
        train, test = drawn.draw(n_fit, rng), drawn.draw(n_new, rng)
    else:
        train, test = simulate.train_test(name, n_train=n_fit, n_test=n_new, rng=rng)
    model = HierLPR(train.hierarchy, joint=False).fit(train.scores, train.truth)
    return model, test.scores


def attacked(name, n_fit, rng):
    """A model fitted on a population of the guarantee study, and new scores."""
    victim = POPULATIONS[name](0.8)
    if not isinstance(victim, Population):
        plan = victim.plan(rng)
        return plan.model, plan.scores
    scores, truth = victim.draw(rng, n_fit + 20 * max(CONFIG["batches"]))
    h = standalone(truth.shape[1])
    model = HierLPR(h, joint=False).fit(Table(scores[:n_fit], h.labels), truth[:n_fit])
    return model, scores[n_fit:]


def real(name, rng, cache):
    """A model fitted on out-of-fold scores, and the scores of the test samples."""
    place = HERE.parent / "joint_real"
    spec = importlib.util.spec_from_file_location("joint_real", place / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if name in ("its", "16s"):
        found = read_predictions(module.DATA / f"taxa/{name}.tsv.gz")
        rows, truth, _ = read_known_names(module.DATA / f"taxa/{name}.tsv.gz", found)
        is_fit = rng.random(rows.size) < 0.5
        model = HierLPR(found.hierarchy)
        model.fit(Table(found.scores[rows[is_fit]], found.hierarchy.labels), truth[is_fit])
        return model, found.scores[rows[~is_fit]]
    config = tomllib.loads((place / "config.toml").read_text())
    data = module.load(name, config, cache)
    kept = np.flatnonzero(data.truth.sum(axis=0) >= 10)
    h = data.hierarchy.subset([data.hierarchy.labels[k] for k in kept])
    columns = [data.hierarchy.index(label) for label in h.labels]
    model = HierLPR(h, joint=False).fit(data.scores[:, columns], data.truth[:, columns])
    return model, data.test_scores[:, columns]


def changed(scores, how, rng):
    """Return the scores of a broken pipeline; None where the change does not apply."""
    values = scores if isinstance(scores, np.ndarray) else scores.data
    is_share = values.min() >= 0.0 and values.max() <= 1.0
    if how == "permuted":
        n = scores.shape[1]
        order = rng.permutation(n)
        while (order == np.arange(n)).all():
            order = rng.permutation(n)
        return scores[:, order]
    if how == "logits" and not is_share:
        return None
    new = {
        "same": values,
        "x 100": 100.0 * values,
        "logits": logit(np.clip(values, 1e-9, 1.0 - 1e-9)) if is_share else values,
        "1 - s": 1.0 - values,
    }[how]
    if isinstance(scores, np.ndarray):
        return new
    out = scores.copy()
    out.data = new
    return out


def measure(name, n_fit, cache, rng):
    """Rows of the table: the share of batches with a warning for each change."""
    counts = {}
    is_real = name in CONFIG["real"]
    draw = simulated if name in CONFIG["simulated"] else attacked
    for _ in range(1 if is_real else CONFIG["models"]):
        model, pool = real(name, rng, cache) if is_real else draw(name, n_fit, rng)
        n_batches = CONFIG["repeats"] * (CONFIG["models"] if is_real else 1)
        for size in CONFIG["batches"]:
            for how in ("same",) if draw is attacked and not is_real else CHANGES:
                for _ in range(n_batches):
                    batch = pool[rng.choice(pool.shape[0], size, replace=False)]
                    scores = changed(batch, how, rng)
                    if scores is None:
                        continue
                    noted = bool(difference_note(model, Table(scores, model.hierarchy_.labels)))
                    counts.setdefault((size, how), []).append(noted)
    rows = []
    for (size, how), noted in counts.items():
        rows.append({"population": name, "fitted": n_fit if not is_real else "", "batch": size,
                     "scores": how, "batches": len(noted), "warned": sum(noted)})  # fmt: skip
        print(*rows[-1].values(), flush=True)
    return rows


def main():
    """Measure all populations and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [(name, n) for name in CONFIG["simulated"] for n in CONFIG["fitted"]]
    names += [(name, 0) for name in CONFIG["real"]]
    names += [
        (name, 300) for name in POPULATIONS if name != "classifier"
    ]  # it starts from features
    rows = []
    for name, n_fit in names:
        if not args.only or name in args.only:
            rows += measure(name, n_fit, args.cache, np.random.default_rng(CONFIG["seed"]))
    with open(HERE / "at_use.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
