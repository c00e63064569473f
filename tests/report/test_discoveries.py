"""The page of discoveries in a real browser, and its numbers."""

import json
import re

import numpy as np
import pytest
from watching import HOSTILE, PHONE, Watched, names

from hierlpr import Hierarchy, discover
from hierlpr.report.discoveries import render_discoveries, write_discoveries_report


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    h = Hierarchy([(f"v{(i - 1) // 3}", f"v{i}") for i in range(1, 90)])
    p = np.where(np.arange(90) < 30, rng.random(90) * 1e-3, rng.random(90))
    p[[0, 5]] = np.nan
    return discover(p, h, 0.1, "independent")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory, found):
    path = tmp_path_factory.mktemp("found") / "page.html"
    write_discoveries_report(path, found, title="A study")
    return path


@pytest.fixture(params=["light", "dark", "phone"])
def opened(request, browser, page_file):
    how = {"color_scheme": "dark"} if request.param == "dark" else {}
    watched = Watched(
        browser, page_file, **({"viewport": PHONE} if request.param == "phone" else how)
    )
    yield watched.page
    watched.close()


def test_it_opens_quietly_and_says_the_answer(opened, found):
    n = int(found.is_rejected.sum())
    assert opened.inner_text("#answer h2").startswith(f"{n} of 90 labels rejected")
    assert found.assumption.split(",")[0] in opened.inner_text("#answer")
    assert opened.locator("figure svg").count() == 2
    assert opened.locator("#labels-table tbody tr").count() == 50
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_search_choose_and_sort(opened, found):
    opened.fill("#hierarchy-search", "v12")
    opened.press("#hierarchy-search", "Enter")
    assert opened.inner_text("#hierarchy-panel h3") == "v12"
    words = opened.inner_text("#hierarchy-panel")
    rejected = bool(found.is_rejected[found.hierarchy.index("v12")])
    assert ("yes, at fdr 0.1" in words) == rejected
    first = opened.inner_text("#labels-table tbody tr:first-child th")
    assert first == found.ranking[0]
    opened.click("#labels-table thead >> text=smallest fdr")
    opened.click("#labels-table thead >> text=smallest fdr")
    top = opened.inner_text("#labels-table tbody tr:first-child th")
    assert found.level[found.hierarchy.index(top)] == pytest.approx(found.level.min(), rel=1e-3)


def test_hostile_names_stay_text(browser, tmp_path):
    h = Hierarchy([(HOSTILE[i // 3], HOSTILE[i]) for i in range(1, len(HOSTILE))])
    found = discover(np.linspace(1e-6, 1e-3, h.n_labels), h)
    path = tmp_path / "hostile.html"
    write_discoveries_report(path, found, title=HOSTILE[0])
    watched = Watched(browser, path)
    watched.page.click("#hierarchy-tools >> text=Open all")
    assert watched.page.title() == HOSTILE[0]
    assert set(names(watched.page)) >= set(HOSTILE[:4])
    watched.close()


def test_the_data_are_those_of_the_result(found):
    text = render_discoveries(found)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    labels = data["labels"]
    assert labels["name"] == list(found.hierarchy.labels)
    assert labels["rejected"] == found.is_rejected.astype(int).tolist()
    assert labels["p"][0] is None
    np.testing.assert_allclose(labels["level"], found.level, rtol=1e-3)
    assert render_discoveries(found) == text
