"""Time and memory of the ranking core, as ratios against `np.argsort` in the same run.

Run with `make bench`. Each figure is the median over rounds in which everything is timed once,
side by side; machines differ and are shared, ratios much less so.
"""

import argparse
import gc
import subprocess
import sys
import time

import numpy as np

from hierlpr import Hierarchy, consistent_scores, rank


def disease_like_forest(rng, n_labels=110):
    parents = {}
    for i in range(n_labels):
        root = i == 0 or rng.random() < 0.22
        parents[f"L{i}"] = None if root else f"L{rng.integers(max(0, i - 8), i)}"
    return Hierarchy.from_parents(parents)


def random_tree(rng, n_labels=4000):
    parents = {f"L{i}": f"L{rng.integers(0, i)}" for i in range(1, n_labels)}
    return Hierarchy.from_parents({"L0": None, **parents})


def timed(function):
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def table_of_ratios(n_instances, rounds):
    rng = np.random.default_rng(0)
    print(f"\n{n_instances:,} instances, uniform LPRs, ratio to np.argsort(-lpr.ravel())\n")
    print(f"{'':34}{'110-label forest':>18}{'4,000-label tree':>18}  target")
    columns = []
    for h in (disease_like_forest(rng), random_tree(rng)):
        lpr = rng.random((n_instances // h.n_labels, h.n_labels))
        tasks = {
            "np.argsort": lambda lpr=lpr: np.argsort(-lpr.ravel()),
            "rank, 1 thread": lambda lpr=lpr, h=h: rank(lpr, h, n_threads=1),
            "rank, 2 threads": lambda lpr=lpr, h=h: rank(lpr, h, n_threads=2),
            "rank with lpr and score, 2 threads": lambda lpr=lpr, h=h: (
                rank(lpr, h, n_threads=2).score
            ),
            "consistent_scores, 2 threads": lambda lpr=lpr, h=h: consistent_scores(
                lpr, h, n_threads=2
            ),
        }
        for task in tasks.values():
            task()  # compile, and let the system hand out the memory once
        times = {name: [] for name in tasks}
        for _ in range(rounds):
            for name, task in tasks.items():
                times[name].append(timed(task))
        unit = np.array(times["np.argsort"])
        columns.append({name: float(np.median(np.array(t) / unit)) for name, t in times.items()})
    targets = {"rank, 1 thread": "0.60", "rank, 2 threads": "0.35"}
    targets["consistent_scores, 2 threads"] = "0.20"
    for name in columns[0]:
        cells = "".join(f"{column[name]:18.3f}" for column in columns)
        print(f"{name:34}{cells}  {targets.get(name, '')}")


def growth(sizes, rounds):
    rng = np.random.default_rng(1)
    h = disease_like_forest(rng)
    print("\nGrowth of rank on the 110-label forest (2 threads)\n")
    spent = []
    for n in sizes:
        lpr = rng.random((n // h.n_labels, h.n_labels))
        rank(lpr, h)
        spent.append(min(timed(lambda lpr=lpr: rank(lpr, h, n_threads=2)) for _ in range(rounds)))
        print(f"{n:14,} instances {spent[-1] * 1e9 / n:8.1f} ns each")
    exponent = np.polyfit(np.log(sizes), np.log(spent), 1)[0]
    print(f"{'growth exponent':>24} {exponent:8.2f}")


def high_water_mark():
    """Return the peak resident memory of this process in bytes, and start it anew (Linux)."""
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    return peak * 1024


def memory(n_instances):
    """Print the peak memory of one call over what stood before it, in a process of its own."""
    rng = np.random.default_rng(0)
    h = disease_like_forest(rng)
    rank(rng.random((10, h.n_labels)), h)
    lpr = rng.random((n_instances // h.n_labels, h.n_labels))
    high_water_mark()
    before = high_water_mark()
    rank(lpr, h)
    share = (high_water_mark() - before) / lpr.nbytes
    print(f"\nPeak memory of rank beside its input: {share:.2f} x the input (target 4)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-only", action="store_true")
    options = parser.parse_args()
    if options.memory_only:
        memory(options.instances)
        return
    table_of_ratios(options.instances, options.rounds)
    growth([10**5, 10**6, 10**7], options.rounds)
    sys.stdout.flush()
    command = [sys.executable, __file__, "--memory-only", "--instances", str(options.instances)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
