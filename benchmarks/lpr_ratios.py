"""Cost of fitting and predicting local precision rates, against NumPy's sort in the same run.

python benchmarks/lpr_ratios.py            # about a minute
python benchmarks/lpr_ratios.py --quick    # small sizes, to see that it still runs
"""

import argparse
import time

import numpy as np

from hierlpr.lpr import ESTIMATORS, fit_lpr

METHODS = [name for name in ESTIMATORS if name != "probability"]  # "auto" and one line more


def seconds(task, repeat=3):
    """Best of several runs: the least disturbed one."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def labels(n_samples, n_labels, seed=0):
    """Labels of many prevalences and qualities; every twentieth has fewer than ten positives."""
    rng = np.random.default_rng(seed)
    prevalence = 10 ** rng.uniform(-2.3, -0.4, n_labels)
    prevalence[::20] = 4 / n_samples
    truth = rng.random((n_samples, n_labels)) < prevalence
    scores = rng.normal(size=truth.shape) + truth * rng.uniform(0.5, 3.0, n_labels)
    return scores, truth


def sort_columns(scores):
    for k in range(scores.shape[1]):
        np.argsort(scores[:, k])


def fitting(n_samples, n_labels):
    scores, truth = labels(n_samples, n_labels)
    for method in METHODS:
        fit_lpr(scores[:200, :4], truth[:200, :4], method=method)  # compile
    unit = seconds(lambda: sort_columns(scores))
    print(f"fit {n_labels:,} labels x {n_samples:,} samples; unit: argsort of each column,")
    print(f"{unit:.3f} s in all")
    for threads, limit in ((1, ""), (2, "   (target: at most 10)")):
        took = seconds(lambda t=threads: fit_lpr(scores, truth, n_jobs=t))
        print(f"  auto, {threads} thread(s){took / unit:26.2f} units{limit}")
    few = max(1, n_labels // 20)
    part = seconds(lambda: sort_columns(scores[:, :few]))
    for method in METHODS:
        if method != "auto":
            took = seconds(
                lambda m=method: fit_lpr(scores[:, :few], truth[:, :few], method=m, n_jobs=2), 1
            )
            print(f"  {method + ', 2 threads':24}{took / part:18.2f} units")


def predicting(n_samples, n_labels):
    scores, truth = labels(5000, n_labels, seed=1)
    model = fit_lpr(scores, truth)
    new = np.random.default_rng(2).normal(size=(n_samples, n_labels)) * 2
    flat = new.ravel()
    model.predict(new[:10])
    unit = seconds(lambda: np.argsort(flat), 2)
    print(f"\npredict {new.size:,} LPRs; unit: argsort of these values, {unit:.3f} s")
    for threads in (1, 2):
        took = seconds(lambda t=threads: model.predict(new, n_jobs=t))
        target = "   (target: at most 1)" if threads == 2 else ""
        print(f"  {threads} thread(s){took / unit:32.2f} units{target}")


def growth(sizes, n_labels):
    print("\ngrowth: seconds for one label, and the exponent of n from first to last")
    print(f"{'':18}" + "".join(f"{n:>12,}" for n in sizes) + f"{'exponent':>12}")
    for method in METHODS:
        took = []
        for n in sizes:
            scores, truth = labels(n, n_labels, seed=3)
            took.append(
                seconds(lambda s=scores, t=truth, m=method: fit_lpr(s, t, method=m, n_jobs=1), 2)
                / n_labels
            )
        exponent = np.log(took[-1] / took[0]) / np.log(sizes[-1] / sizes[0])
        print(f"{method:18}" + "".join(f"{t:12.5f}" for t in took) + f"{exponent:12.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    if parser.parse_args().quick:
        fitting(500, 40)
        predicting(1000, 20)
        growth((1000, 4000), 2)
    else:
        fitting(5000, 1000)
        predicting(10_000, 1000)
        growth((10_000, 40_000, 160_000), 3)


if __name__ == "__main__":
    main()
