"""Memory of ranking beside its input; `table.py` has the ratios and how they grow."""

import argparse
import subprocess
import sys

import numpy as np

from hierlpr import Hierarchy, rank


def disease_like_forest(rng, n_labels=110):
    parents = {}
    for i in range(n_labels):
        root = i == 0 or rng.random() < 0.22
        parents[f"L{i}"] = None if root else f"L{rng.integers(max(0, i - 8), i)}"
    return Hierarchy.from_parents(parents)


def random_tree(rng, n_labels=4000):
    parents = {f"L{i}": f"L{rng.integers(0, i)}" for i in range(1, n_labels)}
    return Hierarchy.from_parents({"L0": None, **parents})


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
    parser.add_argument("--memory-only", action="store_true")
    options = parser.parse_args()
    if options.memory_only:
        memory(options.instances)
        return
    command = [sys.executable, __file__, "--memory-only", "--instances", str(options.instances)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
