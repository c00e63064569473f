"""Samples that were used before or are copies are found; equal scores by chance are not."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from hierlpr import HierLPR, HierlprWarning, load_model, simulate
from hierlpr.data import repeats
from hierlpr.data.repeats import SampleKeys, copies_note, overlap_note


def keys(values):
    return SampleKeys.of_rows(values)


def normal(rng, n):
    return rng.normal(size=(n, 4))


HONEST = {
    "continuous": normal,
    "ratings": lambda rng, n: rng.integers(1, 6, (n, 3)) / 1.0,
    "one coarse label": lambda rng, n: rng.integers(0, 101, (n, 1)) / 100,
    "votes": lambda rng, n: rng.binomial(10, rng.random((n, 1)), (n, 4)) / 10,
    "saturated": lambda rng, n: np.where(rng.random((n, 1)) < 0.3, 0.0, rng.normal(size=(n, 4))),
    "two kinds": lambda rng, n: rng.integers(0, 2, (n, 1)) / 1.0,
    "fifty kinds": lambda rng, n: rng.integers(0, 50, (n, 1)) / 1.0,
    "a thousand kinds": lambda rng, n: rng.integers(0, 1000, (n, 1)) / 1.0,
    "heavy tail": lambda rng, n: np.minimum(rng.zipf(1.5, (n, 1)), 10**9) / 1.0,
    "constant": lambda rng, n: np.zeros((n, 3)),
    "two decimals, sparse": lambda rng, n: sparse.csr_array(
        np.round(rng.beta(0.3, 2.0, (n, 20)), 2) * (rng.random((n, 20)) < 0.2)
    ),
}


@pytest.mark.parametrize("draw", HONEST.values(), ids=HONEST)
def test_honest_samples_raise_no_alarm(draw):
    rng = np.random.default_rng(1)
    for n in (30, 200, 1000):
        for _ in range(10):
            fit, new = keys(draw(rng, 2 * n)), keys(draw(rng, n))
            assert overlap_note(new, fit) == ""
            assert copies_note(new, fit) == ""
            assert copies_note(fit) == ""


@pytest.mark.parametrize("name", ["continuous", "ratings", "votes", "two decimals, sparse"])
@pytest.mark.parametrize("times", [2, 3, 10])
def test_copies_are_counted(name, times):
    rng = np.random.default_rng(2)
    once = HONEST[name](rng, 120)
    rows = np.repeat(np.arange(120), times)
    note = copies_note(keys(once[rows]), keys(HONEST[name](rng, 500)))
    assert note.startswith(f"every row of scores occurs {times} ")
    assert ("multiple" in note) == (name != "continuous")
    # Copied before the samples were parted: only both parts together tell.
    apart = rng.permutation(rows.size)
    part, rest = keys(once[rows[apart[:120]]]), keys(once[rows[apart[120:]]])
    assert copies_note(part, rest) != ""


def test_uneven_copies_are_counted():
    rng = np.random.default_rng(3)
    fit = keys(normal(rng, 800))
    uneven = np.repeat(normal(rng, 60), rng.integers(3, 11, 60), axis=0)
    n = len(uneven)
    assert copies_note(keys(uneven), fit) == f"{n} of {n} rows of scores occur more than once"
    some = normal(rng, 400)
    some = np.concatenate([some, some[:40], some[:40]])
    assert copies_note(keys(some), fit) == "120 of 480 rows of scores occur more than once"


@pytest.mark.parametrize("n_shared", [20, 37, 400])
def test_shared_samples_are_counted(n_shared):
    rng = np.random.default_rng(4)
    fit, new = normal(rng, 800), normal(rng, 400)
    new[:n_shared] = fit[100 : 100 + n_shared]
    assert overlap_note(keys(new), keys(fit)) == f"{n_shared} of 400"
    assert overlap_note(keys(new[::-1]), keys(fit[::-1])) == f"{n_shared} of 400"


def test_shared_samples_are_counted_beside_saturated_ones():
    rng = np.random.default_rng(4)
    fit, new = HONEST["saturated"](rng, 800), HONEST["saturated"](rng, 400)
    new[200:] = fit[:200]
    n_saturated = int((new[:200] == 0.0).all(axis=1).sum())
    assert n_saturated > 30
    assert overlap_note(keys(new), keys(fit)) == f"{200 + n_saturated} of 400"


def test_of_many_samples_some_are_checked(monkeypatch):
    monkeypatch.setattr(repeats, "MOST_KEYS", 500)
    rng = np.random.default_rng(5)
    many = normal(rng, 20_000)
    known = keys(many)
    assert known.key.size <= 500
    assert (known.bits, known.n_samples) == (6, 20_000)
    assert overlap_note(keys(many[:5000]), known) == "about 100% of 5,000"
    assert overlap_note(keys(normal(rng, 5000)), known) == ""
    assert copies_note(keys(np.repeat(normal(rng, 4000), 3, axis=0)), known).startswith("every row")
    assert np.array_equal(keys(rng.permutation(many)).key, known.key)


@pytest.fixture(scope="module")
def drawn():
    model = simulate.setting_model(2, rng=1)
    return model.draw(600, 2), model.draw(400, 3), model.draw(300, 4)


def quiet(model, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", HierlprWarning)
        return model.calibrate(*args, **options)


def test_a_model_warns_with_counts_and_remembers_when_loaded(drawn, tmp_path):
    fit, cal, test = drawn
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    quiet(model, cal.scores, cal.truth, precision=0.7)
    model.save(tmp_path / "m.hlpr")
    model = load_model(tmp_path / "m.hlpr")
    scores, truth = cal.scores.copy(), cal.truth.copy()
    scores[:37], truth[:37] = fit.scores[:37], fit.truth[:37]
    with pytest.warns(HierlprWarning, match="37 of 400 calibration samples were also fitted on"):
        model.calibrate(scores, truth, precision=0.7)
    thrice = np.repeat(np.arange(400), 3)
    with pytest.warns(HierlprWarning, match="every row of scores occurs 3 times"):
        model.calibrate(cal.scores[thrice], cal.truth[thrice], precision=0.7)
    quiet(model, cal.scores, cal.truth, precision=0.7)
    assert model.seen(test.scores) == {}
    assert model.seen(fit.scores[:100]) == {"fit": "100 of 100"}
    assert model.seen(cal.scores) == {"cutoff": "400 of 400"}
    both = np.concatenate([fit.scores, cal.scores])
    assert model.seen(both) == {"fit": "600 of 1,000", "cutoff": "400 of 1,000"}


@pytest.mark.parametrize("groups", [None, "label"])
def test_a_certificate_on_samples_that_are_not_new_says_so_for_good(drawn, tmp_path, groups):
    """The warning used to pass, and the saved cutoff went on to promise what it denied."""
    fit, cal, _ = drawn
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    options = {"precision": 0.7, "confidence": 0.9, "groups": groups, "unreachable": "nothing"}
    if groups:
        options |= {"precision": 0.3}
        options["groups"] = dict.fromkeys(fit.hierarchy.labels, "all")
    for scores, truth, said in (
        (fit.scores, fit.truth, "600 of 600 calibration samples were also fitted on"),
        (np.repeat(cal.scores, 2, axis=0), np.repeat(cal.truth, 2, axis=0), "copies of each other"),
    ):
        with pytest.warns(HierlprWarning, match=said):
            model.calibrate(scores, truth, **options)
        model.save(tmp_path / "m.hlpr")
        words = str(load_model(tmp_path / "m.hlpr").cutoff_)
        assert "confidence" in words
        assert "Shaky: " in words
        assert said in words
        assert "`confidence` promises nothing" in words
    quiet(model, cal.scores, cal.truth, **options)
    assert "promises nothing" not in str(model.cutoff_)


def test_changed_labels_forget_the_samples(drawn, tmp_path):
    fit = drawn[0]
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)
    model.remove_labels([fit.hierarchy.labels[-1]])
    assert model.seen(fit.scores[:, :-1]) == {}
    model.save(tmp_path / "m.hlpr")
    assert load_model(tmp_path / "m.hlpr").fit_keys_ is None
