"""Scores that could not be compared, in one ranking.

A score of 0.7 may mean near certainty for one label and nothing for another. The curves from score
to chance make scores comparable, and sorting the chances under the hierarchy finds more true labels
with the same number of calls.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from hierlpr import HierLPR, baselines, metrics, simulate

n = 300 if os.environ.get("SMALL") else 1500
data = simulate.disease(n_samples=2 * n, rng=3)
scores, truth = data.scores[n:], data.truth[n:]
model = HierLPR(data.hierarchy).fit(data.scores[:n], data.truth[:n])

orders = {
    "hierlpr": model.rank(scores),
    "top-down": baselines.top_down(scores, data.hierarchy),
    "max-propagation": baselines.max_propagation(scores, data.hierarchy),
    "raw scores": baselines.raw_scores(scores, data.hierarchy),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
grid = np.linspace(0, 1, 200)
for name in ("Neoplasm", "Leukemia", "Diabetes mellitus"):
    if name in data.hierarchy.labels:
        k = data.hierarchy.index(name)
        matrix = np.tile(np.median(scores, axis=0), (grid.size, 1))
        matrix[:, k] = grid
        left.plot(grid, model.lpr_.predict(matrix)[:, k], label=name)
left.set(xlabel="score of the label's classifier", ylabel="chance that the label holds (LPR)")
left.legend()
for name, order in orders.items():
    hits = truth[order.sample, order.label]
    area = metrics.normalized_hit_area_score(hits)
    broken = metrics.order_violations_error(order.sample, order.label, data.hierarchy)
    print(f"{name:16} hit area {area:.3f}, a label before its parent {broken:,} times")
    right.plot(np.cumsum(hits)[: 3 * int(truth.sum())], label=name)
right.set(xlabel="calls, best first", ylabel="correct calls")
right.legend()
figure.savefig("one_ranking.png", dpi=130)
