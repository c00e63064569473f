"""The documentation names everything there is, and its links and references lead somewhere."""

import csv
import re
from pathlib import Path

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
    methods = ["raw_scores", "max_propagation", "top_down", "HierLPR"]
    rows = re.findall(r"^\| .*\(`(\w+)`\) \| (.*) \|$", (ROOT / "README.md").read_text(), re.M)
    assert len(rows) == 5
    for name, cells in rows:
        given = [float(cell.strip("* ")) for cell in cells.split("|")]
        assert given == [round(results[name, method], 3) for method in methods]
