"""An audit from the command line: plan, page, answers from a spreadsheet, calls."""

import csv
import json
import random
from itertools import pairwise

import pytest
from click.testing import CliRunner

from hierlpr import HierLPR, load_audit, simulate
from hierlpr.assignment import learn_names
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
    (tmp_path / "my pictures").mkdir()
    (tmp_path / "my pictures" / "a.png").touch()
    texts = ["<b>note</b>", "my pictures/a.png", "x" * 5000]
    show.write_text("sample,text\n" + "".join(f"p{i},{texts[i % 3]}\n" for i in range(N)))
    done = start(files, out, "--show", show)
    assert "no calls are certified yet" in done.stdout
    assert '"../my%20pictures/a.png"' in (out / "check.html").read_text()
    assert len({row["sample"] for row in rows_of(out / "check.csv")}) == 60
    answers = fill(out / "check.csv", truth, tmp_path / "a.csv", 20, sep=";", words=("0", "x"))
    done = run("--continue", out, "--answers", answers, "--json", tmp_path / "a.json")
    assert "After 20 checked samples" in done.stdout
    assert "About 40 more checks would add" in done.stdout
    assert json.loads((tmp_path / "a.json").read_text())["checked"] == 20
    before = (out / "answers.jsonl").read_bytes()
    done = run("--continue", out, "--answers", answers)
    assert "has no new answers" in done.stderr
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
    page, folder = tmp_path / "report.html", files[0]
    inputs = ["report", "--model", folder / "m.hlpr", "--scores", folder / "scores.csv"]
    done = CliRunner().invoke(main, [*map(str, [*inputs, "--audit", out, "--out", page])])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert f"at least 80 % of {len(calls):,} calls" in text.replace("\xa0", " ")
    assert "Certified calls by number of checks" in text
    (tmp_path / "other.csv").write_text((folder / "scores.csv").read_text().replace("p0,", "q,"))
    inputs[-1] = tmp_path / "other.csv"
    done = CliRunner().invoke(main, [*map(str, [*inputs, "--audit", out, "--out", page])])
    assert "about other samples than the report: 'q'" in done.output


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
    assert "9 checked samples do not count yet, because" in done.stderr
    assert "After 0 checked samples" in done.stdout


def test_tasks_for_label_studio_and_their_export(files, tmp_path):
    _, truth = files
    out, show = tmp_path / "audit", tmp_path / "show.csv"
    show.write_text("".join(f"p{i},https://example.org/p{i}.JPG\n" for i in range(-1, N)))
    start(files, out, "--tasks", "label-studio", "--show", show, checks=12)
    assert '<Image name="show" value="$show"/>' in (out / "label_studio.xml").read_text()
    tasks = json.loads((out / "tasks.json").read_text())
    shown = {}
    for row in rows_of(out / "check.csv"):
        shown.setdefault(row["sample"], []).append(row["label"])
    assert {task["data"]["sample"]: [x["value"] for x in task["data"]["labels"]]
            for task in tasks} == shown  # fmt: skip
    for task in tasks:
        sample = task["data"]["sample"]
        right = [x for x in shown[sample] if truth[sample, x]]
        result = [{"type": "choices", "value": {"choices": right}}] if right else []
        task["annotations"] = [{"result": result}, {"result": [], "was_cancelled": True}]
    del tasks[-1]["annotations"][0]  # skipped
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks))
    assert "After 11 checked samples" in run("--continue", out, "--answers", export).stdout
    checked = load_audit(out).checked()
    rows = zip(checked["sample"], checked["label"], checked["correct"], strict=True)
    assert all(truth[sample, label] == correct for sample, label, correct in rows)
    tasks[0]["annotations"].append({"result": [{"value": {"choices": ["A"]}}]})
    tasks[0]["annotations"].append({"result": []})
    export.write_text(json.dumps(tasks))
    assert "two different answers" in run("--continue", out, "--answers", export, code=2).output
    tasks[0]["data"]["audit"] = "other"
    export.write_text(json.dumps(tasks))
    assert "on another audit" in run("--continue", out, "--answers", export, code=2).output


def test_scores_without_a_model_and_recall_of_the_certified_calls(files, tmp_path):
    _, truth = files
    fit, rest = simulate.train_test(1, n_train=600, n_test=N, rng=0)
    h, labels = fit.hierarchy, fit.hierarchy.labels
    tree = tmp_path / "tree.csv"
    tree.write_text("parent,child\n" + "".join(f"{a},{b}\n" for a, b in h.edges))
    chance = HierLPR(h).fit(fit.scores, fit.truth).transform(rest.scores)
    scores = tmp_path / "chances.csv"
    rows = [f"p{i}," + ",".join(map(str, chance[i])) for i in range(N)]
    scores.write_text("\n".join([",".join(["sample", *labels]), *rows]) + "\n")
    out = tmp_path / "audit"
    options = ["--hierarchy", tree, "--scores", scores, "--precision", 0.8, "--checks", 150]
    run(*options, "--recall", 40, "--out", out)
    filled = fill(out / "check.csv", truth, tmp_path / "a.csv")
    drawn = [row["sample"] for row in rows_of(out / "recall.csv")]
    lines = [f"{s},{x}" for s in drawn for x in ("", *labels) if not x or truth[s, x]]
    complete = tmp_path / "recall.csv"
    complete.write_text("\n".join(["sample,label", *lines]) + "\n")
    done = run("--continue", out, "--answers", filled, "--truth", complete, "--json", "-")
    share, low, high = json.loads(done.stdout)["recall"]
    calls = {(row["sample"], row["label"]) for row in rows_of(out / "calls.csv")}
    positives = [pair for pair, is_true in truth.items() if is_true]
    assert low < share < high
    assert low < sum(pair in calls for pair in positives) / len(positives) < high
    complete.write_text("\n".join(["sample,label", *lines, "p0,A", "p1,A"]) + "\n")
    wrong = run("--continue", out, "--truth", complete, code=2).output
    assert "not the first" in wrong
    scores.write_text(scores.read_text().replace("p0,", "p0,7", 1))
    assert "Error" in run(*options, "--out", tmp_path / "b", code=2).output


def test_names_of_another_tool_and_answers_that_are_true_names(tmp_path):
    rng, true = random.Random(0), {}

    def sequences(path, first, n):
        lines = []
        for i in range(first, first + n):
            family, genus = rng.choice("AB"), rng.choice("xyz")
            chance = rng.choice([0.6, 0.9, 1.0])
            right = genus if rng.random() < chance else "w"
            true[f"s{i}"] = f"Fungi;{family};{family}{right}"
            name = f"d:Fungi(1.00),f:{family}({rng.uniform(0.95, 1):.2f})"
            lines.append(f"s{i}\t{name},g:{family}{genus}({chance:.2f})\t+\n")
        path.write_text("".join(lines))

    sequences(tmp_path / "fit.sintax", 0, 400)
    sequences(tmp_path / "new.sintax", 400, 600)
    names = tmp_path / "names.tsv"
    names.write_text("sample\ttruth\n" + "".join(f"{s}\t{t}\n" for s, t in true.items()))
    model, out = tmp_path / "m.hlpr", tmp_path / "audit"
    learn_names(tmp_path / "fit.sintax", names, model)
    options = ["--model", model, "--predictions", tmp_path / "new.sintax", "--checks", 80]
    run(*options, "--error", 0.1, "--out", out)
    drawn = {row["sample"] for row in rows_of(out / "check.csv")}
    names.write_text("".join(f"{s}\t{t}\n" for s, t in true.items() if s in drawn))
    done = run("--continue", out, "--answers", names)
    assert "After 80 checked samples: at most 10 % of 600 samples have a wrong name" in done.stdout
    calls = rows_of(out / "calls.csv")
    wrong = sum(not f"{true[x['sample']]};".startswith(x["label"] + ";") for x in calls)
    assert len(calls) == 600
    assert 0 < wrong <= 60
    run(*options, "--groups", "depth", "--precision", 0.8, "--out", tmp_path / "ranks")
    groups = load_audit(tmp_path / "ranks").groups
    assert set(groups) == {"domain", "family", "genus"}
    clusters = tmp_path / "clusters.csv"
    pairs = "".join(f"s{i},c{i // 6}\n" for i in range(400, 1000))
    clusters.write_text("sample,cluster\n" + pairs)
    run(*options, "--clusters", clusters, "--out", tmp_path / "whole")
    rows = rows_of(tmp_path / "whole" / "check.csv")
    assert len({int(row["sample"][1:]) // 6 for row in rows}) == 80
    clusters.write_text("sample,cluster\ns400,1\n")
    wrong = run(*options, "--clusters", clusters, "--out", tmp_path / "no", code=2).output
    assert "599 of 600 samples have no cluster" in wrong


def test_what_does_not_fit_is_refused(files, tmp_path):
    folder, truth = files
    out = tmp_path / "audit"
    start(files, out, checks=10)
    answers = fill(out / "check.csv", truth, tmp_path / "a.csv")

    def refused(message, *arguments):
        assert message in run(*arguments, code=2).output

    refused("Give --out and --model", "--model", folder / "m.hlpr")
    refused("--continue needs no options", "--continue", out, "--out", out)
    refused("holds no audit", "--continue", tmp_path, "--answers", answers)
    short = tmp_path / "short.csv"
    short.write_text("sample,cluster\np0,1\n")
    start_again = ["--model", folder / "m.hlpr", "--scores", folder / "scores.csv", "--out"]
    refused("399 of 400 ids are missing", *start_again, tmp_path / "x", "--clusters", short)
    refused("audit of other scores", *start_again, out, "--checks", 10, "--precision", 0.7)
    other = tmp_path / "other.csv"
    other.write_text("audit,sample,label,correct\nabc,p0,A,yes\n")
    refused("answers on another audit", "--continue", out, "--answers", other)
    other.write_text("sample,label,correct\np0,yes\n")
    refused("line 2 has another number of columns", "--continue", out, "--answers", other)
    other.write_text("sample,text\nq1,a\n")
    refused("no sample to check is in its first column", "--continue", out, "--show", other)
    other.write_text("only\n1\n")
    refused("two columns are needed", *start_again, tmp_path / "x", "--show", other)


def test_a_population_is_checked_whole(tmp_path):
    tree, scores = tmp_path / "tree.csv", tmp_path / "scores.csv"
    tree.write_text("parent,child\nA,B\n")
    scores.write_text("sample,A,B\n" + "".join(f"s{i},0.9,0.8\n" for i in range(3)))
    out, answers = tmp_path / "audit", tmp_path / "a.csv"
    run("--hierarchy", tree, "--scores", scores, "--out", out)
    answers.write_text((out / "check.csv").read_text().replace(",\n", ",yes\n"))
    done = run("--continue", out, "--answers", answers)
    assert "After 3 checked samples: at least 90 % of 6 calls are correct" in done.stdout
    assert "No sample with calls is left to check." in done.stdout
