"""Discoveries from p-values.

A p-value for every node: which nodes carry a signal, such that none is reported without its
parents and at most 10 % of the reported ones are false on average?
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from hierlpr import baselines, discover, simulate

h = simulate.random_forest(250 if os.environ.get("SMALL") else 600, rng=2)
rng = np.random.default_rng(5)
signal = np.zeros(h.n_labels, dtype=bool)
for k in h.order:  # parents come first
    parents = h.parents(h.labels[k])
    chance = 0.5 if not parents else 0.6 * all(signal[h.index(p)] for p in parents)
    signal[k] = rng.random() < chance
p_values = norm.sf(rng.normal(2.7 * signal, 1))

found = discover(p_values, h, fdr=0.1, dependence="independent", rng=0)
print(found)
rejected = np.isin(h.labels, found.rejected)
flat = baselines.benjamini_hochberg(p_values, h, 0.1)
for name, made in [("hierlpr", rejected), ("Benjamini-Hochberg", flat)]:
    broken = sum(made[h.index(c)] and not made[h.index(p)] for p, c in h.edges)
    print(f"{name:18} {made.sum():3} found, {(made & ~signal).sum():2} of them false, "
          f"{(made & signal).sum() / signal.sum():.0%} of the signals, "
          f"{broken} without a parent")  # fmt: skip

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
depth = h.levels + rng.uniform(-0.3, 0.3, h.n_labels)
for kind, colour, label in [(~signal, "lightgrey", "no signal"), (signal, "tab:blue", "signal")]:
    axes.scatter(depth[kind], -np.log10(p_values[kind]), s=14, color=colour, label=label)
axes.scatter(
    depth[rejected], -np.log10(p_values[rejected]), s=50, facecolors="none", edgecolors="tab:red",
    label="found",
)  # fmt: skip
axes.set(xlabel="depth in the hierarchy", ylabel="-log10 p")
axes.legend()
figure.savefig("discoveries.png", dpi=130)
