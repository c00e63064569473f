"""Populations by name: the paper's simulation settings, and a forest like its disease data."""

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


_N_SAMPLES = 196

# Label | positives among 196 samples, quality of the classifier; "=" marks a label with the very
# positives and scores of its parent. Indentation is the hierarchy. The published summary of the
# real data fixes the shape: 110 labels in 24 trees, 11 of one and 6 of two labels, the largest of
# 28 and 30, depth 6 (median 2), 10 labels with several children; 3 to 62 positives, 5.89 % on
# average; 26 labels that repeat their parents. Names, counts and qualities are made up.
_FOREST = """
Neoplasm | 62 medium
  Carcinoma | 33 medium
    Adenocarcinoma | 4 medium
      Breast adenocarcinoma | 3 high
        Invasive ductal carcinoma | =
          Triple-negative ductal carcinoma | =
    Squamous cell carcinoma | 6 high
      Oral squamous cell carcinoma | 5 high
    Renal cell carcinoma | 11 high
      Clear cell renal carcinoma | 8 high
    Hepatocellular carcinoma | 3 high
    Urothelial carcinoma | 11 low
  Hematologic neoplasm | 20 high
    Leukemia | 12 high
      Acute leukemia | 10 high
        Acute myeloid leukemia | =
    Lymphoma | 4 low
      Diffuse large B-cell lymphoma | =
    Multiple myeloma | 4 low
  Sarcoma | 18 medium
    Ewing sarcoma | =
  Neuroectodermal tumor | 15 high
    Neuroblastoma | =
  Glioma | 24 high
    Glioblastoma | =
  Melanoma | 20 high
  Germ cell tumor | 12 high
  Mesothelioma | 17 high
  Pituitary adenoma | 5 high
  Thyroid nodule | 21 medium
Neurological disorder | 52 high
  Neurodegenerative disease | 23 high
    Alzheimer disease | 8 low
      Early-onset Alzheimer disease | =
    Huntington disease | 3 high
    Parkinson disease | 9 low
      Familial Parkinson disease | =
    Amyotrophic lateral sclerosis | 3 low
  Neuromuscular disease | 20 high
    Muscular dystrophy | 5 medium
      Duchenne muscular dystrophy | =
    Inflammatory myopathy | 5 high
      Dermatomyositis | 4 medium
        Juvenile dermatomyositis | =
    Myasthenia gravis | 4 high
  Psychotic disorder | 13 high
    Schizophrenia | 8 high
      Paranoid schizophrenia | =
  Mood disorder | 4 low
    Bipolar disorder | =
  Demyelinating disease | 4 high
    Multiple sclerosis | =
      Relapsing multiple sclerosis | =
  Epilepsy | 14 high
  Cerebrovascular disorder | 10 medium
    Stroke | =
  Peripheral neuropathy | 8 high
  Autism spectrum disorder | 15 low
Immune system disorder | 40 high
  Arthritis | 26 high
    Rheumatoid arthritis | 20 medium
      Juvenile rheumatoid arthritis | =
  Lupus | 25 high
    Lupus nephritis | =
  Psoriasis | 7 medium
  Immunodeficiency | 10 high
  Sarcoidosis | 10 high
    Pulmonary sarcoidosis | =
Cardiovascular disorder | 28 medium
  Cardiomyopathy | 7 high
    Dilated cardiomyopathy | =
  Coronary artery disease | 18 medium
    Myocardial infarction | =
  Hypertension | 15 high
    Pulmonary hypertension | 12 low
Lung disease | 22 high
  Asthma | 7 low
  Chronic obstructive pulmonary disease | 12 medium
    Emphysema | =
  Pulmonary fibrosis | 7 high
Metabolic disorder | 20 medium
  Diabetes mellitus | 13 medium
    Type 2 diabetes | =
  Obesity | 4 medium
Intestinal disorder | 12 medium
  Inflammatory bowel disease | 10 high
    Crohn disease | 7 medium
Kidney disease | 7 high
  Glomerulonephritis | 5 medium
Liver disease | 6 medium
  Cirrhosis | =
Skin disorder | 7 high
  Eczema | =
Eye disease | 4 low
  Macular degeneration | =
Blood disorder | 10 high
  Anemia | 8 high
Viral infection | 5 low
  HIV infection | 4 high
Endometriosis | 6 medium
Periodontitis | 14 medium
Osteoarthritis | 5 low
Preeclampsia | 5 low
Sepsis | 7 medium
Down syndrome | 4 low
Cystic fibrosis | 10 high
Hyperparathyroidism | 5 medium
Polycystic ovary syndrome | 7 low
Aortic aneurysm | 13 high
Malaria | 11 medium
"""


def disease(*, n_samples: int = _N_SAMPLES, rng: Any = 0) -> Simulation:
    """Draw the disease-like example: 110 labels in 24 trees, many of them rare.

    The number of positives of each label is fixed (and scaled if `n_samples` is not 196); which
    samples they are, and all scores, depend on `rng`.

    Examples
    --------
    >>> d = disease(rng=0)
    >>> d
    <Simulation 'disease': 196 samples x 110 labels, 5.89% positive>
    >>> len(d.hierarchy.roots), d.hierarchy.depth
    (24, 6)
    """
    generator = np.random.default_rng(rng)
    labels, parent, base_counts, eta, copies = _parse()
    counts = _scaled(base_counts, n_samples)
    truth = np.zeros((n_samples, len(labels)), dtype=bool)
    for k, above in enumerate(parent):
        if copies[k]:
            truth[:, k] = truth[:, above]
            continue
        # A random subset of fixed size: each sample alone follows the model exactly.
        candidates = np.arange(n_samples) if above < 0 else np.flatnonzero(truth[:, above])
        truth[generator.choice(candidates, counts[k], replace=False), k] = True
    within = [n_samples if above < 0 else counts[above] for above in parent]
    edges = [(labels[p], labels[k]) for k, p in enumerate(parent) if p >= 0]
    hierarchy = Hierarchy(edges, labels=labels)
    model = Model("disease", hierarchy, counts / np.array(within, float), eta, copies)
    return model.score(truth, generator)


def _parse() -> tuple[list[str], list[int], list[int], Any, Any]:
    labels: list[str] = []
    parent: list[int] = []
    counts: list[int] = []
    eta: list[float] = []
    copies: list[bool] = []
    path: list[int] = []
    for line in _FOREST.strip("\n").splitlines():
        name, _, rest = line.partition("|")
        path = path[: (len(name) - len(name.lstrip())) // 2]
        above = path[-1] if path else -1
        path.append(len(labels))
        same = rest.strip() == "="
        count, quality = ("0", "") if same else rest.split()
        labels.append(name.strip())
        parent.append(above)
        counts.append(counts[above] if same else int(count))
        eta.append(eta[above] if same else QUALITY[quality])
        copies.append(same)
    return labels, parent, counts, np.array(eta), np.array(copies)


def _scaled(counts: list[int], n_samples: int) -> Any:
    if n_samples < 12:
        raise DataError(f"The disease example needs at least 12 samples, got {n_samples}.")
    # Rounding is monotone, so a label keeps at most the positives of its parent.
    return np.maximum(1, np.rint(np.array(counts) * (n_samples / _N_SAMPLES)).astype(int))
