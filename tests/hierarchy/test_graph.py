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
