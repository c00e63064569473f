"""All procedures on the whole Gene Ontology."""

import gzip

import numpy as np
import pytest
from scipy.stats import norm

from hierlpr import Hierarchy, discover
from realdata import DATA, needs_data

pytestmark = [needs_data, pytest.mark.slow]


@pytest.fixture(scope="module")
def ontology():
    with gzip.open(DATA / "go" / "edges.tsv.gz", "rt") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return Hierarchy([(row[0], row[1]) for row in rows])


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["positive", "arbitrary", "independent"])
def test_closed_and_monotone_on_the_gene_ontology(ontology, kind, missing):
    h = ontology
    rng = np.random.default_rng(0)
    signal = h.close_upward(rng.random((1, h.n_labels)) < 0.01)[0]
    p = norm.sf(rng.normal(size=h.n_labels) + 3.0 * signal)
    p[rng.random(h.n_labels) < missing] = np.nan
    found = discover(p, h, 0.1, kind)
    parent, child = np.repeat(h.order, np.diff(h.child_ptr)), h.order[h.child_idx]
    assert np.all(found.level[child] >= found.level[parent])
    assert np.all(found.lpr[child] <= found.lpr[parent])
    assert not np.any(found.is_rejected[child] & ~found.is_rejected[parent])
    assert found.is_rejected.sum() > 20
    assert (found.is_rejected & ~signal).sum() <= 0.2 * found.is_rejected.sum()
