"""A report on new samples, of which nothing is known; and names for people beside codes."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from watching import HOSTILE

from hierlpr import Hierarchy, HierLPR
from hierlpr.report import write_report
from hierlpr.report.answer import _names_headline, percent
from hierlpr.report.report_page import gather, render

CLAIMS_OF_TRUTH = ("incorrect", "missed", "Recall", "F1", "95 % CI", "AU(PRC)")


@pytest.fixture(scope="module")
def report(disease):
    return gather(disease.model, disease.scores, None)


def test_it_counts_calls_and_what_the_model_expects(disease, report):
    answer, model = report.answer, disease.model
    calls = model.predict(disease.scores)
    assert not answer.has_truth
    assert answer.n_calls == calls.sum()
    assert answer.n_called_samples == calls.any(axis=1).sum()
    assert answer.expected == pytest.approx(model.predict_proba(disease.scores)[calls].mean())
    assert (answer.precision, answer.recall, answer.f1) == (None, None, None)
    assert (answer.precision_range, answer.recall_range) == (None, None)
    assert answer.claim == f"{percent(answer.expected)} expected to be correct"
    assert report.summary.methods == ()


def test_nothing_on_the_page_needs_truth(disease, report):
    page = render(report)
    words = page[page.index("<main") : page.index('<script type="application/json"')]
    assert not [claim for claim in CLAIMS_OF_TRUTH if claim in words.replace("AUC", "")]
    assert "truth not known" in page
    assert '"hasTruth":false' in page
    assert page.count("<figure>") == 1
    known = render(gather(disease.model, disease.scores, disease.truth))
    assert all(claim in known for claim in ("incorrect", "missed", "recall"))


def test_listed_scores_no_calls_and_one_sample(disease):
    h = Hierarchy([("A", "B")])
    rng = np.random.default_rng(0)
    truth = np.repeat([[1, 1], [1, 0], [0, 0]], 20, axis=0)
    scores = sparse.csr_array(np.where(rng.random((60, 2)) < 0.8, truth + rng.random((60, 2)), 0))
    model = HierLPR(h, joint=False).fit(scores, truth)
    answer = gather(model, scores, None).answer
    proba, calls = model.predict_proba(scores), model.predict(scores)
    called = proba.multiply(calls) if sparse.issparse(calls) else proba[calls]
    assert answer.expected == pytest.approx(called.sum() / calls.sum())
    model.set_cutoff(1.0)
    nothing = gather(model, scores[:1], None).answer
    assert (nothing.n_calls, nothing.expected, nothing.claim) == (0, None, "")
    assert "no calls" in render(gather(model, scores[:1], None))


def test_it_works_in_a_browser(watch, tmp_path, disease):
    path = tmp_path / "r.html"
    write_report(path, disease.model, disease.scores)
    page = watch(path)
    assert page.inner_text("#samples-summary").endswith("calls.")
    assert page.locator("#samples-panel .outcome").count() == 0
    orders = page.locator("#sample-order option").all_inner_texts()
    assert orders == ["as given", "most calls first"]
    page.select_option("#sample-order", "most calls first")
    text = page.inner_text("#samples-tree") + page.inner_text("#labels-table")
    assert not [claim for claim in ("correct", "missed", "true") if claim in text]
    with page.expect_download() as download:
        page.click("#samples-calls button.csv")
    head = download.value.path().read_text(encoding="utf-8-sig").splitlines()[0]
    assert head == "sample,label,lpr,block_score,called,why"


def test_names_stand_beside_codes_and_are_only_text(watch, tmp_path):
    h = Hierarchy([("I00-I99", "I50"), ("I50", "I50.1"), ("I00-I99", "I20")])
    names = {"I50": "Heart failure", "I50.1": HOSTILE[0], "I20": "Angina, =1+1"}
    rng = np.random.default_rng(0)
    truth = h.close_upward(rng.random((120, 4)) < 0.3)
    scores = truth + rng.normal(size=truth.shape)
    model = HierLPR(h.with_names(names)).fit(scores, truth).set_cutoff(0.4)
    path = tmp_path / "r.html"
    write_report(path, model, scores[:20] + 0.01, truth[:20])
    page = watch(path)
    for place in ("#hierarchy-tree", "#labels-table"):
        assert "I50 (Heart failure)" in page.text_content(place)
        assert f"I50.1 ({HOSTILE[0]})" in page.text_content(place)
    page.fill("#hierarchy-search", "heart fail")
    page.press("#hierarchy-search", "Enter")
    assert page.inner_text("#hierarchy-panel h3") == "I50 (Heart failure)"
    assert "I50 (Heart failure)" in page.text_content("#samples-calls")
    with page.expect_download() as download:
        page.click("#labels-tools button.csv")
    lines = download.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0].startswith("label,name,positives in the fit")
    assert any(line.startswith("I50,Heart failure,") for line in lines)


@pytest.mark.parametrize(
    ("wrong", "verdict"), [(0.1, "kept"), (0.105, "within the CI"), (0.2, "missed")]
)
def test_an_error_above_the_promise_is_not_called_kept(wrong, verdict):
    names = SimpleNamespace(n_named=200, error=0.1, wrong=wrong)
    assert _names_headline(names, 200, "")[3] == verdict
