"""Truth that is partly unknown.

Nobody has looked for every disease in every patient. With NaN for what is unknown, the curves stay
correct; with 0 instead, they are too low.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from hierlpr import HierLPR, simulate

n = 600 if os.environ.get("SMALL") else 3000
tree = simulate.random_tree(8, rng=3)
data = simulate.random_model(tree, quality="medium", root=0.9, conditional=0.6, rng=1).draw(
    n, rng=2
)
hidden = np.random.default_rng(0).random(data.truth.shape) < 0.4
unknown = np.where(hidden, np.nan, data.truth)
as_zero = tree.close_upward(np.where(hidden, False, data.truth))

fits = {
    "all truth known": data.truth,
    "40 % unknown, NaN": unknown,
    "40 % unknown, taken as 0": as_zero,
}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
label = tree.n_labels - 1
order = np.argsort(data.scores[:, label])
for name, truth in fits.items():
    model = HierLPR(tree, joint=False).fit(data.scores, truth)
    lpr = model.transform(data.scores)
    print(f"{name}: mean error of the LPRs {np.abs(lpr - data.lpr_true).mean():.3f}")
    axes.plot(data.scores[order, label], lpr[order, label], label=name)
axes.plot(data.scores[order, label], data.lpr_true[order, label], "k:", label="true curve")
axes.set(xlabel="score of one label", ylabel="local precision rate")
axes.legend()
figure.savefig("unknown_truth.png", dpi=130)
