"""Protein functions on the Gene Ontology.

From files in the CAFA layout to calls with a guarantee, and back. The ontology is the generic GO
slim (149 terms, two kinds of edges); predictions and annotations of the targets are simulated, and
written to the current folder.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from hierlpr import simulate, workflows
from hierlpr.io import load_hierarchy, read_ranking, read_truth

OBO = Path(__file__).parent / "data" / "goslim_generic.obo"


def write_targets(h, n, seed, scores, truth):
    """Write what a predictor lists for n targets, and their most specific annotations."""
    conditional = [0.06 if set(h.parents(x)) <= set(h.roots) else 0.5 for x in h.labels]
    model = simulate.random_model(h, quality="high", root=0.95, conditional=conditional, rng=1)
    data = model.draw(n, rng=seed)
    specific = data.truth.copy()
    for parent, child in h.edges:
        specific[:, h.index(parent)] &= ~data.truth[:, h.index(child)]
    name = [f"T{seed}{i:04}" for i in range(n)]
    listed = np.argwhere(data.scores > 0.5)
    lines = [f"{name[i]}\t{h.labels[k]}\t{data.scores[i, k]:.3f}\n" for i, k in listed]
    Path(scores).write_text("".join(lines))
    lines = [f"{name[i]}\t{h.labels[k]}\n" for i, k in np.argwhere(specific)]
    Path(truth).write_text("".join(lines))


if __name__ == "__main__":
    n = 300 if os.environ.get("SMALL") else 1200
    go = load_hierarchy(OBO, relationships=("is_a", "part_of"))
    h = go.hierarchy
    write_targets(h, n, 1, "predictions.tsv", "annotations.tsv")
    write_targets(h, n, 2, "new.tsv", "annotations_new.tsv")

    goal = {"precision": 0.9, "confidence": 0.9}
    fitted = workflows.fit_file(go, "predictions.tsv", "annotations.tsv", "go.hlpr", goal=goal)
    print(fitted.model.cutoff_)
    ranked = workflows.rank_file("go.hlpr", "new.tsv", "ranking.csv")
    done = workflows.evaluate_file("ranking.csv", "annotations_new.tsv", go)
    calls = done.evaluation.decisions
    print(f"New targets: precision {calls['precision']:.3f}, recall {calls['recall']:.3f}.")

    ranking = read_ranking("ranking.csv", h)
    truth = read_truth("annotations_new.tsv", h).table
    known = truth.values.toarray().astype(bool)
    row = {name: i for i, name in enumerate(truth.samples)}
    rows = np.array([row[name] for name in ranking.samples])[ranking.sample]
    correct = known[rows, ranking.label]
    share = np.cumsum(correct) / np.arange(1, correct.size + 1)
    end = 3 * ranked.n_calls
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(share[:end], label="new targets")
    axes.axhline(0.9, color="grey", linestyle=":", label="target")
    axes.axvline(ranked.n_calls, color="tab:red", linestyle="--", label="cutoff")
    axes.set(xlabel="calls, best first", ylabel="share of calls that are correct", ylim=(0, 1.01))
    axes.legend(loc="lower left")
    figure.savefig("gene_ontology.png", dpi=130)
