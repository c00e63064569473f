import numpy as np
import pytest

import hierlpr
from hierlpr import Hierarchy, HierLPR, HierlprError, simulate
from hierlpr._utils.archives import read_archive, write_archive
from hierlpr.audit import load_audit, start_audit
from hierlpr.audit.state import HEAD

H = Hierarchy([("A", "B"), ("B", "C"), ("A", "D")], labels=["C", "A", "B", "D"])


def population(n=300, seed=0, chance=0.995):
    """Scores that respect H, and truth."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(0.95, 0.99, n)
    b, d = a * rng.uniform(0.9, 1, n), a * rng.uniform(0.8, 1, n)
    score = np.stack([b * rng.uniform(0.7, 1, n), a, b, d], axis=1)
    u = rng.random((n, 4)) < chance
    truth = np.stack([u[:, 0] & u[:, 1] & u[:, 2], u[:, 1], u[:, 1] & u[:, 2], u[:, 1] & u[:, 3]])
    return score, truth.T


def make(n=300, checks=60, names=True, **options):
    score, truth = population(n)
    samples = [f"s{i}" for i in range(n)] if names else None
    return start_audit(score, H, samples=samples, checks=checks, **options), score, truth


def rows_of(frame):
    return list(zip(frame["sample"], frame["label"], strict=True))


def answers_to(frame, truth):
    correct = [truth[int(str(s).lstrip("s")), H.index(x)] for s, x in rows_of(frame)]
    return {"sample": list(frame["sample"]), "label": list(frame["label"]), "correct": correct}


def test_an_audit_from_plan_to_calls():
    audit, score, truth = make()
    assert "no calls are certified yet" in str(audit)
    assert not audit.cutoff_.reachable
    assert "To check next:" in audit._repr_html_()
    frame = audit.to_check()
    assert len(set(frame["sample"])) == 60
    audit.record(answers_to(frame, truth))
    assert audit.n_checked == 60
    assert str(audit).startswith("After 60 checked samples: at least 90 % of ")
    calls = audit.calls()
    right = [truth[int(s[1:]), H.index(x)] for s, x in rows_of(calls)]
    assert len(calls) == audit.n_calls > 300
    assert np.mean(right) >= 0.9
    assert (np.diff(calls["score"]) <= 0).all()
    checked = dict(zip(rows_of(calls), calls["checked"], strict=True))
    drawn = set(frame["sample"])
    for (sample, label), word in checked.items():
        is_right = truth[int(sample[1:]), H.index(label)]
        assert word == (("right" if is_right else "wrong") if sample in drawn else "")
    cutoff = audit.cutoff_
    assert str(cutoff).endswith("Certified by the checked samples of an audit.")
    assert (cutoff.goal.target, cutoff.goal.confidence) == (pytest.approx(0.9), pytest.approx(0.9))
    if cutoff.max_calls is None:
        assert len(calls) == (score >= cutoff.level).sum()


def test_samples_come_whole_in_the_order_drawn_with_parents_first():
    audit, score, truth = make()
    ten, all_of_them = audit.to_check(10), audit.to_check()
    assert rows_of(all_of_them)[: len(ten)] == rows_of(ten)
    place = {row: k for k, row in enumerate(rows_of(all_of_them))}
    for (sample, label), k in place.items():
        for parent in H.parents(label):
            assert place[sample, parent] < k
    audit.record(answers_to(ten, truth))
    assert rows_of(audit.to_check(5))[0] == rows_of(all_of_them)[len(ten)]
    assert ten["chance"][0] == score[int(ten["sample"][0][1:]), H.index(ten["label"][0])]


def test_answers_beyond_a_gap_wait_for_it():
    audit = make()[0]
    frame = audit.to_check(3)
    names = list(dict.fromkeys(frame["sample"]))
    answer = {name: [] for name in names}
    audit.record({names[0]: [], names[2]: []})
    assert (audit.n_checked, audit.n_waiting) == (1, 1)
    assert str(audit).startswith("After 1 checked sample no calls")
    audit.record(answer)
    assert (audit.n_checked, audit.n_waiting) == (3, 0)


def test_wrong_labels_close_downward_and_right_ones_upward():
    pandas = pytest.importorskip("pandas")
    audit, _, _ = make()
    frame = audit.to_check(40)
    sample = next(
        s for s in dict.fromkeys(frame["sample"])
        if {x for t, x in rows_of(frame) if t == s} == {"A", "B", "C", "D"}
    )  # fmt: skip

    def stored(answers):
        audit, _, _ = make()
        audit.record(answers)
        rows = audit._rows_by_name()[sample]
        labels = audit.plan.listed.label[rows]
        return {H.labels[H.order[j]]: x for j, x in zip(labels, audit.correct[rows], strict=True)}

    assert stored({sample: ["B"]}) == {"A": 1, "B": 0, "C": 0, "D": 1}
    assert stored({sample: "A"}) == {"A": 0, "B": 0, "C": 0, "D": 0}

    def rows(**correct):
        size = len(correct)
        return {"sample": [sample] * size, "label": list(correct), "correct": [*correct.values()]}

    assert stored(rows(C="yes", D="no")) == {"A": 1, "B": 1, "C": 1, "D": 0}
    assert stored(rows(A=" X ", B=0.0, D=1)) == {"A": 1, "B": 0, "C": 0, "D": 1}
    assert stored(rows(A="1,0", B="0,0", D="1.00")) == {"A": 1, "B": 0, "C": 0, "D": 1}
    assert stored(rows(A="WAHR", B="FALSCH", D="ja")) == {"A": 1, "B": 0, "C": 0, "D": 1}
    assert stored(rows(A="unsure", B="?", C="yes", D=False)) == {"A": 1, "B": 1, "C": 1, "D": 0}
    assert stored(rows(A="unsure", B="no", D="unsure")) == {"A": 0, "B": 0, "C": 0, "D": 0}
    assert set(stored(rows(A="", B=None, C=float("nan"), D=pandas.NA)).values()) == {-1}
    for wrong, message in (
        (rows(C="yes", B="no", D="no"), "but not its parent 'B'"),
        (rows(A="yes", B="yes", D="yes"), "lacks 'C'"),
        (rows(A="maybe not"), "has 'maybe not'"),
        (rows(X="yes"), "was not shown with the label 'X'"),
        ({sample: ["Bb"]}, "was not shown with the label 'Bb'"),
        ({"nobody": []}, "'nobody' is not among those to check"),
        ({"sample": [sample], "label": ["A"]}, "'sample' is not among those"),
        ([1, 2], "must be a data frame"),
        ({"sample": [sample] * 2, "label": ["A"] * 2, "correct": [0, 1]}, "two answers"),
    ):
        with pytest.raises(HierlprError, match=message):
            stored(wrong)


def test_a_second_answer_is_ignored_if_equal_and_refused_otherwise():
    audit, _, truth = make()
    frame = audit.to_check(4)
    answers = answers_to(frame, truth)
    audit.record(answers).record(answers)
    before = audit.correct.copy()
    sample = frame["sample"][0]
    answers["correct"] = [s != sample for s in answers["sample"]]
    if before[audit._rows_by_name()[sample]].any():
        with pytest.raises(HierlprError, match="answered before, and differently"):
            audit.record(answers)
    assert np.array_equal(audit.correct, before)


def test_an_audit_is_extended_and_says_what_more_checks_would_add():
    audit, _, truth = make(checks=20)
    audit.record(answers_to(audit.to_check(), truth))
    assert audit.horizons == [20]
    more = audit.expected(150)
    assert audit.horizons == [20]
    assert more >= audit.n_calls
    audit.record(answers_to(audit.to_check(150), truth))
    assert audit.horizons == [20, 170]
    assert audit.n_checked == 170
    assert audit.n_calls > 0


def test_frames_of_any_library_and_numbers_as_names():
    polars = pytest.importorskip("polars")
    audit, _, truth = make(names=False)
    frame = audit.to_check(5, backend="polars")
    assert isinstance(frame, polars.DataFrame)
    correct = [bool(truth[s, H.index(x)]) for s, x in frame.select("sample", "label").rows()]
    audit.record(frame.with_columns(correct=polars.Series(correct)))
    assert audit.n_checked == 5


def test_clusters_are_checked_as_a_whole():
    cluster = np.arange(300) // 5
    audit, _, truth = make(checks=10, clusters=cluster)
    frame = audit.to_check(1)
    samples = {int(s[1:]) for s in frame["sample"]}
    assert len({cluster[i] for i in samples}) == 1
    answers = answers_to(frame, truth)
    first = next(iter(dict.fromkeys(answers["sample"])))
    part = [k for k, s in enumerate(answers["sample"]) if s == first]
    audit.record({name: [values[k] for k in part] for name, values in answers.items()})
    assert audit.n_checked == (0 if len(samples) > 1 else 1)
    audit.record(answers)
    assert audit.n_checked == 1
    assert "1 checked cluster " in str(audit)


@pytest.mark.parametrize("names", [True, False])
def test_a_folder_goes_on_after_any_interruption(tmp_path, names):
    audit, _, truth = make(names=names)
    folder = tmp_path / "audit"
    audit.save(folder)
    same = load_audit(folder)
    assert rows_of(same.to_check()) == rows_of(audit.to_check())
    for n in (5, 7, 60):
        same = load_audit(folder)
        same.record(answers_to(same.to_check(n), truth))
        same.save(folder)
        # An interruption cuts the last line of the log.
        log = folder / "answers.jsonl"
        text = log.read_bytes()
        log.write_bytes(text + text.splitlines()[-1][:9])
    same = load_audit(folder)
    audit.record(answers_to(audit.to_check(5), truth)).record(answers_to(audit.to_check(7), truth))
    audit.record(answers_to(audit.to_check(60), truth))
    assert (same.n_checked, same.horizons) == (72, [60, 72])
    assert str(same) == str(audit)
    same.save(folder)
    assert str(load_audit(folder)) == str(audit)
    assert rows_of(same.calls()) == rows_of(audit.calls())


def test_other_scores_other_answers_and_damaged_folders_are_refused(tmp_path):
    audit, score, truth = make()
    folder = tmp_path / "audit"
    audit.save(folder)
    score[0, 1] = 0.995
    names = [f"s{i}" for i in range(300)]
    changed = start_audit(score, H, samples=names, checks=60)
    with pytest.raises(HierlprError, match="an audit of other scores"):
        changed.save(folder)
    audit.record(answers_to(audit.to_check(2), truth)).save(folder)
    with pytest.raises(HierlprError, match="answers that are not in this audit"):
        make()[0].save(folder)
    with pytest.raises(HierlprError, match="holds no audit"):
        load_audit(tmp_path)
    log = folder / "answers.jsonl"
    for text in ("nonsense\n", "", '{"checks": "a"}\n', '{"checks": 9}\n{"sample": "s1"}\n'):
        log.write_text(text)
        with pytest.raises(HierlprError, match=r"not the (log|folder) of an audit"):
            load_audit(folder)
    log.unlink()
    with pytest.raises(HierlprError, match="holds no audit"):
        load_audit(folder)
    log.write_text('{"checks": 60}\n')
    arrays, meta = read_archive(folder / "plan.npz", **HEAD)
    del meta["checksum"]
    for change in ({"score": arrays["score"][:5]}, {"label": arrays["label"] + 9}, {"unit": None}):
        forged = {name: x for name, x in {**arrays, **change}.items() if x is not None}
        write_archive(folder / "plan.npz", forged, meta)
        with pytest.raises(HierlprError, match="not the folder of an audit"):
            load_audit(folder)
    write_archive(folder / "plan.npz", arrays, meta)
    assert load_audit(folder).horizons == [60]
    arrays = dict(np.load(folder / "plan.npz"))
    arrays["time"][0] += 0.01
    np.savez(folder / "plan.npz", **arrays)
    with pytest.raises(HierlprError, match="changed or damaged"):
        load_audit(folder)
    (folder / "plan.npz").write_bytes(b"PK nothing")
    with pytest.raises(HierlprError, match="not the plan"):
        load_audit(folder)


def test_a_folder_without_a_plan_is_started_again(tmp_path):
    audit = make()[0]
    (tmp_path / "answers.jsonl").write_text('{"checks": 7}\n{"sample"')  # an interruption
    audit.save(tmp_path)
    assert load_audit(tmp_path).horizons == [60]


def test_options_are_checked_and_the_same_seed_draws_the_same_samples():
    assert rows_of(make()[0].to_check(9)) == rows_of(make()[0].to_check(9))
    assert rows_of(make()[0].to_check(9)) != rows_of(make(random_state=1)[0].to_check(9))
    for options in ({"precision": 1.0}, {"confidence": 0}, {"checks": 0}):
        with pytest.raises(HierlprError):
            make(**options)
    for options, message in (
        ({"samples": ["a"] * 300}, "1 different names for 300"),
        ({"samples": ["a", "b"]}, "2 different names for 300"),
        ({"clusters": np.zeros(3, dtype=int)}, "3 ids for 300"),
    ):  # fmt: skip
        with pytest.raises(HierlprError, match=message):
            start_audit(population(300)[0], H, **options)
    for score, message in (
        (np.zeros((3, 4)), "nothing to audit"), (np.ones((3, 5)), "5 columns"),
        ([[0.5, np.nan, 0.5, 0.5]], "not finite"), ([[0.5, 2.0, 0.5, 0.5]], "outside"),
    ):  # fmt: skip
        with pytest.raises(HierlprError, match=message):
            start_audit(score, H)


def test_scores_in_csr_give_the_same_audit():
    from scipy import sparse

    score, _ = population()
    score[score < 0.6] = 0.0
    dense, csr = start_audit(score, H), start_audit(sparse.csr_array(score), H)
    assert dense.fingerprint == csr.fingerprint
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(score, columns=H.labels, index=[f"s{i}" for i in range(len(score))])
    assert rows_of(start_audit(frame, H).to_check()) == rows_of(
        start_audit(score, H, samples=list(frame.index)).to_check()
    )


def test_a_model_starts_an_audit_of_scores_in_any_container(tmp_path):
    pandas = pytest.importorskip("pandas")
    fit, rest = simulate.train_test(1, n_train=600, n_test=400, rng=0)
    model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    labels, names = list(fit.hierarchy.labels), [f"p{i}" for i in range(400)]
    frame = pandas.DataFrame(rest.scores, columns=labels, index=names)
    audit = model.audit(frame, precision=0.8, checks=150)
    wanted = audit.to_check()
    wanted["correct"] = [
        bool(rest.truth[names.index(s), labels.index(x)]) for s, x in rows_of(wanted)
    ]
    audit.record(wanted)
    calls = audit.calls()
    assert len(calls) > 50
    right = [rest.truth[names.index(s), labels.index(x)] for s, x in rows_of(calls)]
    assert np.mean(right) >= 0.8
    plain = model.audit(rest.scores, precision=0.8, checks=150)
    assert [f"p{i}" for i in plain.to_check()["sample"]] == list(wanted["sample"])
    audit.save(tmp_path / "a")
    assert str(hierlpr.load_audit(tmp_path / "a")) == str(audit)
    clustered = model.audit(frame, clusters=[i // 4 for i in range(400)], checks=20)
    assert clustered.plan.listed.n_units == 100


def paths(n=400, seed=0, wrong=0.02):
    """Block scores and truth of one path A > B > C or A > D per sample; few names are wrong."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(0.95, 0.99, n)
    score = np.stack([a * 0.9, a, a * 0.95, np.zeros(n)], axis=1)
    score[n // 2 :] = np.stack([np.zeros(n), a, np.zeros(n), a * 0.9], axis=1)[n // 2 :]
    score[: n // 10, 0] = 0.0
    right = rng.random((n, 3)) >= wrong * np.array([1, 2, 6])
    a, b, c = right[:, 0], right[:, 0] & right[:, 1], right.all(axis=1)
    return score, np.stack([c, a, b, b], axis=1)


def test_names_of_samples_are_certified_by_the_share_of_wrong_ones():
    score, truth = paths()
    audit = start_audit(score, H, error=0.1, checks=150)
    assert audit.plan.listed.allowed == pytest.approx(40)
    assert "no names are certified yet" in str(audit)
    before = [audit.expected(150)]
    audit.record(answers_to(audit.to_check(100), truth))
    looks = audit.history()
    assert looks[0] == (0, 0)
    assert looks[-1] == (100, audit.n_calls)
    before.append(audit.expected(50))
    audit.record(answers_to(audit.to_check(), truth))
    assert 0 < before[0] < before[1]
    assert audit.n_calls > 400
    names = audit.calls()
    assert names["sample"].is_unique
    wrong = sum(not truth[i, H.index(x)] for i, x in rows_of(names))
    assert 0 < wrong <= 40
    assert str(audit).startswith("After 150 checked samples: at most 10 % of 400 samples have a")
    assert "C" in set(names["label"]) | {"B"}
    assert audit.cutoff_.goal.kind == "by hand"
    for options in ({"precision": 0.9}, {"groups": "depth"}, {"clusters": np.arange(400)}):
        with pytest.raises(HierlprError, match="one name per sample"):
            start_audit(score, H, error=0.1, **options)


def test_groups_share_the_checks_and_their_calls_stay_closed_upward(tmp_path):
    score, truth = population(600)
    score **= 0.2
    groups = {"A": "top", "B": "middle", "C": "low", "D": "low"}
    truth[:, 0] &= np.random.default_rng(1).random(600) < 0.3
    truth[:, 3] &= np.random.default_rng(2).random(600) < 0.3
    audit = start_audit(score, H, checks=150, groups=groups)
    audit.record(answers_to(audit.to_check(), truth))
    calls = audit.calls()
    assert set(calls["label"]) == {"A", "B"}
    assert set(calls["sample"][calls["label"] == "B"]) <= set(
        calls["sample"][calls["label"] == "A"]
    )
    cutoff = audit.cutoff_
    assert cutoff.reachable
    assert {name: part.reachable for name, part in cutoff.groups.items()} == {
        "low": False, "top": True, "middle": True
    }  # fmt: skip
    assert "correct (90 % confidence for all groups together): low (0), top (" in str(audit)
    audit.save(tmp_path)
    assert str(load_audit(tmp_path)) == str(audit)
    every = start_audit(score, H, checks=600, groups="label")
    every.record(answers_to(every.to_check(), truth))
    assert set(every.calls()["label"]) == {"A", "B"}
    with pytest.raises(HierlprError, match="must not form a cycle"):
        start_audit(score, H, groups={"A": "x", "B": "y", "C": "x", "D": "y"})


def test_weights_of_checked_samples_estimate_sums_over_the_population():
    score, truth = population(300)
    score[60:, [0, 2, 3]] = 0.0  # samples differ in their number of calls
    differences = []
    for seed in range(200):
        audit = start_audit(score, H, checks=60, random_state=seed)
        audit.record(answers_to(audit.to_check(40), truth))
        checked = audit.checked()
        assert checked["sample"].nunique() == 40
        listed = audit.plan.listed
        total = truth[listed.sample, H.order[listed.label]].sum()
        differences.append((checked["weight"] * checked["correct"]).sum() - total)
    assert abs(np.mean(differences)) < 3.5 * np.std(differences) / np.sqrt(200)
    audit.record(answers_to(audit.to_check(300), truth))
    assert (audit.checked()["weight"] == 1.0).all()
