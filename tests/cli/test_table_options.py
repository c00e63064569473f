"""Tables that people have: semicolons, decimal commas, other columns; whole and in parts alike."""

import pickle

import numpy as np
import pytest
from shellrun import refused, run

from hierlpr import Hierarchy
from hierlpr.exceptions import DataError
from hierlpr.io import TablePath, read_scores, read_truth

TREE = "parent,child\nA,B\nA,C\n"
OPTIONS = ("--sep", ";", "--decimal", ",", "--sample-column", "patient_id", "--columns", "labels")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Plain tables, and the same as a hospital exports them."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    plain = ["sample,A,B,C"]
    truth = ["sample,A,B,C"]
    odd = ["age;patient_id;A;B;note;C"]
    odd_truth = ["patient_id;A;B;C;ward"]
    long = ["patient_id;label;score"]
    for i in range(240):
        held = rng.random(3) < (0.6, 0.4, 0.3)
        held[0] |= held[1:].any()
        a, b, c = (f"{x:.3f}" for x in rng.normal(held, 0.7))
        plain.append(f"p{i},{a},{b},{c}")
        truth.append(f"p{i},{','.join(str(int(x)) for x in held)}")
        odd.append(f"6{i};p{i};{a};{b};seen, twice;{c}".replace(".", ","))
        odd_truth.append(f"p{i};{';'.join(str(int(x)) for x in held)};x")
        long += [f"p{i};{x};{y}".replace(".", ",") for x, y in zip("ABC", (a, b, c), strict=True)]
    for name, lines in (("scores", plain), ("truth", truth), ("odd", odd),
                        ("odd_truth", odd_truth), ("long", long)):  # fmt: skip
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "tree.csv").write_text(TREE)
    (folder / "tree2.csv").write_text(TREE.replace(",", ";"))
    return folder


def fit(folder, out, scores, truth, *more, tree="tree.csv"):
    args = ("fit", "--hierarchy", folder / tree, "--scores", folder / scores, "--truth",
            folder / truth, "--fdr", "0.3", "--out", out, *more)  # fmt: skip
    code, _, err = run(*args)
    assert code == 0, err
    return out.read_bytes(), err


@pytest.mark.parametrize("more", [(), ("--partitions", 3)], ids=["whole", "parts"])
def test_every_command_reads_them(folder, tmp_path, more):
    model, _ = fit(folder, tmp_path / "m.hlpr", "scores.csv", "truth.csv")
    odd, err = fit(folder, tmp_path / "o.hlpr", "odd.csv", "odd_truth.csv", *OPTIONS, *more,
                   tree="tree2.csv")  # fmt: skip
    assert odd == model
    assert "columns that are no labels are not used: 'age', 'note'" in err
    assert "not used: 'ward'" in err
    listed, _ = fit(folder, tmp_path / "l.hlpr", "long.csv", "truth.csv", *OPTIONS, *more)
    assert len(listed) > 0
    calls = []
    for name, given in (("scores", ()), ("odd", OPTIONS)):
        code, _, err = run("rank", "--model", tmp_path / "m.hlpr", "--scores",
                           folder / f"{name}.csv", "--out", tmp_path / f"{name}_calls.csv", *given,
                           *more)  # fmt: skip
        assert code == 0, err
        calls.append((tmp_path / f"{name}_calls.csv").read_bytes())
    assert calls[0] == calls[1]
    measured = []
    for truth, given in (("truth", ()), ("odd_truth", OPTIONS)):
        code, out, err = run("evaluate", "--hierarchy", folder / "tree.csv", "--ranking",
                             tmp_path / "odd_calls.csv", "--truth", folder / f"{truth}.csv", *given,
                             *more)  # fmt: skip
        assert code == 0, err
        measured.append(out)
    assert measured[0] == measured[1]


@pytest.mark.parametrize("more", [(), ("--work", "here")], ids=["whole", "parts"])
def test_the_report_reads_them(folder, tmp_path, more):
    fit(folder, tmp_path / "m.hlpr", "scores.csv", "truth.csv")
    more = [tmp_path if x == "here" else x for x in more]
    code, _, err = run("report", "--model", tmp_path / "m.hlpr", "--scores", folder / "odd.csv",
                       "--truth", folder / "odd_truth.csv", "--out", tmp_path / "r.html",
                       *OPTIONS, *more)  # fmt: skip
    assert code == 0, err
    assert "160 of 240 samples here were also fitted on" in err
    assert "80 of 240 samples here also chose the cutoff" in err


@pytest.mark.parametrize(
    ("scores", "given", "named"),
    [
        ("odd", (), "--sep ';'"),
        ("odd", OPTIONS[:2], "--sample-column 'age'"),
        ("odd", (*OPTIONS[:2], *OPTIONS[4:6]), "--columns labels"),
        ("odd", (*OPTIONS[:2], *OPTIONS[4:]), "--decimal ,"),
        ("long", OPTIONS[:2], "--sample-column 'patient_id'"),
    ],
)
def test_the_message_names_the_option(folder, tmp_path, scores, given, named):
    args = ("fit", "-q", "--hierarchy", folder / "tree.csv", "--scores", folder / f"{scores}.csv",
            "--truth", folder / "truth.csv", "--out", tmp_path / "m.hlpr", *given)  # fmt: skip
    said = refused(*args)
    assert named in said
    assert refused(*args, "--work", tmp_path / "work") == said


def test_a_run_is_not_resumed_with_other_options(tmp_path):
    from hierlpr.scale.parts import _fingerprints

    path = tmp_path / "s.csv"
    path.write_text("sample;A\n")
    plain = _fingerprints(str(path))
    assert _fingerprints(TablePath(path)) == plain
    assert _fingerprints(TablePath(path, sep=";")) != plain


def test_a_table_path_is_a_path_with_its_options(tmp_path):
    path = TablePath(tmp_path / "s.csv", sep="tab", decimal=",", columns="labels")
    assert path == str(tmp_path / "s.csv")
    again = pickle.loads(pickle.dumps(path))
    assert (again, again.options) == (path, {"sep": "\t", "decimal": ",", "columns": "labels"})
    for bad in ({"sep": ";;"}, {"sep": '"'}, {"sep": "é"}, {"decimal": "'"}, {"columns": "some"}):
        with pytest.raises(DataError):
            TablePath("s.csv", **bad)


def test_decimal_commas_are_numbers_like_others(tmp_path):
    h = Hierarchy([("A", "B")])
    path = tmp_path / "s.csv"
    path.write_text("sample;A;B\nx;1,5e-3;-,25\ny; 0,1 ;2\n")
    found = read_scores(TablePath(path, sep=";", decimal=","), h)
    assert found.table.values.tolist() == [[1.5e-3, -0.25], [0.1, 2.0]]
    path.write_text("sample;A;B\nx;1.5;2\n")  # a point is no decimal mark then
    with pytest.raises(ValueError, match=r"line 2, column 'A': '1\.5' is not a number"):
        read_scores(TablePath(path, sep=";", decimal=","), h)
    path.write_text("x;A;0,5\nx;B;0,25\n")  # CAFA
    found = read_scores(TablePath(path, sep=";", decimal=","), h)
    assert found.layout == "cafa"
    assert found.table.values.tolist() == [[0.5, 0.25]]


def test_a_label_may_be_called_as_the_column_of_the_samples_is(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("id,sample,B\nx,1,0\n")
    h = Hierarchy([("sample", "B")])
    found = read_truth(TablePath(path, sample_column="ID"), h)
    assert found.table.samples == ("x",)
    assert found.table.values.tolist() == [[1.0, 0.0]]


def test_a_separator_of_a_path_list_is_still_understood(tmp_path):
    (tmp_path / "p.txt").write_text("A::B\nA::C\n")
    code, out, err = run("inspect", tmp_path / "p.txt", "--sep", "::")
    assert code == 0
    assert "edges         2" in out
    assert "--path-sep" in err
    assert "--path-sep" not in run("inspect", tmp_path / "p.txt", "--path-sep", "::")[2]


def test_weights_may_be_a_column_of_another_table(folder, tmp_path):
    lines = (folder / "odd_truth.csv").read_text().splitlines()
    weights = ["1,5" if i % 3 else "0" for i in range(240)]
    both = [f"{lines[0]};weight", *(f"{x};{w}" for x, w in zip(lines[1:], weights, strict=True))]
    (tmp_path / "truth.csv").write_text("\n".join(both) + "\n")
    own = ["sample,weight", *(f"p{i},{w.replace(',', '.')}" for i, w in enumerate(weights))]
    (tmp_path / "w.csv").write_text("\n".join(own) + "\n")
    common = ("fit", "--hierarchy", folder / "tree.csv", "--scores")
    for parts in ((), ("--partitions", "3")):
        run(*common, folder / "odd.csv", "--truth", tmp_path / "truth.csv", *OPTIONS, *parts,
            "--weights", tmp_path / "truth.csv", "--out", tmp_path / "one.hlpr")  # fmt: skip
        run(*common, folder / "scores.csv", "--truth", folder / "truth.csv",
            "--weights", tmp_path / "w.csv", "--out", tmp_path / "two.hlpr")  # fmt: skip
        assert (tmp_path / "one.hlpr").read_bytes() == (tmp_path / "two.hlpr").read_bytes()
