"""A report looks at a few samples at a time: its numbers are those of all instances at once."""

import errno
import io
import tempfile

import numpy as np
import pytest
from scipy import sparse
from whole_curves import whole_order

from hierlpr import Hierarchy, HierLPR
from hierlpr.lpr import own_lpr
from hierlpr.metrics.cafa import propagate_max_sparse
from hierlpr.plots import evidence, orders
from hierlpr.report.report_page import gather
from hierlpr.research.baselines import propagate_max

EDGES = {
    "tree": [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (5, 6)],
    "dag": [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5), (2, 6)],
}


def drawn(rng, shape, *, steps, n, listed=False, missing=False):
    h = Hierarchy([(f"L{a}", f"L{b}") for a, b in EDGES[shape]])
    truth = h.close_upward(rng.random((n, h.n_labels)) < 0.15)
    scores = np.clip(rng.normal(0.35, 0.2, truth.shape) + 0.3 * truth, 0.01, 1.0)
    scores = np.maximum(1, np.round(scores * steps)) / steps  # few steps: many ties
    if listed:
        return h, sparse.csr_array(np.where(rng.random(scores.shape) < 0.6, scores, 0.0)), truth
    if missing:
        scores[rng.random(scores.shape) < 0.1] = np.nan
    return h, scores, truth


CASES = [
    # shape, steps, listed, missing, weighted, unknown, truth
    ("tree", 7, False, False, False, False, True),
    ("tree", 10**6, False, False, True, True, True),
    ("dag", 9, False, False, True, False, True),
    ("dag", 10**6, False, True, False, True, True),
    ("dag", 10**6, True, False, True, True, True),
    ("tree", 5, True, False, False, False, True),
    ("dag", 10**6, False, False, False, False, False),
    ("tree", 10**6, False, True, True, False, False),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [1, 60])
def test_the_numbers_are_those_of_all_instances_at_once(case, n, monkeypatch):
    shape, steps, listed, missing, weighted, holes, has_truth = case
    rng = np.random.default_rng(n + len(shape) + steps)
    options = {"listed": listed, "missing": missing}
    h, scores, truth = drawn(rng, shape, steps=steps, n=200, **options)
    model = HierLPR(h, joint=False, missing="allow" if missing else "error").fit(scores, truth)
    h, scores, truth = drawn(rng, shape, steps=steps, n=n, **options)
    given = truth.astype(float)
    if holes:
        given[rng.random(given.shape) < 0.1] = np.nan
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    told = {"sample_weight": weight, "max_samples": 5}
    at_once = gather(model, scores, given if has_truth else None, **told)
    # Few marks, many parts, and values that wait in a file: as of very many instances.
    monkeypatch.setattr(evidence, "PART", 40)
    monkeypatch.setattr(orders, "MORE_MARKS", 4)
    monkeypatch.setattr(orders, "HELD_BYTES", 64)
    report = gather(model, scores, given if has_truth else None, **told)
    assert_same_answers(report, at_once)
    study, n_calls = report.study, report.answer.n_calls
    everyone = study.take(np.arange(n))
    raise_up = propagate_max_sparse if listed else propagate_max
    matrices = {
        "hierlpr": everyone.block_score,
        "lpr": own_lpr(model.lpr_, everyone.scores),
        "max": raise_up(everyone.scores, h),
        "raw": everyone.scores,
    }
    about = (everyone.truth, everyone.unknown, study.weight, n_calls)
    _, _, prices = whole_order(matrices["hierlpr"], *about)
    which = "right" if has_truth else "expected"
    assert [row.n_calls for row in report.answer.tradeoffs] == prices[which]
    for curve in report.methods:
        areas, there, _ = whole_order(matrices[curve.key], *about)
        np.testing.assert_allclose([curve.au_prc, curve.hit_area], areas)
        assert curve.precision_there == (None if there is None else pytest.approx(there))
        if not listed:
            assert curve.violations == len(h.violations(matrices[curve.key]))


def assert_same_answers(report, other):
    ours, theirs = report.answer, other.answer
    for name in ("n_instances", "n_positives", "n_calls", "n_true_calls", "n_violations", "claim",
                 "headline", "cost", "warnings", "n_called_samples"):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("precision", "recall", "f1", "expected", "precision_range", "recall_range"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    assert (
        report.choice == other.choice or report.choice.rows.tolist() == other.choice.rows.tolist()
    )
    assert report.labels == other.labels
    for view, same in zip(report.samples, other.samples, strict=True):
        assert view.label.tolist() == same.label.tolist()
        assert view.block.tolist() == same.block.tolist()
    for name in ("calibration", "block_calibration"):
        mine, whole = getattr(report, name), getattr(other, name)
        assert (mine is None) == (whole is None)
        if mine is not None:
            assert mine.error == pytest.approx(whole.error)
            assert [b.n for b in mine.bins] == [b.n for b in whole.bins]


@pytest.mark.parametrize("shape", ["tree", "dag"])
def test_what_is_shown_of_a_sample_is_ranked_as_in_the_whole(shape, monkeypatch):
    monkeypatch.setattr("hierlpr.report.entries.MOST_ENTRIES", 0)
    monkeypatch.setattr("hierlpr.report.entries.FEWEST_LABELS", 3)
    rng = np.random.default_rng(5)
    h, scores, truth = drawn(rng, shape, steps=8, n=150)
    model = HierLPR(h, joint=False).fit(scores, truth)
    for row, view in enumerate(gather(model, scores, truth).samples):
        ranked = model.rank(scores[[row]])
        order = [k for k in ranked.label.tolist()]
        wanted = [k for k in order if truth[row, k] or model.predict(scores[[row]])[0, k]]
        shown = set((wanted + [k for k in order if k not in wanted])[:3])
        assert view.label.tolist() == [k for k in order if k in shown]
        np.testing.assert_array_equal(
            view.score, ranked.score[[order.index(k) for k in view.label.tolist()]]
        )


def test_a_full_disk_for_waiting_numbers_is_named(tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(orders, "SpooledTemporaryFile", lambda **options: Full())
    with orders.Waiting(tmp_path) as waiting, pytest.raises(OSError, match="No space") as caught:
        waiting.append(np.zeros(3), np.empty(0))
    assert caught.value.filename == str(tmp_path)
    with orders.Waiting() as waiting, pytest.raises(OSError, match="No space") as caught:
        waiting.append(np.zeros(3), np.empty(0))
    assert caught.value.filename == tempfile.gettempdir()
