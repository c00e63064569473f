import numpy as np

from cases import random_dag
from hierlpr import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents


def test_rarest_parents_of_random_dags():
    rng = np.random.default_rng(1)
    for _ in range(30):
        h = random_dag(rng, 12)
        prevalence = rng.integers(1, 4, 12) / 4  # ties go to the smaller topological number
        found = rarest_parents(h, prevalence)
        for number, label in enumerate(h.labels[k] for k in h.order):
            parents = sorted(h.position[h.index(p)] for p in h.parents(label))
            expected = min(parents, key=lambda p: prevalence[h.order[p]], default=-1)
            assert found[number] == expected


def test_rarest_parents_without_edges():
    h = Hierarchy([], labels=["A", "B"])
    assert rarest_parents(h, np.array([0.1, 0.2])).tolist() == [-1, -1]


def test_paths_are_shown_by_what_follows_the_label_above():
    paths = Hierarchy.from_paths(["A/B/C", "A/B2"])
    assert str(paths).splitlines()[1:] == ["A", "├─ …/B", "│  └─ …/C", "└─ …/B2"]
    named = Hierarchy([("A", "A;B"), ("A", "A;c")], names={"A;B": "B", "A;c": "cat"})
    assert str(named).splitlines()[1:] == ["A", "├─ …;B", "└─ …;c (cat)"]
    codes = Hierarchy([("A00", "A00.0"), ("A00", "A001")])
    assert str(codes).splitlines()[1:] == ["A00", "├─ A00.0", "└─ A001"]
