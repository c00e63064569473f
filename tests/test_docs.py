"""The documentation names everything there is, and its links and references lead somewhere."""

import csv
import re
from pathlib import Path

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
    cited = {
        (key, path.name)
        for path in [*PAGES, *(ROOT / "src").rglob("*.py")]
        for key in re.findall(r"[`#]([a-z]+(?:19|20)\d\d[a-z]*)", path.read_text())
    }
    assert {(key, name) for key, name in cited if key not in known} == set()


def rows_of(path):
    with (ROOT / "experiments" / path).open() as file:
        return list(csv.DictReader(file))


def percent(value):
    return f"{100 * float(value):.0f} %"


README = (ROOT / "README.md").read_text(encoding="utf-8").replace("*", "")


def test_the_readme_gives_the_figures_of_the_thresholds():
    rows = {(row["data"], row["method"]): row for row in rows_of("thresholds/summary.csv")}
    for words, data, name in [
        ("| one threshold per label, tuned | {} | {} |", "disease", "per label"),
        ("| one threshold for all labels, tuned | {} | {} |", "disease", "pooled"),
        (
            "| each label calibrated, then MAPIE, certified | {} | {} |",
            "disease",
            "calibrated mapie",
        ),
        ("| hierlpr, certified | {} | {} |", "disease", "hierlpr"),
        ("MAPIE finds {1} ({0} of 100 runs below target)", "enron", "mapie"),
        ("hierlpr {1} ({0} of 100)", "enron", "hierlpr"),
    ]:
        row = rows[data, name]
        n_below = percent(row["below_target"])[:-2]
        below = n_below if int(row["runs_with_calls"]) else "makes no call"
        assert words.format(below, percent(row["recall"])) in README


def test_the_readme_gives_the_figures_of_cutoffs():
    rates = [float(row["rate"]) for row in rows_of("guarantee/recall.csv")
             if row["case"].startswith("setting") and row["target"] == "0.9"
             and row["method"] == "cautious"]  # fmt: skip
    assert f"{percent(min(rates))[:-2]} to\n  {percent(max(rates))} of cutoffs" in README


def test_the_readme_gives_the_figures_of_the_taxa():
    rows = {row["rule"]: row for row in rows_of("taxa/summary.csv") if row["set"] == "its"}
    for words, rule in [
        ("the classifier's usual threshold 0.7", "threshold 0.7"),
        ("one threshold, tuned for 10 % wrong", "tuned threshold 0.1"),
        ("one threshold per rank, tuned for 10 % wrong", "tuned per rank 0.1"),
        ("hierlpr, error 10 %", "error 0.1"),
    ]:
        cells = [percent(rows[rule][name]) for name in ("wrong", "recall", "species")]
        assert f"| {words} | {' | '.join(cells)} |" in README
    example = (ROOT / "docs/how-to-amplicons.md").read_text(encoding="utf-8")
    for rank in ("genus", "species"):
        line = re.search(rf"^{rank} .*%$", example, re.M)[0]
        named, _, _, _, at_threshold, correct_there = re.findall(r"[\d.]+ %", line)
        for cell in (named, at_threshold, correct_there):
            assert cell in README


def test_the_shares_of_new_names_are_those_of_the_study():
    text = (ROOT / "docs/evidence-cutoffs.md").read_text(encoding="utf-8")
    for row in rows_of("taxa/new.csv"):
        assert abs(float(row["printed_named"]) - float(row["named"])) < 0.03
        assert float(row["wrong"]) < 0.1 + 3 * float(row["wrong_se"])
        if row["labelled"] in ("200", "1200"):
            names = ("named", "printed_named", "correct", "wrong")
            cells = " | ".join(f"{100 * float(row[name]):.1f} %" for name in names)
            assert f"| {row['set'].upper()} | {int(row['labelled']):,} | {cells} |" in text


def test_the_joint_posterior_is_not_behind_simple_rules():
    text, sets = (ROOT / "docs/evidence-joint.md").read_text(encoding="utf-8"), {}
    for row in rows_of("joint_real/rules.csv"):
        sets.setdefault(row["set"], {})[row["rule"]] = row["au_prc"].lstrip("0")
    for name, area in sets.items():
        cells = [area[x] for x in ("sigmoid + max", "LPR + max", "joint off", "auto")]
        assert f" | {' | '.join(cells)} |" in text
        if name != "enron":  # its test part is another population
            assert float(area["auto"]) >= max(map(float, area.values())) - 0.00101


def test_the_page_on_promises_gives_the_figures_of_the_samples():
    text = (ROOT / "docs/promises.md").read_text()
    found = {}
    for row in rows_of("samples/summary.csv"):
        if row["split"] == "default":
            found.setdefault(row["promise"], []).append(row)
    for words, promise in [
        ("pooled precision 90 %, confidence 90 %", "pooled precision"),
        ("precision 90 % at every depth, confidence 90 %", "precision at every depth"),
        ("sure labels, error 10 %", "sure labels, average"),
        ("sure labels, error 10 %, confidence 90 %", "sure labels, confidence"),
        ("largest F, no promise", "largest F (no promise)"),
    ]:
        rows = sorted(found[promise], key=lambda row: int(row["labelled"]))
        cells = [percent(row["found"]) for row in rows]
        assert f"| {words} | {' | '.join(cells)} |" in text
    its = [x for x in rows_of("taxa/new.csv") if x["set"] == "its" and x["labelled"] != "200"]
    cells = " | ".join(percent(row["named"]) for row in its)
    assert f"| one name, error 10 % (ITS) | {cells} |" in text
