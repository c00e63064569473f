import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy
from hierlpr.exceptions import DataError, HierarchyError


@pytest.fixture
def diamond():
    return Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")], labels=["X", "D"])


def test_labels_keep_the_users_order(diamond):
    assert diamond.labels == ("X", "D", "A", "B", "C")
    assert [diamond.index(x) for x in diamond.labels] == [0, 1, 2, 3, 4]


def test_reading(diamond):
    assert diamond.roots == ("X", "A")
    assert set(diamond.leaves) == {"X", "D"}
    assert diamond.parents("D") == ("B", "C")
    assert diamond.children("A") == ("B", "C")
    assert diamond.ancestors("D") == ("A", "B", "C")
    assert set(diamond.descendants("A")) == {"B", "C", "D"}
    assert (diamond.n_labels, diamond.n_edges, diamond.depth) == (5, 4, 3)
    assert not diamond.is_forest
    assert diamond.levels.tolist() == [1, 3, 1, 2, 2]
    assert [label in diamond for label in "AZ"] == [True, False]
    assert "DAG, 5 labels" in repr(diamond)


def test_a_forest_is_numbered_depth_first():
    h = Hierarchy([("A", "B"), ("A", "C"), ("B", "D")])
    assert [h.labels[i] for i in h.order] == ["A", "B", "D", "C"]


def test_repeated_edges_are_merged_and_counted():
    h = Hierarchy([("A", "B"), ("A", "B"), ("A", "C"), ("A", "B")])
    assert (h.n_edges, h.n_merged_edges) == (2, 2)


def test_from_parents_paths_and_networkx_agree(named):
    given = Hierarchy.from_parents({"B": "A", "C": ["A", "D"], "E": None})
    assert given.labels == ("B", "C", "E", "A", "D")
    assert set(given.edges) == {("A", "B"), ("A", "C"), ("D", "C")}
    paths = Hierarchy.from_paths(["A.B", "A.C.D"], sep=".")
    assert paths.labels == ("A", "A.B", "A.C", "A.C.D")
    with pytest.raises(HierarchyError, match="empty segment"):
        Hierarchy.from_paths(["A//B"])
    nx = pytest.importorskip("networkx")
    assert Hierarchy.from_networkx(named.to_networkx()) == named
    again = Hierarchy.from_networkx(given.to_networkx())
    assert (again, hash(again)) == (given, hash(given))
    with pytest.raises(HierarchyError, match="undirected"):
        Hierarchy.from_networkx(nx.Graph([("A", "B")]))


def test_subset_passes_edges_through_and_adds_no_implied_ones():
    chain = Hierarchy([("A", "B"), ("B", "C"), ("C", "D")])
    assert chain.subset(["D", "A"]).edges == (("A", "D"),)
    # A -> X -> B and A -> C -> B: without X, A -> B is implied by A -> C -> B.
    h = Hierarchy([("A", "X"), ("X", "B"), ("A", "C"), ("C", "B")])
    assert set(h.subset(["A", "B", "C"]).edges) == {("A", "C"), ("C", "B")}
    assert h.subset(h.labels) == h
    with pytest.raises(HierarchyError, match="'Q'"):
        h.subset(["A", "Q"])
    with pytest.raises(HierarchyError, match="Duplicate"):
        h.subset(["A", "A"])


def test_it_cannot_be_changed_and_copies_are_equal(diamond):
    with pytest.raises(AttributeError, match="cannot be changed"):
        diamond.labels = ()
    with pytest.raises(ValueError, match="read-only"):
        diamond.order[0] = 3
    assert copy.deepcopy(diamond) is diamond
    assert pickle.loads(pickle.dumps(diamond)) == diamond
    assert diamond != "diamond"


@pytest.mark.parametrize(
    ("edges", "labels", "message"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], None, "cycle: a -> b -> c -> a"),
        ([("r", "a"), ("a", "b"), ("b", "a")], None, "cycle: a -> b -> a"),
        ([("a", "a")], None, "'a' is its own parent"),
        ([("a", "")], None, "empty name"),
        ([("a", "  ")], None, "empty name"),
        ([(1, 2)], None, "must be strings, got 1"),
        ([("a", "b", "c")], None, "expected a pair"),
        ([5], None, "expected a pair"),
        ("h.csv", None, "read_hierarchy reads files"),
        ([(None, "b")], None, "leave out edges without a parent"),
        ([], ["x", "y", "x"], "Duplicate label 'x', at positions 0 and 2"),
        ([], None, "no labels"),
        ([], "abc", "single string"),
    ],
)
def test_bad_hierarchies_say_what_is_wrong(edges, labels, message):
    with pytest.raises(HierarchyError, match=message):
        Hierarchy(edges, labels=labels)


def test_close_upward_dense_and_sparse(diamond):
    truth = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    closed = diamond.close_upward(truth)
    expected = [[0, 1, 1, 1, 1], [0, 0, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert closed.dtype == bool
    assert closed.astype(int).tolist() == expected
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        assert diamond.close_upward(kind(truth)).toarray().astype(int).tolist() == expected


def test_violations_of_truth_and_of_scores(diamond):
    truth = diamond.close_upward([[0, 1, 0, 0, 0]])
    assert len(diamond.violations(truth)) == 0
    found = diamond.violations([[0.0, 0.9, 0.5, 0.7, 0.9], [1.0, 0.1, 0.3, 0.2, 0.2]])
    assert sorted(found) == [(0, "A", "B"), (0, "A", "C"), (0, "B", "D")]


def test_matrices_of_the_wrong_width_are_refused(diamond):
    with pytest.raises(DataError, match=r"expected \(n_samples, 5\)"):
        diamond.close_upward([[1, 0]])
    with pytest.raises(DataError, match="dtype"):
        diamond.violations([["a", "b", "c", "d", "e"]])


def test_deep_and_wide_hierarchies_build_without_recursion():
    names = [f"n{i}" for i in range(100_000)]
    chain = Hierarchy(list(pairwise(names)))
    assert chain.depth == 100_000
    star = Hierarchy([(names[0], name) for name in names[1:]])
    assert (star.depth, len(star.children(names[0]))) == (2, 99_999)


# -- names for people ----------------------------------------------------------------------------


@pytest.fixture
def named():
    edges = [("C", "C9"), ("C9", "C91"), ("C9", "C92")]
    return Hierarchy(edges, names={"C": "cancer", "C91": "lymphoid <b>leukemia</b>"})


def test_names_stand_beside_labels_and_never_replace_them(named):
    assert named.labels == ("C", "C9", "C91", "C92")
    assert dict(named.names) == {"C": "cancer", "C91": "lymphoid <b>leukemia</b>"}
    assert (named.name("C"), named.name("C9")) == ("cancer", "C9")
    assert (named.caption("C"), named.caption("C9")) == ("C (cancer)", "C9")
    assert Hierarchy(labels=["cat"], names={"cat": "cat"}).caption("cat") == "cat"
    with pytest.raises(HierarchyError, match=r"no label 'C93'[^$]*did you mean 'C9"):
        named.name("C93")
    with pytest.raises(TypeError):
        named.names["C"] = "x"


def test_names_follow_their_labels(named):
    assert dict(named.subset(["C", "C92"]).names) == {"C": "cancer"}
    assert pickle.loads(pickle.dumps(named)) == named
    more = named.with_names({"C92": "myeloid leukemia", "C": "neoplasm"})
    assert (more.name("C92"), more.name("C")) == ("myeloid leukemia", "neoplasm")
    assert (more.edges, more.labels) == (named.edges, named.labels)
    assert named.name("C") == "cancer"
    assert more != named
    assert hash(Hierarchy(named.edges, named.labels, named.names)) == hash(named)


@pytest.mark.parametrize("name", ["", "  ", None, 3, ["a"]])
def test_a_name_must_be_visible_text(name):
    with pytest.raises(HierarchyError, match="name of label 'A' must be visible text"):
        Hierarchy([("A", "B")], names={"A": name})


def test_a_name_for_an_unknown_label_is_not_dropped_in_silence(named):
    with pytest.raises(HierarchyError, match=r"2 name\(s\) are for labels.*'X', 'Y'"):
        Hierarchy([("A", "B")], names={"X": "x", "A": "a", "Y": "y"})
    with pytest.raises(HierarchyError, match=r"1 name\(s\)"):
        named.with_names({"Z": "z"})


def test_a_cycle_shows_no_control_characters():
    edges = [("\x1b[31mA", "B"), ("B", "C"), ("C", "\x1b[31mA")]
    with pytest.raises(HierarchyError, match=r"cycle: \\x1b\[31mA -> B -> C") as caught:
        Hierarchy(edges)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (Hierarchy, "list of pairs"),
        (Hierarchy.from_parents, "must map each label"),
        (Hierarchy.from_networkx, "must be a networkx graph"),
        (Hierarchy.from_paths, "must be a list such as"),
        (lambda x: Hierarchy([], labels=x), "must be a list of names"),
    ],
)
def test_objects_of_another_kind(build, expected):
    with pytest.raises(HierarchyError, match=expected):
        build(5)
