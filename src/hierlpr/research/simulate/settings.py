"""The paper's simulation settings by name, as models and as drawn samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.research.simulate.generative import QUALITY, Model, Simulation, random_model

FIXED_CONDITIONAL = 0.95
_MOST_ATTEMPTS = 1000

_Tree = Mapping[str, tuple[str | None, str]]  # label -> parent, quality

# The three-label settings of the paper's Figure 3.
_CHAIN_HIGH_LOW_HIGH: _Tree = {"A": (None, "high"), "B": ("A", "low"), "C": ("B", "high")}
_BRANCHES: _Tree = {"A": (None, "high"), "B": ("A", "low"), "C": ("A", "high")}
_CHAIN_LOW_LOW_HIGH: _Tree = {"A": (None, "low"), "B": ("A", "low"), "C": ("B", "high")}
_ALONE: _Tree = {"A": (None, "high"), "B": (None, "medium"), "C": (None, "low")}

# One tree of 25 labels on four levels; every branch mixes qualities, so that good labels stand
# below poor ones and the other way round.
_TREE25: _Tree = {
    "A": (None, "high"),
    "B": ("A", "high"), "C": ("A", "medium"), "D": ("A", "low"), "E": ("A", "medium"),
    "F": ("B", "low"), "G": ("B", "high"), "H": ("B", "medium"),
    "I": ("C", "high"), "J": ("C", "low"),
    "K": ("D", "high"), "L": ("D", "medium"), "M": ("D", "low"),
    "N": ("E", "high"), "O": ("E", "low"),
    "P": ("F", "high"), "Q": ("F", "medium"), "R": ("G", "low"), "S": ("I", "medium"),
    "T": ("J", "high"), "U": ("K", "low"), "V": ("K", "high"), "W": ("M", "medium"),
    "X": ("N", "low"), "Y": ("O", "high"),
}  # fmt: skip

_TREES: Mapping[str, _Tree] = {
    "1": _CHAIN_HIGH_LOW_HIGH,
    "2": _BRANCHES,
    "3": _CHAIN_LOW_LOW_HIGH,
    "4": _ALONE,
    "tree25": _TREE25,
}


def _on_tree(name: str, *, fixed: bool) -> Callable[[Any], Model]:
    tree = _TREES[name]
    hierarchy = Hierarchy.from_parents({label: parent for label, (parent, _) in tree.items()})
    eta = np.array([QUALITY[quality] for _, quality in tree.values()])

    def make(rng: Any) -> Model:
        generator = np.random.default_rng(rng)
        # In a deep tree uniform draws leave nothing at the leaves; these keep every label alive.
        chances = generator.uniform(0.3 if name == "tree25" else 0.0, 1.0, hierarchy.n_labels)
        is_root = np.array([parent is None for parent, _ in tree.values()])
        if fixed:
            chances = np.where(is_root, chances, FIXED_CONDITIONAL)
        full_name = f"{name}-fixed" if fixed else name
        return random_model(hierarchy, quality=eta, conditional=chances, name=full_name)

    return make


SETTINGS: Mapping[str, Callable[[Any], Model]] = {
    **{name: _on_tree(name, fixed=False) for name in _TREES},
    **{f"{name}-fixed": _on_tree(name, fixed=True) for name in ("1", "2", "3", "tree25")},
}


def setting_model(name: str | int, *, rng: Any = None) -> Model:
    """Draw the conditional probabilities of a setting; its samples come from ``model.draw``.

    Parameters
    ----------
    name : str or int
        ``1``: chain of a high, low and high quality label; ``2``: a high quality label with
        children of low and high quality; ``3``: chain low, low, high; ``4``: three standalone
        labels, high, medium and low; ``"tree25"``: one tree of 25 labels of mixed quality. Ending
        in ``-fixed``: the probability of a label given its parent is 0.95 everywhere.
    rng : seed or Generator

    Examples
    --------
    >>> setting_model(2, rng=0).hierarchy.edges
    (('A', 'B'), ('A', 'C'))
    """
    try:
        return SETTINGS[str(name)](rng)
    except KeyError:
        known = ", ".join(SETTINGS)
        raise DataError(
            f"There is no setting {str(name)!r}; choose one of {known}.\n"
            "Hint: the disease-like example is simulate.disease()."
        ) from None


def setting(
    name: str | int, *, n_samples: int = 5000, min_positives: int | None = None, rng: Any = None
) -> Simulation:
    """Draw samples of one of the paper's settings; see `setting_model` for their names.

    Models are drawn until every label has at least `min_positives` positives; the default is the
    paper's share, 15 of 5,000.

    Examples
    --------
    >>> setting(1, n_samples=1000, rng=0)
    <Simulation '1': 1,000 samples x 3 labels, 27.67% positive>
    """
    return draw_supported(name, n_samples=n_samples, min_positives=min_positives, rng=rng)[1]


def train_test(
    name: str | int,
    *,
    n_train: int = 5000,
    n_test: int = 1000,
    min_positives: int | None = None,
    rng: Any = None,
) -> tuple[Simulation, Simulation]:
    """Draw a training and a test part from the same random model of a setting.

    As in the paper, every label has at least 15 positives among 5,000 training samples
    (`min_positives`; the same share for other sizes).

    Examples
    --------
    >>> train, test = train_test(3, rng=0)
    >>> train.n_samples, test.n_samples, bool((train.truth.sum(axis=0) >= 15).all())
    (5000, 1000, True)
    """
    generator = np.random.default_rng(rng)
    model, train = draw_supported(
        name, n_samples=n_train, min_positives=min_positives, rng=generator
    )
    return train, model.draw(n_test, generator)


def draw_supported(
    name: str | int, *, n_samples: int = 5000, min_positives: int | None = None, rng: Any = None
) -> tuple[Model, Simulation]:
    """Draw models of a setting until samples of one give every label enough positives.

    Returns that model, from which more can be drawn, and the samples; arguments as in `setting`.

    Examples
    --------
    >>> model, samples = draw_supported(4, n_samples=1000, rng=0)
    >>> model.draw(10, rng=1).n_samples
    10
    """
    generator = np.random.default_rng(rng)
    wanted = -(-15 * n_samples // 5000) if min_positives is None else min_positives
    for _ in range(_MOST_ATTEMPTS):
        model = setting_model(name, rng=generator)
        drawn = model.draw(n_samples, generator)
        if drawn.truth.sum(axis=0).min() >= wanted:
            return model, drawn
    raise DataError(
        f"No model of setting {name!r} gave every label {wanted} positives among {n_samples} "
        f"samples in {_MOST_ATTEMPTS} attempts.\nHint: more samples, or a smaller min_positives."
    )
