import numpy as np
import pytest

from hierlpr import Hierarchy, metrics
from hierlpr.exceptions import DataError
from hierlpr.metrics.hierarchical import sibling_costs

#      A       F
#    B   C
#   D E
H = Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("B", "E")], labels=list("ABCDEF"))
TRUTH = np.array([[1, 1, 0, 1, 0, 0], [1, 0, 1, 0, 0, 1]])
CALLS = np.array([[1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]])


def test_by_hand():
    # Sample 1: C and E false, D missed. Sample 2: A and C missed.
    assert metrics.hierarchical_precision_score(TRUTH, CALLS, H) == 3 / 5
    assert metrics.hierarchical_recall_score(TRUTH, CALLS, H) == 3 / 6
    assert metrics.hierarchical_f_score(TRUTH, CALLS, H) == pytest.approx(6 / 11)
    # H-loss: D, E, C count in sample 1 (their parents are right); only A in sample 2.
    assert metrics.h_error(TRUTH, CALLS, H) == (3 + 1) / 2
    # Sibling costs: A, F 1/2; B, C 1/4; D, E 1/8.
    costs = sibling_costs(H)
    np.testing.assert_array_equal(costs, [1 / 2, 1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 2])
    first, second = 1 / 4 + 1 / 8 + 1 / 8, 1 / 2 + 1 / 4
    assert metrics.hierarchical_hamming_error(TRUTH, CALLS, H) == (first + second) / 2


def test_costs_on_a_dag_add_the_shares_of_all_parents():
    diamond = Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("C", "E")])
    costs = dict(zip(diamond.labels, sibling_costs(diamond), strict=True))
    assert costs == {"A": 1.0, "B": 0.5, "C": 0.5, "D": 0.75, "E": 0.25}


def test_violations():
    scores = np.array([[0.1, 0.5, 0.0, 0.6, 0.2, 0.9]])
    assert metrics.violations_error(scores, H) == 2  # A < B, B < D
    order = np.argsort(-scores[0], kind="stable")
    assert metrics.order_violations_error(np.zeros(6, int), order, H) == 2
    # Only the first two calls, F and D: B was not called before D.
    assert metrics.order_violations_error([0, 0], order[:2], H) == 1
    assert metrics.order_violations_error([], [], H) == 0
    # A sample whose children alone are listed, whatever its number.
    assert metrics.order_violations_error([7, 2], [1, 1], H) == 2


@pytest.mark.parametrize(
    ("sample", "label"), [([0], [6]), ([0], [-1]), ([-1], [0]), ([0, 0], [1]), ([[0]], [[1]])]
)
def test_an_order_of_instances_that_do_not_exist_is_refused(sample, label):
    with pytest.raises(DataError, match="sample"):
        metrics.order_violations_error(sample, label, H)
