"""A population with other prevalences.

A model fitted in one hospital is used in another where a disease is four times as frequent.
`check` notices it from the scores alone, and `adapt` corrects the chances.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from hierlpr import HierLPR, simulate

n = 1000 if os.environ.get("SMALL") else 6000
tree = simulate.random_tree(12, rng=1)
population = simulate.random_model(tree, quality="high", root=0.6, conditional=0.5, rng=2)
here = population.draw(n, rng=3)
elsewhere = population.draw(4 * n, rng=4)
leaf = int(np.argmin(elsewhere.truth.mean(axis=0)))
rng = np.random.default_rng(5)
weight = np.where(elsewhere.truth[:, leaf], 4.0, 1.0)  # this label is four times as frequent
drawn = rng.choice(4 * n, size=n, p=weight / weight.sum())
scores, truth = elsewhere.scores[drawn], elsewhere.truth[drawn]

model = HierLPR(tree).fit(here.scores, here.truth)
print(model.check(scores))
adapted = model.adapt(scores)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
place = np.arange(tree.n_labels)
axes.bar(place - 0.27, model.transform(scores).mean(axis=0), 0.27, label="old model")
axes.bar(place, adapted.transform(scores).mean(axis=0), 0.27, label="adapted model")
axes.bar(place + 0.27, truth.mean(axis=0), 0.27, label="truth", color="grey")
axes.set(xlabel="label", ylabel="mean chance, and share of samples", xticks=place)
axes.legend()
figure.savefig("another_population.png", dpi=130)
