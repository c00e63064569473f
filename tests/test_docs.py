"""The documentation names everything there is, and its links and references lead somewhere."""

import csv
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import hierlpr

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_every_public_name_is_in_the_api_reference():
    listed = set(re.findall(r"^::: hierlpr\.(\w+)$", (ROOT / "docs/api.md").read_text(), re.M))
    assert listed == set(hierlpr.__all__) - {"__version__"}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in PAGES if page.name not in navigation] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    made = {f"example-{p.stem.replace('_', '-')}.md" for p in (ROOT / "examples").glob("*.py")}
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert set(missing) <= made  # pages of examples are written by the build


def test_every_cited_key_is_in_the_bibliography():
    known = set(re.findall(r"@\w+\{([^,]+),", (ROOT / "docs/references.bib").read_text()))
    cited = {}
    for path in [*PAGES, *(ROOT / "src").rglob("*.py")]:
        text = path.read_text()
        for key in re.findall(r"``?([a-z]+(?:19|20)\d\d[a-z]*)``?", text):
            cited[key] = path.name
        for key in re.findall(r"@([a-z]+(?:19|20)\d\d[a-z]*)", text):
            cited[key] = path.name
    assert {key: name for key, name in cited.items() if key not in known} == {}


def test_the_readme_gives_the_figures_of_the_study():
    with (ROOT / "experiments/real/results.csv").open() as file:
        results = {
            (row["set"], row["method"]): float(row["au_prc"])
            for row in csv.DictReader(file)
            if row["model"] == "logistic"
        }
    with (ROOT / "experiments/real/results.csv").open() as file:
        published = {row["set"]: float(row["C-HMCNN"]) for row in csv.DictReader(file)}
    methods = ["raw_scores", "max_propagation", "top_down", "HierLPR"]
    rows = re.findall(r"^\| .*\(`(\w+)`\) \| (.*) \|$", (ROOT / "README.md").read_text(), re.M)
    assert len(rows) == 5
    for name, cells in rows:
        given = [float(cell.strip("* ")) for cell in cells.split("|")]
        assert given[:-1] == [round(results[name, method], 3) for method in methods]
        assert given[-1] == published[name]


def test_the_readme_gives_the_figures_of_the_thresholds():
    with (ROOT / "experiments/thresholds/summary.csv").open() as file:
        found = {(row["data"], row["method"]): row for row in csv.DictReader(file)}
    text = " ".join((ROOT / "README.md").read_text().replace("*", "").split())

    def share(name, column, data="disease"):
        return round(100 * float(found[data, name][column]))

    for words, name in [
        ("a threshold for each label", "per label"),
        ("one threshold for all labels", "pooled"),
        ("MAPIE, certified", "mapie"),
        ("hierlpr, certified", "hierlpr"),
    ]:
        runs = int(found["disease", name]["runs_with_calls"])
        short = share(name, "short") if runs else "makes no call"
        assert f"| {words} | {short} | {share(name, 'recall')} % |" in text
    mails = [
        share(name, column, "enron")
        for name in ("mapie", "hierlpr")
        for column in ("recall", "short")
    ]
    words = "it finds {} % and is short in {} try of 100, hierlpr {} % and {}"
    assert words.format(*mails) in text


def _rows(path):
    with (ROOT / "experiments" / path).open() as file:
        return list(csv.DictReader(file))


def test_the_readme_gives_the_figures_of_the_default():
    raw = {
        row["set"]: float(row["au_prc"])
        for row in _rows("real/results.csv")
        if (row["model"], row["method"]) == ("logistic", "raw_scores")
    }
    (go,) = [row for row in _rows("go_yeast/comparison.csv") if row["method"] == "raw scores"]
    raw["cellcycle_GO"] = float(go["au_prc_without_roots"])
    seeds = {}
    for row in _rows("real/default.csv"):
        seeds.setdefault(row["set"], []).append(row)
    section = (ROOT / "README.md").read_text().partition("| hierlpr, default |")[2]
    rows = re.findall(
        r"^\| .* \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| \*\*(.*)\*\* \|$", section, re.M
    )
    assert len(rows) == 6
    assert set(rows) == {
        (
            f"{raw[name]:.3f}",
            given[0]["CLUS-ENS"],
            given[0]["C-HMCNN"],
            f"{np.mean([float(row['default']) for row in given]):.3f}",
        )
        for name, given in seeds.items()
    }


def test_the_claims_of_the_readme_are_those_of_the_studies():
    text = " ".join((ROOT / "README.md").read_text().split())
    broken = {"raw_scores": [], "HierLPR": []}
    for row in _rows("real/results.csv"):
        if row["model"] == "logistic" and row["method"] in broken:
            broken[row["method"]].append(int(row["violations"]))
    assert set(broken["HierLPR"]) == {0}
    least, most = min(broken["raw_scores"]), max(broken["raw_scores"])
    assert f"before their parents {least:,} to {most:,} times; HierLPR never does" in text
    joint = {
        (row["set"], row["joint"]): float(row["au_prc"]) for row in _rows("joint_real/results.csv")
    }
    gains = [joint[name, "auto"] - joint[name, "False"] for name, kind in joint if kind == "auto"]
    assert (sum(gain > 0 for gain in gains), len(gains)) == (6, 7)
    assert f"rose on six of seven sets, by up to {max(gains):.3f}" in text
    short = [
        float(row["rate"])
        for row in _rows("guarantee/recall.csv")
        if row["method"] == "cautious" and row["case"].startswith("setting")
    ]
    assert round(5 * np.mean(short)) == 2
    assert "two in five cutoffs fall short of it there" in text


def test_a_reduced_run_of_the_thresholds():
    spec = importlib.util.spec_from_file_location("thr", ROOT / "experiments/thresholds/run.py")
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    config = study.read_config() | {"disease": {"learn": 400, "judge": 1000}}
    rows = study.study("disease", config, 1)
    lines = {line["method"]: line for line in study.summarize(rows, config["target"])}
    assert float(lines["hierlpr"]["contradictions"]) == 0
    assert float(lines["hierlpr"]["precision"]) > float(lines["per label"]["precision"])
    assert study.lowest_threshold(np.array([3.0, 2, 2, 1]), np.array([1, 1, 0, 0]), 0.6) == 2
    assert study.lowest_threshold(np.array([3.0, 2]), np.array([0, 1]), 0.9) == np.inf
