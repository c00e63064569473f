"""Texts in a taxonomy, with scikit-learn.

From documents to calls: a vectorizer and one logistic regression per topic, and a cutoff for at
most 20 % incorrect calls. The vectorizer is part of the classifier, so that it never sees the texts
that the cutoff is chosen on. The words are invented; the example needs no download.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from hierlpr import HierarchicalClassifier, Hierarchy

n = 500 if os.environ.get("SMALL") else 2000
h = Hierarchy.from_paths([
    "science/physics/optics", "science/physics/fluids", "science/biology/genetics",
    "arts/music/opera", "arts/music/jazz", "arts/painting",
])  # fmt: skip
rng = np.random.default_rng(0)
leaves = [name for name in h.labels if not h.children(name)]
topics = [
    [str(t) for t in rng.choice(leaves, size=rng.integers(1, 3), replace=False)] for _ in range(n)
]


def words(topic):
    """Return words of some topics and of all labels above them."""
    own = [t for name in topic for t in [name, *h.ancestors(name)]]
    return [f"{rng.choice(own)}{rng.integers(12)}" for _ in range(4 * len(topic))]


texts = [
    " ".join([*words(topic), *(f"common{k}" for k in rng.integers(200, size=40))])
    for topic in topics
]
truth = np.zeros((n, h.n_labels), dtype=bool)
for row, topic in enumerate(topics):
    truth[row, [h.index(t) for name in topic for t in [name, *h.ancestors(name)]]] = True

half = n // 2
estimator = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10))
model = HierarchicalClassifier(estimator, hierarchy=h, fdr=0.2, random_state=0)
model.fit(texts[:half], truth[:half])
calls = model.predict(texts[half:])
correct = (calls & truth[half:]).sum()
print(model.cutoff_)
print(f"New texts: {calls.sum():,} calls, {correct / calls.sum():.1%} correct, "
      f"{correct / truth[half:].sum():.1%} of the topics found.")  # fmt: skip

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
found = [(calls[:, k] & truth[half:, k]).sum() / truth[half:, k].sum() for k in range(h.n_labels)]
axes.barh(h.labels, found, color="tab:blue")
axes.invert_yaxis()
axes.set(xlabel="share of its texts that are called", xlim=(0, 1))
figure.savefig("texts.png", dpi=130)
