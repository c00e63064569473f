"""Cost of ranking on DAGs, against NumPy's sort of the same values in the same run, and its growth.

python benchmarks/dag_ratios.py --go edges.tsv.gz    # Gene Ontology: parent, child, ... with header
python benchmarks/dag_ratios.py                      # random DAGs of the same shape alone
python benchmarks/dag_ratios.py --quick              # small sizes, to see that it still runs

Times are CPU seconds of one thread. `memory` is the most the process has held so far, in MB: with
80,000 labels anything quadratic, at one byte each, would take 6,400.
"""

import argparse
import gzip
import resource
import time

import numpy as np
from scipy import sparse

from hierlpr import Hierarchy, consistent_scores, rank


def seconds(task, repeat=3):
    """Least CPU time of several runs."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return min(times)


def read_edges(path):
    with gzip.open(path, "rt") as lines:
        next(lines)
        return [tuple(line.rstrip("\n").split("\t")[:2]) for line in lines]


def ontology_like(n_labels, rng):
    """Random DAG: about 1.8 parents per label, found among earlier labels, depth about 20."""
    edges = []
    for child in range(1, n_labels):
        for parent in {int(child * rng.beta(2, 2)) for _ in range(1 + rng.binomial(2, 0.4))}:
            edges.append((f"L{parent}", f"L{child}"))
    return Hierarchy(edges, labels=[f"L{i}" for i in range(n_labels)])


def violated(lpr, h):
    """Share of the edges with the child above the parent."""
    parent = np.repeat(h.order, np.diff(h.child_ptr))
    return float(np.mean(lpr[h.order[h.child_idx]] > lpr[parent]))


def simulate_lpr(h, rng, share):
    """LPRs that fall with depth, as fast as leaves the given share of the edges violated."""
    noise = rng.normal(size=h.n_labels)
    slow, fast = 0.0, 4.0
    for _ in range(40):
        slope = (slow + fast) / 2
        lpr = 1 / (1 + np.exp(slope * (h.levels - 1) - noise))
        slow, fast = (slope, fast) if violated(lpr, h) > share else (slow, slope)
    return lpr


def some_active(h, rng, n_active):
    """One sparse sample: random labels with all ancestors, LPRs falling with depth."""
    closed = set()
    while len(closed) < n_active:
        stack = [int(rng.integers(h.n_labels))]
        while stack:
            number = stack.pop()
            if number not in closed:
                closed.add(number)
                stack.extend(h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]].tolist())
    columns = np.sort(h.order[sorted(closed)])
    logit = 1.5 - 0.35 * h.levels[columns] + rng.normal(size=columns.size)
    return columns, 1 / (1 + np.exp(-logit))


def sparse_samples(h, rng, n_active, n_samples):
    rows = [some_active(h, rng, n_active) for _ in range(n_samples)]
    ptr = np.cumsum([0] + [columns.size for columns, _ in rows])
    data = np.concatenate([lpr for _, lpr in rows])
    return sparse.csr_array(
        (data, np.concatenate([columns for columns, _ in rows]), ptr),
        shape=(n_samples, h.n_labels),
    )


def show(name, lpr, h, n_samples, values, share):
    rank(lpr[:1], h, n_jobs=1)  # compile
    unit = seconds(lambda: np.argsort(values)) / n_samples
    ranked = seconds(lambda: rank(lpr, h, n_jobs=1)) / n_samples
    scored = seconds(lambda: consistent_scores(lpr, h, n_jobs=1)) / n_samples
    r = rank(lpr, h, n_jobs=1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    largest = int(np.diff(np.append(np.flatnonzero(r.first), len(r))).max())
    print(
        f"{name:32}{share:9.2f}{1e3 * ranked:9.2f}{1e3 * scored:9.2f}{ranked / unit:9.1f}"
        f"{largest:9}{np.count_nonzero(~r.certified):6} of {r.certified.size:<9,}"
        f"{r.eauc_gap() / r.eauc():9.1e}{memory:9.0f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--go", help="edges of an ontology, gzipped TSV with a header")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("per sample, one thread; unit: argsort of its values")
    print(
        f"{'':32}{'violated':>9}{'rank ms':>9}{'score ms':>9}{'units':>9}{'largest':>9}"
        f"{'open blocks':>19}{'gap':>9}{'memory':>9}"
    )
    if options.go:
        h = Hierarchy(read_edges(options.go))
        print(f"{h.n_labels:,} labels, {h.n_edges:,} edges")
        for n_active in (100, 200, 400, 800, 1600):
            lpr = sparse_samples(h, rng, n_active, 50)
            kept = lpr.toarray()
            parent = np.repeat(h.order, np.diff(h.child_ptr))
            child = h.order[h.child_idx]
            share = float(np.mean((kept[:, child] > kept[:, parent])[kept[:, child] > 0]))
            show(f"ontology, {n_active:,} active", lpr, h, 50, lpr.data, share)
        for share in (0.1, 0.2, 1 / 3, 0.45):
            lpr = simulate_lpr(h, rng, share)
            show("ontology, all labels", lpr[None], h, 1, lpr, violated(lpr, h))
        lpr = rng.random(h.n_labels)
        show("ontology, uniform", lpr[None], h, 1, lpr, violated(lpr, h))
    sizes = (500, 1000) if options.quick else (2_500, 5_000, 10_000, 20_000, 40_000, 80_000)
    for n_labels in sizes:
        h = ontology_like(n_labels, rng)
        lpr = simulate_lpr(h, rng, 1 / 3)
        show(f"random, {n_labels:,} labels", lpr[None], h, 1, lpr, violated(lpr, h))


if __name__ == "__main__":
    main()
