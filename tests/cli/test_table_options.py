"""Tables that people have: semicolons, decimal commas, other columns; whole and in parts alike."""

import numpy as np
import pytest
from shellrun import refused, run

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


def test_every_command_reads_them(folder, tmp_path):
    more = ()
    model, _ = fit(folder, tmp_path / "m.hlpr", "scores.csv", "truth.csv")
    odd, err = fit(folder, tmp_path / "o.hlpr", "odd.csv", "odd_truth.csv", *OPTIONS, *more,
                   tree="tree2.csv")  # fmt: skip
    assert odd == model
    assert "'age', 'note'" in err
    assert "'ward'" in err
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
    assert "160 of 240 samples were also used" in err


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
