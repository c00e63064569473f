"""Count how often an audit certifies a cutoff whose precision is below the target.

    python experiments/audit/run.py [--runs N]

Each run draws one population of `audited.py`, audits it, looks after every answer and stops as
soon as every planned cutoff is certified. It errs if the precision of *any* cutoff that was
certified at any moment is below the target, which is checked against the whole truth. The last
column says whether errors are at most 10 % plus three standard errors. Results: violations.csv.
"""

import argparse
import csv
import math
import sys
import tomllib
from pathlib import Path

import numpy as np

from hierlpr.audit.bets import count_passed
from hierlpr.audit.plan import list_by_unit, plan_audit
from hierlpr.cutoff.guarantee import Promise

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from audited import POPULATIONS  # noqa: E402

COLUMNS = [
    "population", "checks", "runs", "certified", "errors", "share", "allowed", "within",
    "recall", "uniform", "control",
]  # fmt: skip


class Audited:
    """One population with a plan, and what its answers certify."""

    def __init__(self, score, truth, cluster, promise, checks, rng):
        n_samples = len(score)
        sample, label = np.nonzero(score > 0.0)
        order, self.listed = list_by_unit(score[sample, label], sample, n_samples, cluster)
        self.correct = np.asarray(truth)[sample, label][order]
        self.n_positives = np.count_nonzero(truth)
        self.plan = plan_audit(self.listed, promise, checks, rng)
        self.promise = promise

    def passed(self, n_answers, horizons):
        """Return how many tests pass after some answers."""
        tests, listed = self.plan.tests, self.listed
        is_answered = np.zeros(listed.n_units, dtype=bool)
        is_answered[self.plan.order[:n_answers]] = True
        rows = is_answered[listed.unit] & listed.called(tests.level.min(), tests.limit.max())
        return count_passed(self.plan, listed.take(rows), self.correct[rows], n_answers, horizons)

    def certified(self, test):
        """Return precision and recall of the calls of a test."""
        called = self.listed.called(self.plan.tests.level[test], self.plan.tests.limit[test])
        hits = np.count_nonzero(self.correct[called])
        return hits / np.count_nonzero(called), hits / max(1, self.n_positives)


def study(config, populations=POPULATIONS):
    """Yield one row per population and number of checks."""
    promise = Promise(1.0 - config["precision"], 1.0 - config["confidence"])
    runs = config["violations"]["runs"]
    for make in populations:
        for checks in config["violations"]["checks"]:
            rng = np.random.default_rng([config["seed"], checks])
            errors, recall, uniform, control = 0, [], 0, 0
            for _ in range(runs):
                audited = Audited(*make(rng), promise, checks, rng)
                # Passed tests never fail later, so the last look has those of all looks.
                most = min(checks, audited.plan.order.size)
                passed = audited.passed(most, [most])
                reached = [audited.certified(test) for test in range(passed)]
                errors += any(precision < config["precision"] - 1e-9 for precision, _ in reached)
                recall.append(reached[-1][1] if reached else 0.0)
                q = audited.plan.probability
                uniform += np.ptp(q[q > 0.0]) < 1e-12
                control += audited.plan.rho > 0.0
            allowed = 0.1 + 3.0 * math.sqrt(0.09 / runs)
            values = [make.__name__, checks, runs, sum(r > 0.0 for r in recall), errors]
            shares = [errors / runs, allowed, "yes" if errors / runs <= allowed else "no"]
            others = [np.mean(recall), uniform / runs, control / runs]
            row = [round(float(x), 4) if isinstance(x, float) else x for x in shares + others]
            yield dict(zip(COLUMNS, values + row, strict=True))


def main():
    """Run the study and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    config = tomllib.loads((HERE / "config.toml").read_text())
    config["violations"]["runs"] = parser.parse_args().runs or config["violations"]["runs"]
    with (HERE / "violations.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in study(config):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
