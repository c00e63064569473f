"""What a pair without a score means: complete and listed scores, and labels that are implied."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR
from hierlpr.baselines.rank_functions import propagate_max_sparse
from hierlpr.data.listed import as_kind, close_listed
from hierlpr.data.tables import Table
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.lpr import fit_listed
from hierlpr.metrics import au_prc_score, calibration_error

N_FIT = 400


def population(seed=0, *, n=1600, n_labels=40):
    """A DAG whose root nearly always holds, with scores on a scale of their own for each label."""
    rng = np.random.default_rng(seed)
    parents = {0: []}
    for k in range(1, n_labels):
        chosen = {int(rng.integers(max(0, k // 4 - 3), max(1, k // 2)))}
        if k > 5 and rng.random() < 0.3:
            chosen.add(int(rng.integers(0, k // 2)))
        parents[k] = sorted(chosen)
    edges = [(f"L{p}", f"L{k}") for k in parents for p in parents[k]]
    h = Hierarchy(edges, labels=[f"L{k}" for k in range(n_labels)])
    truth = np.zeros((n, n_labels), bool)
    for k in range(n_labels):
        above = truth[:, parents[k]].all(axis=1) if parents[k] else np.ones(n, bool)
        truth[:, k] = above & (rng.random(n) < (rng.uniform(0.2, 0.7) if parents[k] else 0.98))
    scores = rng.normal(size=truth.shape) + rng.uniform(0.5, 2.5, n_labels) * truth
    return h, truth, scores * rng.uniform(0.1, 5.0, n_labels) + rng.normal(size=n_labels) * 3


def list_of(h, scores, kind):
    """CSR of the pairs that a predictor lists: the best leaves, or what is above a threshold."""
    high = scores > np.quantile(scores, 0.6, axis=0)
    if kind == "leaves":
        high &= np.array([not h.children(label) for label in h.labels])
    row, column = np.nonzero(high)
    return sparse.csr_array((scores[row, column], (row, column)), shape=scores.shape)


@pytest.fixture(scope="module")
def case():
    h, truth, scores = population()
    return h, truth, scores, list_of(h, scores, "leaves")


@pytest.fixture(scope="module")
def model(case):
    h, truth, _, listed = case
    return HierLPR(h).fit(listed[:N_FIT], truth[:N_FIT])


# -- implied labels ----------------------------------------------------------------------------


def test_closing_gives_the_largest_value_listed_below():
    h = Hierarchy(
        [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("D", "E")], labels=list("ABCDEF")
    )
    values = sparse.csr_array(
        (np.array([0.2, 0.7, 0.0, 0.5]), (np.array([0, 0, 1, 2]), np.array([1, 4, 3, 5]))),
        shape=(4, 6),
    )
    closed = close_listed(values, h)
    assert closed.row_ptr.tolist() == [0, 5, 9, 10, 10]
    got = {(h.labels[k]): (v, bool(i)) for k, v, i in list(zip(*closed[1:], strict=True))[:5]}
    assert got == {"A": (0.7, True), "B": (0.2, False), "C": (0.7, True), "D": (0.7, True),
                   "E": (0.7, False)}  # fmt: skip
    # A stored zero is listed; above it nothing is known to be more likely than 0.
    assert closed.value[5:9].tolist() == [0.0] * 4
    assert closed.is_implied[5:9].tolist() == [True, True, True, False]


@pytest.mark.parametrize("kind", ["leaves", "threshold"])
@pytest.mark.parametrize("method", ["auto", "isotonic"])
def test_listed_scores_are_as_good_as_those_propagated_beforehand(kind, method):
    """Unlisted ancestors used to enter with LPR 0: this failed by .1 in precision and gap."""
    results = []
    for seed in range(3):
        h, truth, scores = population(seed)
        # Propagation compares scores of different labels, so it gets its best case: one scale.
        scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
        listed = list_of(h, scores, kind)
        row = []
        for values in (listed, propagate_max_sparse(listed, h)):
            m = HierLPR(h, lpr=method, joint=False).fit(values[:N_FIT], truth[:N_FIT])
            found = m.predict_proba(values[N_FIT:])
            stored = np.zeros(truth[N_FIT:].shape, bool)
            stored[found.nonzero()] = True
            dense, held = found.toarray(), truth[N_FIT:]
            row.append((au_prc_score(held, dense), calibration_error(held[stored], dense[stored])))
        results.append(row)
    area, gap = np.mean(results, axis=0).T
    assert area[0] > area[1] - 0.005
    assert gap[0] < 0.03


def test_a_root_that_always_holds_is_called_with_what_it_implies(case, model):
    h, truth, _, listed = case
    new = listed[N_FIT:]
    root = h.index("L0")
    assert new[:, [root]].nnz == 0  # it is never listed
    order = model.rank(new)
    first = order[0]
    assert first.label == "L0"
    assert first.lpr > 0.9
    lpr = model.transform(new)[:, [root]].toarray().ravel()
    implied = np.diff(new.indptr) > 0
    assert abs(lpr[implied].mean() - truth[N_FIT:, root][implied].mean()) < 0.02
    assert (lpr[~implied] == 0.0).all()
    assert not h.violations(model.predict(new).toarray())


def test_implied_labels_are_left_out_of_the_curves_of_listed_ones():
    """A label that holds whenever it is implied must not raise its own low scores."""
    h = Hierarchy([("A", "B")])
    rng = np.random.default_rng(0)
    n = 900
    truth = np.zeros((n, 2), bool)
    truth[: n // 3] = True  # only B is listed, and both hold
    score = rng.uniform(0.1, 1.0, n)
    truth[n // 3 :, 0] = rng.random(n - n // 3) < score[n // 3 :] ** 3
    listed = sparse.lil_array((n, 2))
    listed[: n // 3, 1] = rng.uniform(0.1, 1.0, n // 3)
    listed[n // 3 :, 0] = score[n // 3 :]
    lpr, _ = fit_listed(sparse.csr_array(listed), Truth.of(truth), h, method="auto")
    assert lpr.predict([[0.2, 0.0]])[0, 0] < 0.1
    assert lpr.predict([[0.95, 0.0]])[0, 0] > 0.7


# -- the two kinds -----------------------------------------------------------------------------


def test_a_calibrated_model_refuses_the_other_kind(case, model):
    """Calibrated on CSR and used on dense, precision used to be short of its target in silence."""
    h, truth, scores, listed = case
    model.calibrate(listed[N_FIT:], truth[N_FIT:], precision=0.7)
    dense = listed[N_FIT:].toarray()
    uses = (model.predict, model.predict_proba, model.rank, model.transform, model.call_lists)
    for use in uses:
        with pytest.raises(DataError, match="fitted on listed scores"):
            use(dense)
    with pytest.raises(DataError, match=r"scipy.sparse.csr_array\(scores\) if 0 means not listed"):
        model.predict(dense[:1])  # one sample
    for learn in (model.calibrate, model.score):
        options = {"precision": 0.7} if learn == model.calibrate else {}
        with pytest.raises(DataError, match="fitted on listed scores"):
            learn(dense, truth[N_FIT:], **options)
    complete = HierLPR(h, lpr="isotonic", joint=False).fit(scores[:N_FIT], truth[:N_FIT])
    with pytest.raises(DataError, match=r"fitted on complete scores.*\nHint.*toarray"):
        complete.predict(listed)


def test_what_says_the_same_is_converted(case, model):
    h, truth, scores, _ = case
    full = as_kind(Table(scores, h.labels, from_complete_list=True), "listed").values
    assert full.nnz == scores.size
    complete = HierLPR(h, lpr="isotonic", joint=False).fit(scores[:N_FIT], truth[:N_FIT])
    np.testing.assert_array_equal(complete.predict_proba(full), complete.predict_proba(scores))
    # A table that lists every pair is a list too: fitted as such, it gives the same.
    listed = HierLPR(h, lpr="isotonic", joint=False).fit(full[:N_FIT], truth[:N_FIT])
    assert listed.kind_ == "listed"
    np.testing.assert_allclose(
        listed.predict_proba(full).toarray(), complete.predict_proba(scores), rtol=1e-12
    )
    with pytest.warns(HierlprWarning, match="distributed differently"):  # it lists far more
        assert (
            model.rank(Table(scores, h.labels, from_complete_list=True)).n_instances == scores.size
        )


# -- awkward lists -----------------------------------------------------------------------------


def test_awkward_entries(case, model):
    h, _, _, listed = case
    new = sparse.csr_array(listed[N_FIT:])
    plain = model.predict_proba(new)
    # A row that lists nothing has nothing to call, and changes nothing for the others.
    holes = sparse.csr_array(sparse.vstack([new[:5], sparse.csr_array((2, h.n_labels)), new[5:]]))
    got = model.predict_proba(holes)
    assert got[5:7].nnz == 0
    assert (got[7:] != plain[5:]).nnz == 0
    # Repeated entries add up, as SciPy has it, before they are scores.
    row = np.repeat(np.arange(new.shape[0]), np.diff(new.indptr))
    halves = sparse.coo_array(
        (np.tile(new.data / 2, 2), (np.tile(row, 2), np.tile(new.indices, 2))), shape=new.shape
    )
    assert abs(model.predict_proba(halves) - plain).max() < 1e-12
    # A stored zero is a listed score.
    zero = sparse.csr_array((np.zeros(1), (np.zeros(1, int), np.array([h.n_labels - 1]))),
                            shape=(1, h.n_labels))  # fmt: skip
    assert model.transform(zero).nnz == 1 + len(h.ancestors(h.labels[-1]))
    assert model.rank(zero).lpr.max() > 0.0


def test_a_label_that_the_fit_never_saw_has_the_shared_curve(case):
    h, truth, _, listed = case
    last = h.n_labels - 1
    fitted = sparse.csr_array(listed[:N_FIT] * (np.arange(h.n_labels) != last))
    fitted.eliminate_zeros()
    m = HierLPR(h, joint=False).fit(fitted, truth[:N_FIT])
    assert m.lpr_.report.shared_weight[last] == 1.0
    lpr = m.transform(listed)[:, [last]].tocoo()
    assert lpr.nnz > 0
    assert 0.0 < lpr.data.min() <= lpr.data.max() < 1.0


def test_missing_values_are_not_stored_ones(case):
    h, truth, _, listed = case
    broken = listed[:N_FIT].copy()
    broken.data[3] = np.nan
    with pytest.raises(DataError, match="not finite"):
        HierLPR(h, missing_scores="allow").fit(broken, truth[:N_FIT])
    m = HierLPR(h, missing_scores="allow").fit(listed[:N_FIT], truth[:N_FIT])
    with pytest.raises(DataError, match="not finite"):
        m.predict(broken)


# -- changing and saving -----------------------------------------------------------------------


def test_labels_come_and_go(case):
    h, truth, scores, listed = case
    m = HierLPR(h, joint=False).fit(listed[:N_FIT], truth[:N_FIT])
    without = np.flatnonzero(listed[:, [39]].toarray().ravel() == 0.0)  # L39 implies nothing there
    before = m.transform(listed[without]).toarray()[:, :39]
    m.remove_labels(["L39"])
    np.testing.assert_array_equal(m.transform(listed[without][:, :39]).toarray(), before)
    parents = [(p, "L39") for p in h.parents("L39")]
    with pytest.raises(DataError, match="fitted on listed scores"):
        m.add_labels(parents, scores[:N_FIT, 39:], truth[:N_FIT, 39:])
    m.add_labels(parents, listed[:N_FIT, [39]], truth[:N_FIT, 39:])
    assert m.implied_.curves.n_labels == m.hierarchy_.n_labels
    assert not m.hierarchy_.violations(m.predict(listed).toarray())


def test_what_is_implied_is_learned_from_lprs_that_did_not_see_the_sample():
    """With a handful of scores a label, LPRs of the samples fitted on know which are right."""
    rng = np.random.default_rng(0)
    n, n_groups, each = 400, 30, 30
    edges = [(f"G{g}", f"G{g}-{k}") for g in range(n_groups) for k in range(each)]
    h = Hierarchy(edges, labels=[*(f"G{g}" for g in range(n_groups)), *(c for _, c in edges)])
    truth = np.zeros((2 * n, h.n_labels), bool)
    listed = np.zeros(truth.shape, bool)
    for m in range(2 * n):  # ten listed leaves, each right in one of three cases
        chosen = rng.choice(n_groups * each, 10, replace=False) + n_groups
        listed[m, chosen] = True
        truth[m, chosen[rng.random(10) < 1 / 3]] = True
    truth = h.close_upward(truth)
    row, column = np.nonzero(listed)
    scores = sparse.csr_array((rng.random(row.size), (row, column)), shape=truth.shape)
    m = HierLPR(h, lpr="isotonic", joint=False).fit(scores[:n], truth[:n])
    lpr = m.transform(scores[n:])[:, :n_groups].toarray()
    found = lpr > 0.0
    # Learned from the very samples, these LPRs were near 0 or near 1: a gap of .23.
    assert calibration_error(truth[n:, :n_groups][found], lpr[found]) < 0.1
