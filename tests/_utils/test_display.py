"""What one sees: text and HTML of hierarchies, rankings, cutoffs, sets, discoveries and models."""

import numpy as np
import pandas as pd
import pytest

from hierlpr import Hierarchy, HierLPR, discover, io, rank, simulate
from hierlpr.ranking import Call
from hierlpr.report import write_report

EVIL = "<script>alert('x')</script>\x1b[2J\u202e\n"


def check_harmless(*shown):
    for text in shown:
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.fixture(scope="module")
def hostile():
    names = [f"{EVIL}{i}" for i in range(6)]
    h = Hierarchy([(names[0], x) for x in names[1:]], names={names[1]: EVIL})
    rng = np.random.default_rng(0)
    truth = h.close_upward(rng.random((80, 6)) < 0.3)
    scores = pd.DataFrame(
        truth + rng.normal(size=truth.shape), columns=names, index=[f"{EVIL}{i}" for i in range(80)]
    )
    model = HierLPR(h, joint=False).fit(scores[:40], truth[:40])
    model.calibrate(scores[40:], truth[40:], maximize="f1", groups="label")
    model.calibrate_sets(scores[40:], truth[40:], error=0.3)
    return model, scores


def test_hostile_names_are_only_ever_text(hostile):
    model, scores = hostile
    h = model.hierarchy_
    found = discover(np.full(6, 0.01), h)
    ranking, sets = model.rank(scores), model.predict_sets(scores)
    cards = (ranking, model.cutoff_, sets, model.check(scores), model, model.explain(scores))
    for one in cards:
        assert "<script>" not in one._repr_html_()
        check_harmless(one._repr_html_())
    assert model._repr_mimebundle_()["text/html"] == model._repr_html_()
    for one in (h, ranking, model.cutoff_, sets, found):
        check_harmless(repr(one))
    check_harmless(str(h))


def test_a_hierarchy_is_a_small_tree():
    h = Hierarchy(
        [("animal", "dog"), ("animal", "cat"), ("pet", "cat"), ("cat", "tabby")],
        names={"dog": "Canis familiaris"},
    )
    assert str(h).splitlines() == [
        "<Hierarchy: DAG, 5 labels, 4 edges, 2 roots, depth 3>",
        "animal",
        "├─ dog (Canis familiaris)",
        "└─ cat",
        "   └─ tabby",
        "pet",
        "└─ cat (see above)",
    ]
    assert repr(h) == str(h).splitlines()[0]


@pytest.mark.parametrize("n", [1, 7, 24, 25, 400])
def test_large_trees_are_cut_and_what_is_missing_is_counted(n):
    chain = Hierarchy([(f"c{i}", f"c{i + 1}") for i in range(n)])
    wide = Hierarchy([("root", f"w{i}") for i in range(n)])
    alone = Hierarchy(labels=[f"a{i}" for i in range(n)])
    for h in (chain, wide, alone):
        lines = str(h).splitlines()[1:]
        assert len(lines) <= 25
        more = [line for line in lines if "more" in line]
        counted = sum(int(line.split("... ")[1].split()[0].replace(",", "")) for line in more)
        assert len(lines) - len(more) + counted == h.n_labels
    deep = Hierarchy([(f"c{i}", f"c{i + 1}") for i in range(5000)])
    assert "more labels" in str(deep)


def test_a_ranking_shows_its_first_rows_and_names():
    h = Hierarchy([("animal", "dog")])
    lpr = pd.DataFrame([[0.9, 0.5], [0.2, 0.1]], columns=h.labels, index=["rex", "tom"])
    r = rank(lpr, h)
    assert r[0] == Call("rex", "animal", 0.9, pytest.approx(0.9))
    assert rank(lpr.to_numpy(), h)[-1][:2] == (1, "dog")
    assert [call.sample for call in r] == ["rex", "rex", "tom", "tom"]
    assert repr(r).splitlines() == [
        "<Ranking: 4 of 4 instances>",
        "rank  sample  label     lpr  score",
        "   1  rex     animal  0.900  0.900",
        "   2  rex     dog     0.500  0.500",
        "   3  tom     animal  0.200  0.200",
        "   4  tom     dog     0.100  0.100",
    ]
    assert '<td style="text-align:left">rex</td>' in r._repr_html_()
    many = rank(np.random.default_rng(0).random((100, 2)), h)
    assert repr(many).endswith("... 192 more")
    assert len(repr(many).splitlines()) == 11
    assert repr(many[:0]) == "<Ranking: 0 of 200 instances>"


def test_nothing_a_shell_shows_is_a_heap_of_arrays(tmp_path):
    data = simulate.disease(n_samples=250, rng=0)
    h, new = data.hierarchy, data.scores[200:]
    model = HierLPR(h).fit(data.scores[:200], data.truth[:200])
    path = tmp_path / "scores.csv"
    pd.DataFrame(new, columns=h.labels).rename_axis("sample").to_csv(path)
    read = io.read_scores(path, h)
    shown = {
        "<Report": write_report(tmp_path / "r.html", model, new, data.truth[200:]),
        "<ReadTable": read,
        "<Table": read.table,
        "<Drift": model.check(new),
        "<LPRModel": model.lpr_,
        "<JointModel": model.joint_,
    }
    for begin, what in shown.items():
        assert repr(what).startswith(begin)
        assert len(repr(what)) < 600, type(what)
