"""Why a label is called.

Every call has a reason: the label's own chance, or that of the labels it is called together with.
`explain` gives it for each label of a sample, as text and as a table. Here each chance is based on
the label's own score (`joint=False`).
"""

import matplotlib.pyplot as plt

from hierlpr import HierLPR, simulate

data = simulate.disease(n_samples=600, rng=1)
model = HierLPR(data.hierarchy, joint=False).fit(data.scores[:300], data.truth[:300])
model.calibrate(data.scores[300:500], data.truth[300:500], maximize="f1")

# A sample with a label that is only called because of the labels below it.
lpr, called = model.transform(data.scores), model.predict(data.scores)
sample = 500 + int((called & (lpr < model.cutoff_.level))[500:].any(axis=1).argmax())
explanation = model.explain(data.scores, sample)
for k in called[sample].nonzero()[0][:5]:
    label = data.hierarchy.labels[k]
    print(f"{label}: {explanation.why(label)}")

shown = [x for x in explanation.labels if x.called][::-1]
figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
names = [x.label for x in shown]
axes.barh(names, [x.block_score for x in shown], color="#c9dcee", label="block score")
axes.plot([x.lpr for x in shown], names, "D", color="#0b63b0", label="own chance (LPR)")
axes.axvline(model.cutoff_.level, color="#c2272d", linestyle="--", label="cutoff")
axes.set(xlim=(0, 1), xlabel="chance", title="Labels called together share a block score")
figure.legend(loc="outside lower center", ncols=3)
figure.savefig("explained_call.png", dpi=130)
