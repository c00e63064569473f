"""Why a label is called or not: numbers, sentences, text and HTML."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hierlpr import HierLPR, simulate
from hierlpr.cutoff.decisions import REASONS, reason_codes
from hierlpr.exceptions import DataError, HierarchyError


@pytest.fixture(scope="module")
def case():
    data = simulate.disease(n_samples=500, rng=1)
    model = HierLPR(data.hierarchy).fit(data.scores[:250], data.truth[:250])
    model.calibrate(data.scores[250:400], data.truth[250:400], fdr=0.1)
    return model, data.scores[400:], data.hierarchy


def reference_reason(score, size, called, level, limited):
    """Which sentence it is, by a chain of questions."""
    if np.isinf(level):
        return "Not called: nothing"
    if called and size == 1:
        return "Called: the chance"
    if called:
        return "Called together"
    if limited and score >= level:
        return "Not called although its mean"
    return "Not called: the chance" if size == 1 else "Not called: it can only"


def test_the_numbers_are_those_of_the_model(case):
    model, scores, h = case
    lpr, block_score = model.transform(scores), model.predict_proba(scores)
    calls = model.predict(scores)
    for row in (0, 7, 31):
        found = model.explain(scores, row).to_frame("pandas")
        at = [h.index(label) for label in found.label]
        assert sorted(at) == list(range(h.n_labels))
        np.testing.assert_array_equal(found.score, scores[row, at])
        np.testing.assert_allclose(found.lpr, lpr[row, at], atol=2**-29)
        np.testing.assert_allclose(found.block_score, block_score[row, at], atol=2**-29)
        np.testing.assert_array_equal(found.called, calls[row, at])
        assert (np.diff(found.block_score) <= 0).all()
        means = found.groupby("block")[["lpr", "block_score"]].mean()
        np.testing.assert_allclose(means.lpr, means.block_score, atol=1e-8)


def test_random_cases_with_ties_limits_and_no_cutoff():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 7))
        block = np.sort(rng.integers(0, 3, n))
        block = np.unique(block, return_inverse=True)[1]
        lpr = rng.integers(0, 4, n) / 4
        score = np.array([lpr[block == b].mean() for b in block])
        level = np.full(n, rng.choice([0.25, 0.5, np.inf]))
        limited = rng.random() < 0.3
        called = (score >= level) & ~(limited & (block == block.max()))
        for k, code in enumerate(reason_codes(score, block, called, level)):
            size = int((block == block[k]).sum())
            start = reference_reason(score[k], size, called[k], level[k], limited)
            assert REASONS[code].replace("{lpr}", "0.2").startswith(start), (lpr, score, level)


def test_a_limit_of_calls_is_named(case):
    model = copy.copy(case[0])
    model.cutoff_ = replace(model.cutoff_, level=0.05, max_calls=1)
    found = model.explain(case[1], 3)
    assert any("a sample may have at most 1 call." in label.reason for label in found.labels)


def test_samples_by_row_and_by_name(case):
    model, scores, h = case
    names = [f"patient {i}" for i in range(len(scores))]
    frame = pd.DataFrame(scores, columns=h.labels, index=names)
    by_name = model.explain(frame, "patient 9")
    assert by_name.sample == "patient 9"
    assert by_name.labels == model.explain(scores, 9).labels == model.explain(frame, 9).labels
    assert model.explain(scores, -1).sample == str(len(scores) - 1)
    for sample, text in (
        ("patient x", "no sample 'patient x': the samples are 'patient 0'"),
        (100, "out of range"),
        (1.5, "row number or a name"),
        (True, "row number or a name"),
    ):
        with pytest.raises(DataError, match=text):
            model.explain(frame, sample)
    with pytest.raises(DataError, match="name no samples"):
        model.explain(scores, "patient 9")
    with pytest.raises(DataError, match="100 samples have the name 'x'"):
        model.explain(frame.set_axis(["x"] * 100), "x")
    with pytest.raises(HierarchyError, match="did you mean"):
        by_name.why("Carcinom")


def test_text_html_and_frames_show_codes_names_and_nothing_hostile(case):
    h = case[2]
    evil = "<script>alert(1)</script>\x1b[2J\u202e"
    data = simulate.disease(n_samples=300, rng=1)
    named = data.hierarchy.with_names({label: evil for label in h.labels[:40]})
    model = HierLPR(named, joint=False).fit(data.scores, data.truth)
    frame = pd.DataFrame(data.scores, columns=h.labels, index=[f"{evil}{i}" for i in range(300)])
    found = model.explain(frame, int(model.predict(data.scores).sum(axis=1).argmax()))
    assert repr(found) == str(found)  # a shell shows the reasons as a notebook does
    for text in (str(found), found._repr_html_()):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "&lt;script&gt;" in found._repr_html_()
    first = found.labels[0].label
    assert f"{first} (" in str(found) or first not in named.names
    table = found.to_frame("polars")
    assert table.columns[:3] == ["label", "name", "score"]
    assert table.height == h.n_labels


def test_listed_scores_say_what_is_not_listed():
    rng = np.random.default_rng(0)
    data = simulate.disease(n_samples=200, rng=1)
    listed = sparse.csr_array(np.where(rng.random(data.scores.shape) < 0.3, data.scores, 0.0))
    model = HierLPR(data.hierarchy, joint=False).fit(listed, data.truth)
    found = model.explain(listed, 5)
    assert "have no score here" in str(found)
    absent = next(x for x in data.hierarchy.labels if x not in {row.label for row in found.labels})
    assert "neither it nor a descendant" in found.why(absent)
