"""The paper's simulation settings by name, and a forest like its disease data."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.simulate.generative import QUALITY, Model, Simulation, random_model

FIXED_CONDITIONAL = 0.95
_MOST_ATTEMPTS = 1000
_N_SAMPLES = 196

# Parent (- for a root) and quality (high, medium, low) of the labels A, B, C, ... Settings 1 to 4
# are those of the paper's Figure 3; in tree25 high-quality labels are below low-quality ones and
# the other way round.
_TREES: Mapping[str, tuple[str, str]] = {
    "1": ("-AB", "hlh"),
    "2": ("-AA", "hlh"),
    "3": ("-AB", "llh"),
    "4": ("---", "hml"),
    "tree25": ("-AAAABBBCCDDDEEFFGIJKKMNO", "hhmlmlhmhlhmlhlhmlmhlhmlh"),
}
SETTINGS = (*_TREES, "1-fixed", "2-fixed", "3-fixed", "tree25-fixed")


def setting_model(name: str | int, *, rng: Any = None) -> Model:
    """Draw a model of a setting, with random conditional probabilities.

    Parameters
    ----------
    name : str or int
        ``1``: chain of a high, low and high quality label; ``2``: a high quality label with
        children of low and high quality; ``3``: chain low, low, high; ``4``: three standalone
        labels, high, medium and low; ``"tree25"``: a tree of 25 labels of mixed quality. Names
        with ``-fixed``: the probability of a label given its parent is 0.95.
    rng : seed or Generator

    Examples
    --------
    >>> setting_model(2, rng=0).hierarchy.edges
    (('A', 'B'), ('A', 'C'))
    """
    name = str(name)
    if name not in SETTINGS:
        raise DataError(
            f"There is no setting {name!r}; choose one of {', '.join(SETTINGS)}.\n"
            "Hint: the disease-like example is simulate.disease()."
        )
    parents, qualities = _TREES[name.removesuffix("-fixed")]
    labels = [chr(ord("A") + k) for k in range(len(parents))]
    edges = [(p, label) for p, label in zip(parents, labels, strict=True) if p != "-"]
    # In a deep tree uniform probabilities would leave no positives at the leaves.
    lowest = 0.3 if name.startswith("tree25") else 0.0
    conditional = np.random.default_rng(rng).uniform(lowest, 1.0, len(labels))
    if name.endswith("-fixed"):
        conditional[[p != "-" for p in parents]] = FIXED_CONDITIONAL
    eta = np.array([next(QUALITY[q] for q in QUALITY if q[0] == x) for x in qualities])
    hierarchy = Hierarchy(edges, labels=labels)
    return random_model(hierarchy, quality=eta, conditional=conditional, name=name)


def train_test(
    name: str | int, *, n_train: int = 5000, n_test: int = 1000, rng: Any = None
) -> tuple[Simulation, Simulation]:
    """Draw training and test samples from one random model of a setting of `setting_model`.

    Models are redrawn until every label has the paper's share of positives: 15 of 5,000 training
    samples.

    Examples
    --------
    >>> train, test = train_test(3, rng=0)
    >>> train.n_samples, test.n_samples, bool((train.truth.sum(axis=0) >= 15).all())
    (5000, 1000, True)
    """
    generator = np.random.default_rng(rng)
    least = -(-15 * n_train // 5000)
    for _ in range(_MOST_ATTEMPTS):
        model = setting_model(name, rng=generator)
        train = model.draw(n_train, generator)
        if train.truth.sum(axis=0).min() >= least:
            return train, model.draw(n_test, generator)
    raise DataError(
        f"No model of setting {name!r} gave every label {least} positives among {n_train} samples "
        f"in {_MOST_ATTEMPTS} attempts.\nHint: draw more samples."
    )


def disease(*, n_samples: int = _N_SAMPLES, rng: Any = 0) -> Simulation:
    """Draw the disease-like example: 110 labels in 24 trees, many of them rare.

    The number of positives of each label is fixed (scaled if `n_samples` is not 196); which
    samples they are, and the scores, depend on `rng`.

    Examples
    --------
    >>> d = disease(rng=0)
    >>> d
    <Simulation 'disease': 196 samples x 110 labels, 5.89% positive>
    >>> len(d.hierarchy.roots), d.hierarchy.depth
    (24, 6)
    """
    if n_samples < 12:
        raise DataError(f"The disease example needs at least 12 samples, got {n_samples}.")
    generator = np.random.default_rng(rng)
    labels, parent, base_counts, eta, copies = _read_forest()
    # Rounding is monotone, so a label has at most as many positives as its parent.
    scaled = np.rint(np.array(base_counts) * (n_samples / _N_SAMPLES))
    counts = np.maximum(1, scaled.astype(int))
    truth = np.zeros((n_samples, len(labels)), dtype=bool)
    for k, above in enumerate(parent):
        if copies[k]:
            truth[:, k] = truth[:, above]
            continue
        # A random subset of fixed size: marginally, each sample follows the model exactly.
        candidates = np.arange(n_samples) if above < 0 else np.flatnonzero(truth[:, above])
        truth[generator.choice(candidates, counts[k], replace=False), k] = True
    within = [n_samples if above < 0 else counts[above] for above in parent]
    edges = [(labels[p], labels[k]) for k, p in enumerate(parent) if p >= 0]
    hierarchy = Hierarchy(edges, labels=labels)
    conditional = counts / np.array(within, dtype=np.float64)
    model = Model("disease", hierarchy, conditional, np.array(eta), np.array(copies))
    return model.score(truth, generator)


def _read_forest() -> tuple[list[Any], ...]:
    """Return label, parent, positives, eta and "copies its parent" of each line of disease.txt.

    A line is "label | positives among 196 samples, quality of the classifier"; "=" stands for the
    positives and scores of the parent, and indentation gives the hierarchy. The shape is that of
    the published summary of the real data; names, counts and qualities are made up.
    """
    rows: list[tuple[str, int, int, float, bool]] = []
    path: list[int] = []
    for line in files("hierlpr.simulate").joinpath("disease.txt").read_text("utf-8").splitlines():
        name, _, rest = line.partition("|")
        path = path[: (len(name) - len(name.lstrip())) // 2]
        parent = path[-1] if path else -1
        path.append(len(rows))
        if is_copy := rest.strip() == "=":
            _, _, count, eta, _ = rows[parent]
        else:
            number, quality = rest.split()
            count, eta = int(number), QUALITY[quality]
        rows.append((name.strip(), parent, count, eta, is_copy))
    return tuple(map(list, zip(*rows, strict=True)))
