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
    text = "\n".join(page.read_text() for page in (ROOT / "docs").glob("api*.md"))
    listed = set(re.findall(r"^::: hierlpr\.(\w+)$", text, re.M))
    assert listed == set(hierlpr.__all__) - {"__version__"}


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in PAGES if page.name not in navigation] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    made = {f"example-{p.stem.replace('_', '-')}.md" for p in (ROOT / "examples").glob("*.py")}
    targets += re.findall(r'(?:src|srcset)="([^"]+)"', page.read_text())
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


def test_the_readme_gives_the_figures_of_the_thresholds():
    with (ROOT / "experiments/thresholds/summary.csv").open() as file:
        found = {(row["data"], row["method"]): row for row in csv.DictReader(file)}
    text = " ".join((ROOT / "README.md").read_text().replace("*", "").split())

    def share(name, column, data="disease"):
        return round(100 * float(found[data, name][column]))

    for words, name in [
        ("one threshold per label, tuned", "per label"),
        ("one threshold for all labels, tuned", "pooled"),
        ("MAPIE, certified", "mapie"),
        ("hierlpr, certified", "hierlpr"),
    ]:
        runs = int(found["disease", name]["runs_with_calls"])
        below = share(name, "below_target") if runs else "makes no call"
        assert f"| {words} | {below} | {share(name, 'recall')} % |" in text
    mails = [
        share(name, column, "enron")
        for name in ("mapie", "hierlpr")
        for column in ("recall", "below_target")
    ]
    words = "MAPIE finds {} % ({} of 100 runs below target) and hierlpr {} % ({} of 100)"
    assert words.format(*mails) in text


def _rows(path):
    with (ROOT / "experiments" / path).open() as file:
        return list(csv.DictReader(file))


def test_the_default_is_ahead_of_the_published_network_on_all_sets_as_the_readme_says():
    seeds = {}
    for row in _rows("real/default.csv"):
        seeds.setdefault(row["set"], []).append(row)
    assert len(seeds) == 6
    for rows in seeds.values():
        default = np.mean([float(row["default"]) for row in rows])
        assert default > float(rows[0]["C-HMCNN"])


def test_two_in_five_cutoffs_without_confidence_are_below_target_as_the_readme_says():
    below = [
        float(row["rate"])
        for row in _rows("guarantee/recall.csv")
        if row["method"] == "cautious" and row["case"].startswith("setting")
    ]
    assert round(5 * np.mean(below)) == 2


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


def test_the_readme_gives_the_figures_of_the_taxa():
    rows = {(row["set"], row["rule"]): row for row in _rows("taxa/summary.csv")}
    text = (ROOT / "README.md").read_text().replace("*", "")
    for words, rule in [
        ("the classifier's usual threshold 0.7", "threshold 0.7"),
        ("one threshold, tuned for 10 % wrong", "tuned threshold 0.1"),
        ("one threshold per rank, tuned for 10 % wrong", "tuned per rank 0.1"),
        ("hierlpr, error 10 %", "error 0.1"),
    ]:
        row = rows["its", rule]
        wrong, recall = (round(100 * float(row[x])) for x in ("wrong", "recall"))
        assert f"| {words} | {wrong} % | {recall} % |" in text
    page = " ".join((ROOT / "docs/how-to-amplicons.md").read_text().split())
    share = {
        rule: f"{100 * float(row['recall']):.0f} %"
        for (name, rule), row in rows.items()
        if name == "its"
    }
    ours = f"{100 * float(rows['its', 'error 0.1']['wrong']):.1f} %"
    assert f"hierlpr gives {ours} and finds {share['error 0.1']} of the true names" in page
    tuned = (share["tuned threshold 0.1"], share["tuned per rank 0.1"])
    assert "finds {}, one tuned per rank {}.".format(*tuned) in page
    # The promise holds within three standard errors, for every error asked for.
    assert all(row["within"] == "yes" for row in rows.values() if row["rule"].startswith("error"))


def test_the_page_on_promises_gives_the_figures_of_the_samples():
    text = (ROOT / "docs/promises.md").read_text()
    found = {}
    for row in _rows("samples/summary.csv"):
        found.setdefault(row["promise"], []).append(row)
    for words, promise in [
        ("pooled precision 90 %, confidence 90 %", "pooled precision"),
        ("precision 90 % at every depth, confidence 90 %", "precision at every depth"),
        ("sure labels, error 10 %", "sure labels, average"),
        ("sure labels, error 10 %, confidence 90 %", "sure labels, confidence"),
        ("one name, error 10 % (ITS)", "one name (ITS)"),
        ("largest F, no promise", "largest F (no promise)"),
    ]:
        rows = sorted(found[promise], key=lambda row: int(row["labelled"]))
        cells = [f"{100 * float(row['found']):.0f} %" for row in rows]
        assert f"| {words} | {' | '.join(cells)} |" in text
    certified = [round(20 * float(row["certified"])) for row in found["pooled precision"]]
    assert f"| {' | '.join(map(str, certified))} |" in text
