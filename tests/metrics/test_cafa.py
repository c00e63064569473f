import numpy as np
import pytest
from scipy import sparse

from cases import write_obo
from hierlpr import Hierarchy, metrics, simulate


def write_cafa(folder, hierarchy, truth, scores, weight):
    """One namespace as OBO, truth and predictions of the given labels, and weights."""
    write_obo(folder / "terms.obo", hierarchy)
    names = hierarchy.labels
    rows = [f"T{m}\t{names[k]}" for m, k in zip(*np.nonzero(truth), strict=True)]
    (folder / "truth.tsv").write_text("\n".join(rows) + "\n")
    (folder / "predictions").mkdir()
    rows = [f"T{m}\t{names[k]}\t{scores[m, k]!r}" for m, k in np.argwhere(scores).tolist()]
    rows = [row.replace("np.float64(", "").replace(")", "") for row in rows]
    (folder / "predictions" / "p.tsv").write_text("\n".join(rows) + "\n")
    pairs = (f"{name}\t{w!r}" for name, w in zip(names, weight.tolist(), strict=True))
    (folder / "ia.tsv").write_text("\n".join(pairs) + "\n")


@pytest.mark.filterwarnings("ignore")  # the evaluator uses what pandas deprecates
@pytest.mark.parametrize("kind", ["tree", "dag"])
def test_agrees_with_the_cafa_evaluator(tmp_path, kind):
    evaluation = pytest.importorskip("cafaeval.evaluation")
    rng = np.random.default_rng(3)
    draw = simulate.random_tree if kind == "tree" else simulate.random_dag
    h = draw(30, rng=rng)
    drawn = simulate.random_model(h, conditional=0.7, root=0.999, rng=rng).draw(60, rng=rng)
    has_any = drawn.truth.any(axis=1)  # the evaluator knows targets by their annotations only
    truth, scores = drawn.truth[has_any], np.round(drawn.scores[has_any], 2)
    scores[rng.random(scores.shape) < 0.6] = 0.0
    scores[:5] = 0.0
    weight = metrics.information_accretion(truth, h)
    write_cafa(tmp_path, h, truth, scores, weight)
    frame, best = evaluation.cafa_eval(
        str(tmp_path / "terms.obo"), str(tmp_path / "predictions"), str(tmp_path / "truth.tsv"),
        ia=str(tmp_path / "ia.tsv"), norm="cafa",
    )  # fmt: skip
    theirs = frame.reset_index()
    for suffix, weights in (("", None), ("_w", weight)):
        curve = metrics.cafa_curve(truth, scores, h, weight=weights)
        reached = curve.coverage > 0 if weights is None else reached  # noqa: F821
        pairs = {
            "pr": curve.precision, "rc": curve.recall, "f": curve.f, "cov": curve.coverage,
            "ru": curve.remaining_uncertainty, "mi": curve.misinformation, "s": curve.s,
            "pr_micro": curve.pooled_precision, "rc_micro": curve.pooled_recall,
        }  # fmt: skip
        for name, ours in pairs.items():
            np.testing.assert_allclose(ours[reached], theirs[name + suffix], atol=1e-12)
    f_max = metrics.cafa_f_max_score(truth, scores, h)
    assert f_max == pytest.approx(best["f"]["f"].iloc[0], abs=1e-12)
    s_min = metrics.s_min_error(truth, scores, h, weight=weight)
    assert s_min == pytest.approx(frame["s_w"].min(), abs=1e-12)


def test_by_hand():
    h = Hierarchy([("A", "B"), ("A", "C")])
    truth = [[1, 1, 0], [1, 0, 1]]
    scores = [[0.0, 0.8, 0.6], [0.4, 0.0, 0.0]]
    # At 0.5 sample 1 calls A, B, C (A from below), sample 2 nothing.
    curve = metrics.cafa_curve(truth, scores, h, thresholds=[0.5])
    assert (curve.precision[0], curve.recall[0], curve.coverage[0]) == (2 / 3, 0.5, 0.5)
    assert (curve.remaining_uncertainty[0], curve.misinformation[0]) == (1.0, 0.5)
    assert curve.f[0] == pytest.approx(4 / 7)
    assert curve.s[0] == pytest.approx(np.sqrt(1.25))
    np.testing.assert_array_equal(metrics.information_accretion(truth, h), [0, 1, 1])


def test_accretion_on_a_dag_and_of_absent_labels():
    h = Hierarchy([("A", "C"), ("B", "C"), ("C", "D")])
    truth = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    # A and B each hold in 3 of 4; both in 2, of which one has C; D never.
    by_label = dict(zip(h.labels, metrics.information_accretion(h_order(truth, h), h), strict=True))
    assert by_label == {"A": np.log2(4 / 3), "B": np.log2(4 / 3), "C": 1.0, "D": 0.0}


def h_order(truth, h):
    return np.array(truth)[:, ["ABCD".index(x) for x in h.labels]]


def test_sparse_and_dense_are_the_same():
    drawn = simulate.disease(rng=1)
    scores = np.where(drawn.scores > 0.6, drawn.scores, 0.0)
    dense = metrics.cafa_curve(drawn.truth, scores, drawn.hierarchy)
    thin = metrics.cafa_curve(
        sparse.csr_array(drawn.truth), sparse.csr_array(scores), drawn.hierarchy
    )
    np.testing.assert_array_equal(dense.f, thin.f)
    np.testing.assert_array_equal(dense.s, thin.s)


def test_stored_zeros_of_the_caller_stay():
    h = Hierarchy([("A", "B"), ("A", "C")])
    truth = sparse.csr_array(np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]))
    scores = sparse.csr_array(np.array([[0.9, 0.2, 0.4], [0.7, 0.3, 0.6]]))
    truth.data[[1, 5]] = scores.data[[0, 4]] = 0.0
    before = truth.copy(), scores.copy()
    dense = metrics.cafa_f_max_score(truth.toarray(), scores.toarray(), h)
    assert metrics.cafa_f_max_score(truth, scores, h) == dense
    metrics.s_min_error(truth, scores, h)
    metrics.information_accretion(truth, h)
    for now, then in zip((truth, scores), before, strict=True):
        np.testing.assert_array_equal(now.data, then.data)
        np.testing.assert_array_equal(now.indices, then.indices)
