"""Labels with several parents.

In a DAG such as the Gene Ontology a label waits for all of its parents. Labels that are worth
calling together form blocks; the drawing shows the blocks of one sample by colour.
"""

import matplotlib.pyplot as plt

from hierlpr import Hierarchy, rank

h = Hierarchy.from_parents({
    "process": None,
    "metabolism": "process",
    "transport": "process",
    "lipid metabolism": "metabolism",
    "lipid transport": ["transport", "lipid metabolism"],
    "ion transport": "transport",
    "cholesterol efflux": "lipid transport",
})  # fmt: skip
lpr = {
    "process": 0.99, "metabolism": 0.80, "transport": 0.35, "lipid metabolism": 0.60,
    "lipid transport": 0.75, "ion transport": 0.05, "cholesterol efflux": 0.90,
}  # fmt: skip
ranking = rank([[lpr[name] for name in h.labels]], h)
for i, k in enumerate(ranking.label):
    own, score = ranking.lpr[i], ranking.score[i]
    print(f"{i + 1}. {h.labels[k]:20} own {own:.2f}   block {score:.3f}")
print("certified to be the best order:", bool(ranking.certified.all()))

place = {
    "process": (2, 3), "metabolism": (1, 2), "transport": (3, 2), "lipid metabolism": (1, 1),
    "lipid transport": (2.2, 0.2), "ion transport": (3.6, 1), "cholesterol efflux": (2.2, -0.8),
}  # fmt: skip
colours = plt.get_cmap("Set2").colors
blocks = {score: i for i, score in enumerate(dict.fromkeys(ranking.score.round(6)))}
figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
for parent, child in h.edges:
    axes.annotate(
        "", place[child], place[parent],
        arrowprops={"arrowstyle": "-|>", "color": "grey", "shrinkA": 20, "shrinkB": 22},
    )  # fmt: skip
for k, score in zip(ranking.label, ranking.score, strict=True):
    name = h.labels[k]
    axes.text(
        *place[name], f"{name}\n{lpr[name]:.2f}, block {score:.2f}", ha="center", va="center",
        bbox={"boxstyle": "round", "facecolor": colours[blocks[round(score, 6)]]},
    )  # fmt: skip
axes.set(xlim=(0.2, 4.4), ylim=(-1.3, 3.5))
axes.axis("off")
figure.savefig("several_parents.png", dpi=130)
