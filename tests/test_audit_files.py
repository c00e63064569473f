"""An audit from the command line: plan, page, answers from a spreadsheet, calls."""

import csv
import json
from itertools import pairwise

import pytest
from click.testing import CliRunner

from hierlpr import HierLPR, simulate
from hierlpr.cli import main

N = 400


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, and the scores and truth of a population."""
    folder = tmp_path_factory.mktemp("files")
    fit, rest = simulate.train_test(1, n_train=600, n_test=N, rng=0)
    HierLPR(fit.hierarchy).fit(fit.scores, fit.truth).save(folder / "m.hlpr")
    labels, truth = fit.hierarchy.labels, {}
    with (folder / "scores.csv").open("w") as file:
        print("sample", *labels, sep=",", file=file)
        for i in range(N):
            print(f"p{i}", *rest.scores[i], sep=",", file=file)
            truth |= {(f"p{i}", x): bool(rest.truth[i, j]) for j, x in enumerate(labels)}
    (folder / "groups.csv").write_text(
        "sample,cluster\n" + "".join(f"p{i},c{i // 4}\n" for i in range(N))
    )
    return folder, truth


def run(*arguments, code=0):
    done = CliRunner().invoke(main, ["audit", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def start(files, out, *more, checks=60):
    folder, _ = files
    inputs = ["--model", folder / "m.hlpr", "--scores", folder / "scores.csv"]
    return run(*inputs, "--precision", 0.8, "--checks", checks, "--out", out, *more)


def fill(table, truth, path, n=None, sep=",", words=("no", "yes")):
    """Write the answers on the first n samples, as a spreadsheet saves them."""
    rows = rows_of(table)
    names = list(dict.fromkeys(row["sample"] for row in rows))[:n]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=sep)
        writer.writerow(rows[0])
        for row in rows:
            word = words[truth[row["sample"], row["label"]]] if row["sample"] in names else ""
            writer.writerow([*list(row.values())[:-1], word])
    return path


def test_from_scores_to_certified_calls(files, tmp_path):
    _, truth = files
    out = tmp_path / "audit"
    show = tmp_path / "show.csv"
    show.write_text("sample,text\np0,<b>note</b>\n")
    done = start(files, out, "--show", show)
    assert "no calls are certified yet" in done.stdout
    assert len({row["sample"] for row in rows_of(out / "check.csv")}) == 60
    answers = fill(out / "check.csv", truth, tmp_path / "a.csv", 20, sep=";", words=("0", "x"))
    done = run("--continue", out, "--answers", answers, "--json", tmp_path / "a.json")
    assert "After 20 checked samples" in done.stdout
    assert "About 40 more checks would add" in done.stdout
    assert json.loads((tmp_path / "a.json").read_text())["checked"] == 20
    before = (out / "answers.jsonl").read_bytes()
    done = run("--continue", out, "--answers", answers)
    assert "has no answer that was not known" in done.stderr
    start(files, out)  # again: nothing is drawn or forgotten
    assert (out / "answers.jsonl").read_bytes() == before
    assert len({row["sample"] for row in rows_of(out / "check.csv")}) == 40
    rest = fill(out / "check.csv", truth, tmp_path / "b.csv")
    assert "After 60 checked samples" in run("--continue", out, "--answers", rest).stdout
    run("--continue", out, "--checks", 100)
    more = fill(out / "check.csv", truth, tmp_path / "c.csv")
    done = run("--continue", out, "--answers", more, "-q")
    calls = rows_of(out / "calls.csv")
    assert f"After 160 checked samples: at least 80 % of {len(calls):,} calls" in done.stdout
    assert sum(truth[row["sample"], row["label"]] for row in calls) >= 0.8 * len(calls) > 0
    assert list(calls[0]) == ["sample", "label", "score", "checked"]


def test_clusters_and_answers_out_of_order(files, tmp_path):
    folder, truth = files
    out = tmp_path / "audit"
    start(files, out, "--clusters", folder / "groups.csv", checks=10)
    rows = rows_of(out / "check.csv")
    clusters = [int(row["sample"][1:]) // 4 for row in rows]
    assert len(dict.fromkeys(clusters)) == 10
    assert sum(a != b for a, b in pairwise(clusters)) == 9
    plain = tmp_path / "plain"
    start(files, plain, checks=10)
    answers = fill(plain / "check.csv", truth, tmp_path / "a.csv")
    lines = answers.read_text(encoding="utf-8-sig").splitlines()
    first = lines[1].split(",")[0]
    later = [line for line in lines if not line.startswith(f"{first},")]
    answers.write_text("\n".join(later) + "\n")
    done = run("--continue", plain, "--answers", answers)
    assert "9 samples were checked after one that was left out" in done.stderr
    assert "After 0 checked samples" in done.stdout


def test_what_does_not_fit_is_refused(files, tmp_path):
    folder, truth = files
    out = tmp_path / "audit"
    start(files, out, checks=10)
    answers = fill(out / "check.csv", truth, tmp_path / "a.csv")

    def refused(message, *arguments):
        assert message in run(*arguments, code=2).output

    refused("Give --model, --scores and --out", "--model", folder / "m.hlpr")
    refused("--continue needs neither", "--continue", out, "--out", out)
    refused("holds no audit", "--continue", tmp_path, "--answers", answers)
    short = tmp_path / "short.csv"
    short.write_text("sample,cluster\np0,1\n")
    start_again = ["--model", folder / "m.hlpr", "--scores", folder / "scores.csv", "--out"]
    refused("no cluster for", *start_again, tmp_path / "x", "--clusters", short)
    refused("audit of other scores", *start_again, out, "--checks", 10, "--precision", 0.7)
    other = tmp_path / "other.csv"
    other.write_text("audit,sample,label,correct\nabc,p0,A,yes\n")
    refused("answers on another audit", "--continue", out, "--answers", other)
    other.write_text("sample,label,correct\np0,yes\n")
    refused("line 2 has another number of columns", "--continue", out, "--answers", other)
    other.write_text("only\n1\n")
    refused("two columns are needed", *start_again, tmp_path / "x", "--show", other)
