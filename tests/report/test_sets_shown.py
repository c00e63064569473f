"""Sure and possible labels in a report, and a model that was moved to another population."""

import copy

import numpy as np
import pytest
from watching import Watched

from hierlpr import HierLPR, simulate
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.report import write_report
from hierlpr.report.report_page import _data, gather, render


@pytest.fixture(scope="module")
def case():
    data = simulate.disease(n_samples=900, rng=1)
    model = HierLPR(data.hierarchy, joint=False).fit(data.scores[:400], data.truth[:400])
    model.calibrate_sets(data.scores[400:700], data.truth[400:700], error=0.2, confidence=0.8)
    return model, data.scores[700:], data.truth[700:]


def test_the_promise_and_how_it_was_kept(case):
    model, scores, truth = case
    sets = model.predict_sets(scores)
    words = gather(model, scores, truth).answer.sets
    assert "In at least 80 % of samples like those of the calibration all sure labels" in words[0]
    assert "with 80 % confidence. 300 calibration samples stand behind it." in words[0]
    assert f"Here {sets.sure.sum() / 200:.3g} labels a sample are sure" in words[1]
    kept = 100 * (1 - (sets.sure & ~truth).any(axis=1).mean())
    found = 100 * (1 - (truth & ~sets.possible).any(axis=1).mean())
    assert f"in {kept:.0f} % of these samples" in words[2]
    assert words[2].endswith(f"in {found:.0f} %.")
    assert len(gather(model, scores, None).answer.sets) == 2
    page = render(gather(model, scores, truth))
    assert "Sure and possible labels, sample by sample" in page
    plain = copy.copy(model)
    plain.sets_ = None
    assert "Sure and possible labels" not in render(gather(plain, scores, truth))


def test_every_entry_of_a_sample_says_its_set(case):
    model, scores, truth = case
    report = gather(model, scores, truth, max_samples=20)
    words = model.predict_sets(scores).words()
    data = _data(report)
    assert data["sets"] == SET_WORDS
    for row, view, shown in zip(report.choice.rows, report.samples, data["samples"], strict=True):
        entries = np.array(shown["entries"]).reshape(-1, 5)
        assert [SET_WORDS[place] for place in (entries[:, 4] >> 4) & 3] == [
            words[row, label] for label in entries[:, 0]
        ]
        assert np.array_equal(entries[:, 4] >> 6, view.reason)


def test_the_page_shows_them(case, browser, tmp_path):
    model, scores, truth = case
    write_report(tmp_path / "page.html", model, scores, truth, max_samples=20)
    watched = Watched(browser, tmp_path / "page.html")
    page = watched.page
    assert "In at least 80\N{NO-BREAK SPACE}%" in page.inner_text("#answer")
    assert "For this sample" in page.inner_text("#samples-panel")
    columns = "e => getComputedStyle(e).gridTemplateColumns.split(' ').map(parseFloat)"
    assert page.locator("#samples-panel dl").evaluate(columns)[1] >= 80  # no word is broken
    page.click("#samples-list summary")
    assert "set" in page.inner_text("#samples-list thead")
    assert "sure" in page.inner_text("#samples-list tbody")
    watched.close()


def test_an_adapted_model_says_that_nothing_is_promised(case):
    model, scores, truth = case
    other = copy.copy(model).calibrate(scores, truth, fdr=0.2)
    answer = gather(other.adapt(scores), scores, truth).answer
    assert answer.promise.startswith("The cutoff is not calibrated for this population")
    assert "promised for these" in answer.promise
    assert answer.sets == ()
