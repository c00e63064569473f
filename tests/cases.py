"""Random cases with many ties, for NumPy loops and for hypothesis."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from hierlpr import Hierarchy, simulate
from hierlpr.cutoff.choose import cutoff_for
from hierlpr.cutoff.goal import goals_of
from hierlpr.cutoff.instances import list_instances


def write(path, content):
    """Write text or bytes to a file; return its path."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def random_forest(rng, n_labels, root_share=0.25):
    """Parent of each label by number (parents first), -1 for roots."""
    return [
        -1 if i == 0 or rng.random() < root_share else int(rng.integers(0, i))
        for i in range(n_labels)
    ]


def random_lpr(rng, n, ties):
    """Uniform LPRs, or ones from a coarse grid if `ties`."""
    return rng.integers(0, 5, size=n) / 4.0 if ties else rng.random(n)


def hierarchy_of(parent, names=None):
    """Hierarchy of labels L0, L1, ... whose parents are given by number."""
    names = names or [f"L{i}" for i in range(len(parent))]
    edges = [(names[p], names[i]) for i, p in enumerate(parent) if p >= 0]
    return Hierarchy(edges, labels=names)


def by_number(hierarchy, row):
    """One sample's values in topological order, and the parents of each number."""
    parents = [
        hierarchy.parent_idx[hierarchy.parent_ptr[i] : hierarchy.parent_ptr[i + 1]].tolist()
        for i in range(hierarchy.n_labels)
    ]
    return np.asarray(row)[hierarchy.order], parents


@st.composite
def scored_forests(draw, max_labels=7, max_samples=4):
    """A forest and an LPR matrix on a coarse grid, which is where ranking code breaks."""
    n_labels = draw(st.integers(1, max_labels))
    parent = [draw(st.integers(-1, i - 1)) for i in range(n_labels)]
    n_samples = draw(st.integers(1, max_samples))
    levels = draw(st.sampled_from([1, 3, 10, 1000]))
    cell = st.integers(0, levels).map(lambda v: v / levels)
    rows = st.lists(cell, min_size=n_labels, max_size=n_labels)
    lpr = draw(st.lists(rows, min_size=n_samples, max_size=n_samples))
    return hierarchy_of(parent), np.array(lpr)


def random_dag(rng, n_labels, density=None, names=None):
    """Hierarchy of labels L0, L1, ... in random user order; any earlier label may be a parent."""
    density = rng.random() * 0.8 if density is None else density
    names = names or [f"L{i}" for i in range(n_labels)]
    pairs = [(a, b) for b in range(n_labels) for a in range(b) if rng.random() < density]
    listed = [names[i] for i in rng.permutation(n_labels)]
    return Hierarchy([(names[a], names[b]) for a, b in pairs], labels=listed)


def random_dag_lpr(rng, hierarchy, kind, ties):
    """One sample: uniform LPRs, ones that decay with depth, or sparse ones."""
    lpr = rng.random(hierarchy.n_labels)
    if kind == "decaying":
        lpr *= 0.6 ** (hierarchy.levels - 1)
    elif kind == "sparse":
        lpr *= rng.random(hierarchy.n_labels) < 0.4
    return np.rint(lpr * 4) / 4 if ties else lpr


@st.composite
def scored_dags(draw, max_labels=8, max_samples=4):
    """A DAG and an LPR matrix on a coarse grid."""
    n_labels = draw(st.integers(1, max_labels))
    names = [f"L{i}" for i in range(n_labels)]
    edges = [
        (names[p], names[i])
        for i in range(1, n_labels)
        for p in draw(st.sets(st.integers(0, i - 1), max_size=3))
    ]
    h = Hierarchy(edges, labels=draw(st.permutations(names)))
    levels = draw(st.sampled_from([1, 2, 4, 1000]))
    cell = st.integers(0, levels).map(lambda v: v / levels)
    rows = st.lists(cell, min_size=n_labels, max_size=n_labels)
    return h, np.array(draw(st.lists(rows, min_size=1, max_size=max_samples)))


DIAMOND = Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")], labels=["D", "E", "A"])


def falling_scores(h, n_samples, rng):
    """Scores that never rise from parent to child, with many ties."""
    score = np.random.default_rng(rng).integers(1, 8, (n_samples, h.n_labels)) / 8
    for number in range(h.n_labels):
        above = h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]]
        for parent in above:
            own, its = h.order[number], h.order[parent]
            score[:, own] = np.minimum(score[:, own], score[:, its])
    return score


def write_obo(path, hierarchy):
    """Write a hierarchy of one namespace as the CAFA evaluator reads it."""
    lines = ["format-version: 1.2"]
    for label in hierarchy.labels:
        lines += ["", "[Term]", f"id: {label}", f"name: {label}", "namespace: all"]
        lines += [f"is_a: {parent}" for parent in hierarchy.parents(label)]
    path.write_text("\n".join(lines) + "\n")


def deepest_labels(predictions):
    """Return the last label listed for each sample, -1 for none."""
    parts = np.split(predictions.scores.indices, predictions.scores.indptr[1:-1])
    return np.array([part[-1] if part.size else -1 for part in parts])


FEATURE_TREE = Hierarchy([("A", "B"), ("A", "C"), ("B", "D")], labels=["A", "B", "C", "D", "E"])


def features(n_samples, rng):
    """Features of samples, and their labels in `FEATURE_TREE`."""
    rng = np.random.default_rng(rng)
    x = rng.normal(size=(n_samples, 6))
    noisy = x[:, :5] + 0.5 * rng.normal(size=(n_samples, 5))
    truth = noisy > [-0.3, 0.0, 0.0, 0.0, 0.5]
    truth[:, 1:3] &= truth[:, :1]
    truth[:, 3] &= truth[:, 1]
    return x, truth


def one_path_case(rng, n_samples=60):
    """A forest, LPRs with ties, truth of one path per sample, and prevalences."""
    h = simulate.random_forest(int(rng.integers(1, 9)), rng=rng)
    ends = rng.integers(-1, h.n_labels, size=n_samples)
    truth = np.zeros((n_samples, h.n_labels), dtype=bool)
    truth[np.flatnonzero(ends >= 0), ends[ends >= 0]] = True
    truth = np.asarray(h.close_upward(truth))
    lpr = np.rint(np.clip(truth * 0.5 + rng.random(truth.shape) * 0.5, 0, 1) * 8) / 8
    return h, lpr, truth, truth.mean(axis=0)


def choose_cutoff(score, truth=None, *, profile=None, unreachable=None, **goal):
    """Choose the cutoff for one goal from matrices of block scores and truth, or `Instances`."""
    (wanted,) = goals_of(**goal)
    if truth is not None:
        score, truth = (x if sparse.issparse(x) else np.asarray(x) for x in (score, truth))
        score = list_instances(score, truth)
    return cutoff_for(wanted, score, profile=profile, unreachable=unreachable)
