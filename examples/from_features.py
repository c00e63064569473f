"""From features to calls.

Handwritten digits in a small hierarchy: the shape first (round or straight), then the digit. Any
scikit-learn classifier is trained per label, with cross-fitting; a third of the samples is kept for
the cutoff.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hierlpr import HierarchicalClassifier, Hierarchy

round_digits = {0, 3, 6, 8, 9}
X, digit = load_digits(return_X_y=True)
paths = [f"{'round' if d in round_digits else 'straight'}/{d}" for d in digit]
h = Hierarchy.from_paths(sorted(set(paths)))

classifier = HierarchicalClassifier(
    make_pipeline(StandardScaler(), LogisticRegression(C=0.05)),  # the scaler belongs inside
    hierarchy=h,
    precision=0.98,
    confidence=0.9,
    random_state=0,
)
labels = [[path.split("/")[0], path] for path in paths]  # a label and its parent
classifier.fit(X[:1200], labels[:1200])
print(classifier.cutoff_)
calls = classifier.predict(X[1200:])
print(f"New digits: {calls.sum()} calls.")

figure, axes = plt.subplots(1, 6, figsize=(7, 1.9), layout="constrained")
for i, axis in enumerate(axes):
    axis.imshow(X[1200 + i].reshape(8, 8), cmap="Greys")
    names = [h.labels[k] for k in calls[i].nonzero()[0]]
    axis.set_title(max(names, key=len, default="no call"), fontsize=9)
    axis.axis("off")
figure.savefig("from_features.png", dpi=130)
