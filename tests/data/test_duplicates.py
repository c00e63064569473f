"""Samples that were used before or are copies are found; equal scores by chance are not."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.tree import DecisionTreeClassifier

from hierlpr import HierarchicalClassifier, Hierarchy, HierLPR, HierlprWarning, load_model, simulate
from hierlpr.data import duplicates
from hierlpr.data.duplicates import (
    SampleKeys,
    copies_note,
    feature_keys,
    has_close_neighbours,
    has_near_copies,
    leakage_warnings,
    overlap_note,
)
from hierlpr.exceptions import UnreachableWarning


def keys(values):
    return SampleKeys.of_rows(values)


def normal(rng, n):
    return rng.normal(size=(n, 4))


HONEST = {
    "continuous": normal,
    "ratings": lambda rng, n: rng.integers(1, 6, (n, 3)) / 1.0,
    "votes": lambda rng, n: rng.binomial(10, rng.random((n, 1)), (n, 4)) / 10,
    "saturated": lambda rng, n: np.where(rng.random((n, 1)) < 0.3, 0.0, rng.normal(size=(n, 4))),
    "two kinds": lambda rng, n: rng.integers(0, 2, (n, 1)) / 1.0,
    "a thousand kinds": lambda rng, n: rng.integers(0, 1000, (n, 1)) / 1.0,
    "one continuous label": lambda rng, n: rng.beta(0.5, 2.0, (n, 1)),
    "easy and hard": lambda rng, n: softmax(
        rng.normal(size=(n, 5)) * np.where(rng.random((n, 1)) < 0.8, 30.0, 1.0), axis=1
    ),
    "one listed": lambda rng, n: sparse.csr_array(
        (rng.random(n), (np.arange(n), rng.integers(0, 40, n))), shape=(n, 40)
    ),
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
            assert copies_note(new) == ""
            assert copies_note(fit) == ""


@pytest.mark.parametrize("name", ["continuous", "ratings", "votes", "two decimals, sparse"])
@pytest.mark.parametrize("times", [2, 3, 10])
def test_copies_are_counted(name, times):
    rng = np.random.default_rng(2)
    once = HONEST[name](rng, 120)
    rows = np.repeat(np.arange(120), times)
    assert copies_note(keys(once[rows])) == "100% of the rows occur more than once"


@pytest.mark.parametrize("n_shared", [20, 37, 400])
def test_shared_samples_are_counted(n_shared):
    rng = np.random.default_rng(4)
    fit, new = normal(rng, 800), normal(rng, 400)
    new[:n_shared] = fit[100 : 100 + n_shared]
    assert overlap_note(keys(new), keys(fit)) == f"{n_shared} of 400"
    assert overlap_note(keys(new[::-1]), keys(fit[::-1])) == f"{n_shared} of 400"


def test_samples_of_few_kinds_that_are_all_those_fitted_on_are_found():
    rng = np.random.default_rng(4)
    kinds = rng.random((4, 3))
    fit = kinds[rng.integers(0, 4, 168)]
    assert overlap_note(keys(fit[::-1]), keys(fit)) == "168 of 168"
    assert overlap_note(keys(fit[1:]), keys(fit)) == ""  # no count tells these from new ones
    alarms = sum(
        overlap_note(keys(kinds[rng.integers(0, 4, 168)]), keys(fit)) != "" for _ in range(500)
    )
    assert alarms <= 3  # one in 1,000 at most


ROUNDED = {
    "single precision": lambda x: x.astype(np.float32),
    "other sums": lambda x: x + 1e-12,
    "six digits": lambda x: np.array([[float(f"{v:.6g}") for v in row] for row in x]),
}


@pytest.mark.parametrize("change", ROUNDED.values(), ids=ROUNDED)
@pytest.mark.parametrize("n_labels", [1, 4, 110])
def test_shared_samples_are_found_up_to_rounding(n_labels, change):
    rng = np.random.default_rng(6)
    fit, new = (rng.beta(0.3, 3.0, (n, n_labels)) for n in (800, 400))
    assert overlap_note(keys(new), keys(fit)) == ""
    new[:60] = change(fit[100:160])
    n_found = int(overlap_note(keys(new), keys(fit)).split()[0])
    assert 30 <= n_found <= 62


def test_honest_samples_are_no_near_copies():
    rng = np.random.default_rng(7)
    draws = [
        *HONEST.values(),
        *(lambda r, n, k=k: softmax(30.0 * r.normal(size=(n, k)), axis=1) for k in (5, 20, 50)),
        lambda r, n: r.normal(size=(n, 1)) + np.arange(30.0),
        lambda r, n: np.exp(r.normal(size=(n, 1)) * np.linspace(1.0, 9.0, 30)),
        lambda r, n: (
            r.normal(size=(n // 8, 6))[np.arange(n) % (n // 8)] + 0.1 * r.normal(size=(n, 6))
        ),
    ]
    for draw in draws:
        for n in (50, 100, 200, 600):
            assert not any(has_near_copies(draw(rng, n)) for _ in range(5))


@pytest.mark.parametrize("n_labels", [2, 4, 12, 110])
@pytest.mark.parametrize("times", [2, 5])
def test_copies_with_little_noise_are_found(n_labels, times):
    rng = np.random.default_rng(8)
    for n in (60, 400):  # 60 x 5 gave a false certificate in 20-35 % of runs
        rows = np.repeat(rng.beta(0.5, 2.0, (n, n_labels)), times, axis=0)
        noise = rng.normal(size=rows.shape)
        assert has_near_copies(rng.permutation(rows + 1e-4 * noise))
        assert not has_near_copies(rows + 0.1 * noise)  # what is not promised
    assert not has_near_copies(np.repeat(rng.random((60, 1)), 5, axis=0))


def test_keys_do_not_depend_on_how_the_rows_come():
    rng = np.random.default_rng(9)
    for width in (1, 5, 700):
        rows = rng.normal(size=(300, width)) * 10.0 ** rng.integers(-300, 300, (300, 1))
        whole = keys(rows)
        apart = np.concatenate([keys(rows[i : i + 1]).key for i in range(300)])
        for found in (apart, keys(sparse.csr_array(rows)).key, keys(np.asfortranarray(rows)).key):
            assert np.array_equal(whole.key, np.unique(found))
        assert whole.key.size >= 298


def test_of_many_samples_some_are_compared(monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_KEYS", 500)
    rng = np.random.default_rng(5)
    many = normal(rng, 20_000)
    known = keys(many)
    assert (known.key.size, known.n_samples) == (500, 20_000)
    assert overlap_note(keys(many[:5000]), known) == "about 100% of 5,000"
    assert overlap_note(keys(normal(rng, 5000)), known) == ""
    assert np.array_equal(keys(rng.permutation(many)).key, known.key)


@pytest.fixture(scope="module")
def drawn():
    model = simulate.setting_model(2, rng=1)
    return model.draw(600, 2), model.draw(400, 3), model.draw(300, 4)


def quiet(model, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", HierlprWarning)
        return model.calibrate(*args, **options)


def seen(model, scores):
    keys = SampleKeys.of_rows(scores)
    return {name: note for name, x in model.keys_.items() if (note := overlap_note(keys, x))}


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
    with pytest.warns(HierlprWarning, match="100% of the rows occur more than once"):
        model.calibrate(cal.scores[thrice], cal.truth[thrice], precision=0.7)
    quiet(model, cal.scores, cal.truth, precision=0.7)
    assert seen(model, test.scores) == {}
    both = np.concatenate([fit.scores, cal.scores])
    assert seen(model, both) == {"fit": "600 of 1,000", "cutoff": "400 of 1,000"}


CERTIFY = {"precision": 0.7, "confidence": 0.9}
IN_GROUPS = {"precision": 0.3, "confidence": 0.9, "groups": "tree"}
CALIBRATIONS = [
    ("calibrate", CERTIFY), ("calibrate", IN_GROUPS),
    ("calibrate_sets", {}), ("calibrate_sets", {"confidence": 0.9}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::hierlpr.exceptions.UnreachableWarning")
@pytest.mark.parametrize(("method", "options"), CALIBRATIONS)
def test_promises_on_samples_that_are_not_new_say_so_for_good(drawn, tmp_path, method, options):
    """The warning used to pass, and the saved model went on to promise what it denied."""
    fit, cal, _ = drawn
    model = HierLPR(fit.hierarchy, joint=False).fit(fit.scores, fit.truth)

    def promise(one):
        return str(one.cutoff_ if method == "calibrate" else one.sets_)

    for scores, truth, said in (
        (fit.scores, fit.truth, "600 of 600 calibration samples were also fitted on"),
        (fit.scores.astype(np.float32), fit.truth, "of 600 calibration samples were"),
        (np.repeat(cal.scores, 2, axis=0), np.repeat(cal.truth, 2, axis=0), "copies of each other"),
    ):
        with pytest.warns(HierlprWarning, match=said):
            getattr(model, method)(scores, truth, **options)
        model.save(tmp_path / "m.hlpr")
        again = load_model(tmp_path / "m.hlpr")
        texts = [promise(again)]
        texts += [str(again.predict_sets(cal.scores))] if method == "calibrate_sets" else []
        for text in texts:
            assert "Caveats: " in text
            assert said in text
            assert "no promise holds" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error", HierlprWarning)
        warnings.simplefilter("ignore", UnreachableWarning)
        getattr(model, method)(cal.scores, cal.truth, **options)
    assert "Caveats" not in promise(model)


MADE_OF = {
    "numbers": np.array,
    "sparse": sparse.csr_array,
    "frame": lambda x: pd.DataFrame({"a": x[:, 0], "b": [f"kind {v:.0f}" for v in x[:, 1]]}),
    "texts": lambda x: [" ".join(f"w{int(10 * v)}" for v in row) for row in x],
    "lists of any length": lambda x: [row[: 2 + (row[0] > 0)].tolist() for row in x],
}


@pytest.mark.parametrize("made", MADE_OF.values(), ids=MADE_OF)
def test_copies_among_features_are_found_whatever_these_are(made):
    rng = np.random.default_rng(10)
    x = rng.normal(size=(300, 4))
    held_out, kept = np.arange(100), np.arange(100, 300)

    def warned():
        found = feature_keys(made(x))
        parts = SampleKeys.of(found[held_out]), SampleKeys.of(found[kept])
        return leakage_warnings(*parts, what="features")

    assert warned() == []
    x[:40] = x[100:140]
    (said,) = warned()
    assert "of 100 calibration samples were also fitted on (their features are the same)" in said


def test_a_classifier_says_that_its_held_out_samples_were_trained_on(tmp_path):
    """Patients with several rows: a tree knows the held-out ones by heart, and calls at random."""
    rng = np.random.default_rng(11)
    x, truth = rng.normal(size=(300, 3)), rng.random((300, 2)) < 0.5
    options = {"hierarchy": Hierarchy(labels=["A", "B"]), "precision": 0.9, "confidence": 0.9,
               "unreachable": "nothing", "joint": False, "random_state": 0}  # fmt: skip
    classifier = HierarchicalClassifier(DecisionTreeClassifier(random_state=0), **options)
    thrice = np.tile(np.arange(300), 3)
    with pytest.warns(HierlprWarning, match="100% of the rows occur more than once in the fit and"):
        classifier.fit(x[thrice], truth[thrice])
    new = rng.normal(size=(500, 3))
    assert classifier.cutoff_.precision > 0.9
    assert (rng.random((500, 2)) < 0.5)[classifier.predict(new)].mean() < 0.7
    assert "no promise holds" in str(classifier.cutoff_)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HierlprWarning)
        warnings.simplefilter("ignore", UnreachableWarning)
        classifier.fit(x, truth)
    assert "no promise holds" not in str(classifier.cutoff_)


def named_model():
    """A fitted model whose samples have names, the fitted scores and truth."""
    fit, _ = simulate.train_test(1, n_train=300, n_test=5, rng=2)
    labels = list(fit.hierarchy.labels)
    scores = pd.DataFrame(fit.scores, columns=labels, index=[f"p{i}" for i in range(300)])
    truth = pd.DataFrame(fit.truth, columns=labels, index=scores.index)
    return HierLPR(fit.hierarchy).fit(scores, truth), scores, truth


def test_samples_of_the_fit_are_noticed_by_name(tmp_path):
    """Scores of another run of the classifier differ slightly, so that no row is the same."""
    model, scores, truth = named_model()
    model.save(tmp_path / "m.hlpr")
    again = scores + np.random.default_rng(0).normal(scale=0.3, size=scores.shape)
    for fitted in (model, load_model(tmp_path / "m.hlpr")):
        with pytest.warns(HierlprWarning, match=r"300 of 300 calibration samples .* names"):
            fitted.calibrate(again, truth, precision=0.8)
        assert "names" in str(fitted.cutoff_)
    others = [again.set_axis([f"q{i}" for i in range(300)]), again.reset_index(drop=True)]
    for data in others:  # other names, or none
        model.calibrate(data, truth.set_axis(data.index), precision=0.8)
    part = again.set_axis(["p7", *others[0].index[1:]])
    with pytest.warns(HierlprWarning, match=r"1 of 300 calibration samples .* names"):
        model.calibrate(part, truth.set_axis(part.index), precision=0.8)


def test_changed_labels_do_not_forget_the_samples_of_the_fit():
    model, scores, truth = named_model()
    last = scores.columns[-1]
    unnamed = scores.to_numpy(), truth.to_numpy()
    added = (x[[last]].set_axis(["new"], axis=1) for x in (scores, truth))
    grown = copy.deepcopy(model).add_labels([("A", "new")], *added)
    more = [np.column_stack([x, x[:, -1]]) for x in unnamed]
    with pytest.warns(HierlprWarning, match="300 of 300 calibration samples were also fitted on"):
        grown.calibrate(*more, precision=0.8)
    fewer = copy.deepcopy(model).remove_labels([last])
    rest = [x.drop(columns=last) for x in (scores, truth)]
    with pytest.warns(HierlprWarning, match=r"300 of 300 calibration samples .* names"):
        fewer.calibrate(*rest, precision=0.8)


# -- features that are nearly copies -------------------------------------------------------------


def curve(rng, n):
    angle = 6.0 * rng.random(n)
    return np.stack([np.sin(k * angle) for k in range(1, 5)], axis=1)


def groups(rng, n):
    centre, width = rng.normal(size=(20, 6)), np.exp(rng.normal(size=(20, 6)))
    kind = rng.integers(0, 20, n)
    return 3.0 * centre[kind] + width[kind] * rng.normal(size=(n, 6))


POPULATIONS = {
    "normal": lambda rng, n: rng.normal(size=(n, int(rng.integers(2, 25)))),
    "heavy tail": lambda rng, n: np.exp(1.5 * rng.normal(size=(n, 5))),
    "a plane with noise": lambda rng, n: (
        rng.normal(size=(n, 2)) @ rng.normal(size=(2, 8)) + 0.05 * rng.normal(size=(n, 8))
    ),
    "groups": groups,
    "a curve": curve,
    "counts": lambda rng, n: rng.poisson(3.0, (n, 6)) / 1.0,
    "two decimals": lambda rng, n: rng.normal(size=(n, 12)).round(2),
    "saturated": lambda rng, n: softmax(30.0 * rng.normal(size=(n, 20)), axis=1),
    "some imputed": lambda rng, n: np.where(rng.random((n, 4)) < 0.04, 0, rng.normal(size=(n, 4))),
    "huge": lambda rng, n: 1e300 * rng.normal(size=(n, 4)),
    "a constant": lambda rng, n: np.column_stack([np.full(n, 0.1), rng.normal(size=(n, 4))]),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_independent_features_are_not_called_copies(name):
    for seed in range(100):
        rng = np.random.default_rng(seed)
        assert not has_close_neighbours(POPULATIONS[name](rng, int(rng.integers(100, 400))))


def between(x, rng):
    """Points on segments from samples to one of their five nearest."""
    distance = np.square(x[:, None] - x).sum(axis=2)
    other = np.argsort(distance, axis=1)[np.arange(len(x)), rng.integers(1, 6, len(x))]
    return x + rng.random((len(x), 1)) * (x[other] - x)


@pytest.mark.parametrize("make", [between, lambda x, rng: x + 0.2 * rng.normal(size=x.shape)])
def test_copies_made_before_fit_are_found(make):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 10))
        labels = rng.integers(0, 2, (400, 1))  # codes that repeat
        assert has_close_neighbours(np.column_stack([np.vstack([x, make(x, rng)]), labels]))
        x = x.round(2)  # as measurements are written
        assert has_close_neighbours(np.vstack([x, make(x, rng)]))
