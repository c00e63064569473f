"""Why a label is called.

Every call has a reason: the label's own chance, or that of the labels it is called together with.
`explain` gives it for each label of a sample, as text, as a table, and as a picture.
"""

from hierlpr import HierLPR, plots, simulate

data = simulate.disease(n_samples=600, rng=1)
model = HierLPR(data.hierarchy).fit(data.scores[:300], data.truth[:300])
model.calibrate(data.scores[300:500], data.truth[300:500], maximize="f1")

# A sample with a label that is only called because of the labels below it.
lpr, called = model.transform(data.scores), model.predict(data.scores)
sample = 500 + int((called & (lpr < model.cutoff_.level))[500:].any(axis=1).argmax())
explanation = model.explain(data.scores, sample)
for k in called[sample].nonzero()[0][:5]:
    label = data.hierarchy.labels[k]
    print(f"{label}: {explanation.why(label)}")

display = plots.SampleDisplay.from_model(model, data.scores, sample, truth=data.truth).plot()
display.figure_.savefig("explained_call.png", dpi=130)
