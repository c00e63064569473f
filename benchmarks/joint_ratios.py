"""CPU time of the joint posterior against merging blocks on the same matrix, in one run.

python benchmarks/joint_ratios.py            # about a minute
python benchmarks/joint_ratios.py --quick    # small sizes, to see that it still runs
"""

import argparse
import time

import numpy as np

from hierlpr import Hierarchy, consistent_scores
from hierlpr.joint import JointModel, LabelPrior, Tempering


def seconds(task, repeat=5):
    """CPU time of the best of several runs, all threads together: other work does not count."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return min(times)


def shapes(scale):
    """Name, number of samples and parent of each label."""
    rng = np.random.default_rng(0)

    def forest(n, root_share):
        return [
            -1 if i == 0 or rng.random() < root_share else int(rng.integers(i)) for i in range(n)
        ]

    yield "forest, 110 labels", 40_000 // scale, forest(110, 0.1)
    yield "forest, 500 labels", 8_000 // scale, forest(500, 0.02)
    yield "tree, 4,000 labels", 1_000 // scale, forest(4_000, 0.0)
    yield "path, 10,000 labels", 400 // scale, list(range(-1, 9_999))


def compare(scale=1):
    print("cost of the joint posterior; unit: consistent_scores of the same LPRs, same threads")
    for name, n_samples, parent in shapes(scale):
        n_labels = len(parent)
        rng = np.random.default_rng(1)
        labels = [f"L{i}" for i in range(n_labels)]
        edges = [(labels[p], labels[i]) for i, p in enumerate(parent) if p >= 0]
        h = Hierarchy(edges, labels=labels)
        lpr = rng.beta(0.3, 1.5, size=(n_samples, n_labels))
        prior = LabelPrior(rng.uniform(0.02, 0.4, n_labels), rng.uniform(0.05, 0.95, n_labels))
        learned = Tempering.of(np.tile([0.9, 0.3, 0.0], (n_labels, 1)), "label")
        exact = JointModel(h, prior, Tempering.fixed("exact", n_labels))
        tempered = JointModel(h, prior, learned)
        for threads in (1, 2):
            for model in (exact, tempered):
                model.transform(lpr[:2], n_threads=threads)  # compile
            unit = seconds(lambda h=h, x=lpr, t=threads: consistent_scores(x, h, n_threads=t))
            for kind, model in (("exact", exact), ("tempered", tempered)):
                cost = seconds(lambda m=model, x=lpr, t=threads: m.transform(x, n_threads=t))
                print(
                    f"  {name}, {threads} thread(s), {kind}: {cost / unit:.2f} units, "
                    f"{1e9 * cost / lpr.size:.0f} ns an instance"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    compare(100 if parser.parse_args().quick else 1)
