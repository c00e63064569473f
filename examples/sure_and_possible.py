"""Sure and possible labels of each sample.

A promise about one sample at a time: for at least 90 % of new samples all sure labels are correct,
and for at least 90 % no true label is missing from the possible ones.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from hierlpr import HierLPR, simulate

n = 400 if os.environ.get("SMALL") else 2000
tree = simulate.random_tree(25, rng=1)
taxonomy = simulate.random_model(tree, quality="high", root=0.98, conditional=0.5, rng=2)
data = taxonomy.draw(3 * n, rng=3)
fit, calibration, new = (slice(k * n, (k + 1) * n) for k in range(3))
model = HierLPR(data.hierarchy).fit(data.scores[fit], data.truth[fit])
model.calibrate_sets(data.scores[calibration], data.truth[calibration], error=0.1)
sets = model.predict_sets(data.scores[new])
truth = data.truth[new]
print(sets.rule)
wrong, missed = (sets.sure & ~truth).any(axis=1), (truth & ~sets.possible).any(axis=1)
print(f"Samples with an incorrect sure label: {wrong.mean():.1%}.")
print(f"Samples with a true label that is not possible: {missed.mean():.1%}.")

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
most = int(sets.possible.sum(axis=1).max())
bins = np.arange(most + 2) - 0.5
for counted, label in [(sets.sure, "sure"), (truth, "true"), (sets.possible, "possible")]:
    axes.hist(counted.sum(axis=1), bins=bins, histtype="step", linewidth=2, label=label)
axes.set(xlabel="labels of a sample", ylabel="samples")
axes.legend()
figure.savefig("sure_and_possible.png", dpi=130)
