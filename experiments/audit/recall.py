"""Compare the recall that checks certify: audits, `calibrate`, and Clopper-Pearson on single calls.

    HIERLPR_DATA=... python experiments/audit/recall.py [--runs N] [--sets NAME ...]

The population has scores and truth; every method finds calls with a precision of at least 90 % with
90 % confidence. ``audit`` checks the calls of n samples, as planned; ``uniform`` draws the samples
uniformly. ``calibrate`` has all labels of n random samples of the same population. ``single calls``
draws n calls uniformly, checks each by itself, and tests the audit's levels in turn with an exact
binomial test of the calls that reach each. Recall is the share of the population's true labels that
are called; 0 if nothing is certified. Means and errors over runs go to recall.csv.

Populations: simulated diseases, with the scores as in the fit or with noise added; the test parts
of real sets with one logistic model per label; real ITS and 16S sequences, one name per sample.
"""

import argparse
import csv
import importlib.util
import os
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import bdtrc

from hierlpr import HierLPR, simulate
from hierlpr.audit import plan as planning
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.goal import Promise
from hierlpr.data.tables import Table
from hierlpr.io.predictions import read_predictions
from hierlpr.io.true_names import read_true_names

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from audited import Audited  # noqa: E402

DATA = Path(os.environ.get("HIERLPR_DATA", HERE.parents[1] / ".." / "shared" / "data"))
COLUMNS = ["population", "method", "checks", "runs", "recall", "recall_se", "below"]


def diseases(rng, config, noise=0.0):
    """Return a model and the scores and truth of a population."""
    n, fit = config["fit"] + config["population"], config["fit"]
    data = simulate.disease(n_samples=n, rng=rng)
    order = rng.permutation(n)
    model = HierLPR(data.hierarchy).fit(data.scores[order[:fit]], data.truth[order[:fit]])
    scores = data.scores[order[fit:]]
    return model, scores + noise * rng.normal(size=scores.shape), data.truth[order[fit:]]


def real(name):
    """Return the model and the test part of a real set."""
    folder = HERE.parent / "real"
    spec = importlib.util.spec_from_file_location("real_run", folder / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["real_run"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    config = tomllib.loads((folder / "config.toml").read_text())
    data = module.load({**config["sets"], **config["default_sets"]}[name])
    scores, tested = module.logistic_scores(data, config)
    return HierLPR(data.hierarchy).fit(scores, data.train_y), tested, data.test_y


def names(rng, name):
    """Return a model of 60 % of the sequences of a set, and the others as the population."""
    path = DATA / "taxa" / f"{name}.tsv.gz"
    found = read_predictions(path)
    rows, truth, _ = read_true_names(path, found, column="Truth")
    scores, h = found.scores[rows], found.hierarchy
    fit, rest = np.split(rng.permutation(rows.size), [int(0.6 * rows.size)])
    model = HierLPR(h).fit(Table(scores[fit], h.labels), truth[fit])
    return model, scores[rest], truth[rest]


def populations(config):
    """Return a function from a generator to a population for each name, and if it is random."""
    options = config["recall"]
    made = {
        "diseases": lambda rng: diseases(rng, options),
        "diseases, noisier scores": lambda rng: diseases(rng, options, options["noise"]),
    }
    sets = ("enron", "imclef07a", "eisen_FUN", "cellcycle_FUN", "gasch1_FUN", "cellcycle_GO")
    for name in sets:
        made[name] = lambda rng, name=name: real(name)
    for name in ("its", "16s"):
        made[name] = lambda rng, name=name: names(rng, name)
    return made


def dense(matrix):
    """Return a matrix as an array."""
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


class Population:
    """A model with the scores and truth of a population, and what each method certifies."""

    def __init__(self, model, scores, truth, config):
        self.model, self.scores, self.config = model, scores, config
        labels = model.hierarchy_.labels
        self.table = Table(scores, labels)
        self.score = model.block_scores(model.aligned_scores(self.table))
        self.truth, self.dense_score = dense(truth).astype(bool), dense(self.score)
        self.sparse_truth = truth
        self.promise = Promise(1.0 - config["precision"], 1.0 - config["confidence"])

    def outcome(self, calls):
        """Return recall, and whether precision is below the target."""
        hits, n_calls = np.count_nonzero(calls & self.truth), np.count_nonzero(calls)
        below = n_calls > 0 and hits < self.config["precision"] * n_calls - 1e-9
        return hits / np.count_nonzero(self.truth), below

    def audit(self, checks, rng):
        """Return the outcome of an audit."""
        audited = Audited(self.dense_score, self.truth, None, self.promise, checks, rng)
        n = min(checks, audited.n_units)
        reached = audited.reached(n, [n])
        if not reached:
            return 0.0, False
        precision, recall = reached[-1]
        return recall, precision < self.config["precision"] - 1e-9

    def uniform(self, checks, rng):
        """Return the outcome of an audit that draws uniformly without control variates."""
        before = planning._best_design
        planning._best_design = lambda grids, checks: (None, 0.0)
        try:
            return self.audit(checks, rng)
        finally:
            planning._best_design = before

    def calibrate(self, checks, rng):
        """Return the outcome of `calibrate` on fully labelled random samples."""
        rows = rng.choice(len(self.truth), checks, replace=False)
        self.model.calibrate(
            Table(self.scores[rows], self.table.labels), self.sparse_truth[rows],
            precision=self.config["precision"], confidence=self.config["confidence"],
        )  # fmt: skip
        return self.outcome(dense(decide(self.score, self.model.cutoff_, self.model.hierarchy_)))

    def single_calls(self, checks, rng):
        """Return the outcome of exact tests on single calls drawn uniformly."""
        score = self.dense_score
        row, column = np.nonzero(score > 0.0)
        listed = planning.list_by_unit(row, column, score[row, column], len(score))
        level = planning._levels(listed, self.promise)
        row, column = np.nonzero(score >= level[-1])
        drawn = rng.permutation(row.size)[:checks]
        values, right = score[row, column][drawn], self.truth[row, column][drawn]
        target, passed = self.config["precision"], None
        needed = np.log(self.promise.delta) / np.log(target)  # calls, if all are correct
        for x in level:
            n, hits = np.count_nonzero(values >= x), np.count_nonzero(right[values >= x])
            if n < 1.5 * needed and passed is None:
                continue  # an order by scores alone: start where a few errors are affordable
            if bdtrc(hits - 1.0, n, target) > self.promise.delta:
                break
            passed = x
        if passed is None:
            return 0.0, False
        return self.outcome(score >= passed)


METHODS = {
    "audit": Population.audit, "uniform": Population.uniform,
    "calibrate": Population.calibrate, "single calls": Population.single_calls,
}  # fmt: skip


def study(name, make, config):
    """Yield one row per method and number of checks."""
    options, outcomes = config["recall"], {}
    is_random = name not in ("enron", "imclef07a") and not name.endswith(("_FUN", "_GO"))
    population = None
    for run in range(options["runs"]):
        rng = np.random.default_rng([config["seed"], run])
        if population is None or (is_random and run % options["audits_per_population"] == 0):
            population = Population(*make(rng), config)
        for checks in options["checks"]:
            for method, certify in METHODS.items():
                outcomes.setdefault((method, checks), []).append(certify(population, checks, rng))
    for (method, checks), found in outcomes.items():
        recall, below = np.array(found).T
        spread = np.std(recall, ddof=min(1, recall.size - 1)) / np.sqrt(recall.size)
        values = [name, method, checks, recall.size, recall.mean().round(4), spread.round(4)]
        yield dict(zip(COLUMNS, [*values, int(below.sum())], strict=True))


def main():
    """Run the study and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--sets", nargs="*")
    given = parser.parse_args()
    config = tomllib.loads((HERE / "config.toml").read_text())
    config["recall"]["runs"] = given.runs or config["recall"]["runs"]
    warnings.simplefilter("ignore")
    with (HERE / "recall.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for name, make in populations(config).items():
            if given.sets is None or name in given.sets:
                for row in study(name, make, config):
                    writer.writerow(row)
                    file.flush()


if __name__ == "__main__":
    main()
