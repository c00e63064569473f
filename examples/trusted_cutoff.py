"""A cutoff you can trust.

Set a target of at most 10 % incorrect calls, guaranteed with 90 % confidence, and look at the
precision on new samples. Precision falls along the ranking; the cutoff stops where the calibration
samples still support the target.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from hierlpr import HierLPR, simulate

n = 300 if os.environ.get("SMALL") else 1200
data = simulate.disease(n_samples=3 * n, rng=0)
fit, calibration, new = (slice(k * n, (k + 1) * n) for k in range(3))

model = HierLPR(data.hierarchy).fit(data.scores[fit], data.truth[fit])
model.calibrate(data.scores[calibration], data.truth[calibration], fdr=0.1, confidence=0.9)
print(model.cutoff_)

ranking = model.rank(data.scores[new])
correct = data.truth[new][ranking.sample, ranking.label]
calls = np.arange(1, len(ranking) + 1)
made = int(model.predict(data.scores[new]).sum())
print(f"New samples: {made:,} calls, {correct[:made].mean():.1%} of them correct.")

end = 3 * made
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(calls[:end], np.cumsum(correct)[:end] / calls[:end], label="new samples")
axes.axhline(0.9, color="grey", linestyle=":", label="target")
axes.axvline(made, color="tab:red", linestyle="--", label="cutoff")
axes.set(xlabel="calls, best first", ylabel="share of calls that are correct", ylim=(0.5, 1.01))
axes.legend(loc="lower left")
figure.savefig("trusted_cutoff.png", dpi=130)
