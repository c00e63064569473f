"""The page as a file: self-contained, deterministic, bounded, and safe."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.report import write_report
from hierlpr.report.html import island


class Reader(HTMLParser):
    """What a browser would see: elements with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.content = {}
        self._open = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, len([t for t, _ in self.elements if t == tag]))

    def handle_data(self, data):
        if self._open:
            self.content[self._open] = self.content.get(self._open, "") + data

    def handle_endtag(self, tag):
        self._open = None


def written(path, case, **options):
    report = write_report(path, case.model, case.scores, case.truth, **options)
    return report, path.read_text(encoding="utf-8")


def test_nothing_is_loaded_from_anywhere(tmp_path, disease):
    _, text = written(tmp_path / "r.html", disease)
    page = Reader(text)
    for tag, attributes in page.elements:
        assert tag not in {"iframe", "object", "embed", "base", "form", "img"}
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert re.match(r"#|data:,$", attributes.get(name, "#")), (tag, attributes)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", text)


def test_the_policy_allows_only_the_own_script_and_style(tmp_path, hostile):
    _, text = written(tmp_path / "r.html", hostile)
    page = Reader(text)
    policy = next(a["content"] for t, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for content in (page.content["script", 2], page.content["style", 1]):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert [t for t, _ in page.elements].count("script") == 2


def test_hostile_names_are_only_in_the_data(tmp_path, hostile):
    _, text = written(tmp_path / "r.html", hostile, title="<script>alert('title')</script>")
    page = Reader(text)
    data = json.loads(page.content["script", 1])
    assert data["labels"]["name"] == list(hostile.model.hierarchy_.labels)
    assert data["samples"][0]["name"] == hostile.scores.index[0]
    assert page.content["title", 1] == "<script>alert('title')</script>"
    assert "onerror" not in text.replace(page.content["script", 1], "")


def test_an_island_cannot_be_left():
    text = island({"a": "</script><!-- & \u2028 <script>"})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028 <script>"}


def test_figures_have_text_for_screen_readers(tmp_path, disease):
    _, text = written(tmp_path / "r.html", disease)
    page = Reader(text)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    figures = [a for t, a in page.elements if t == "svg"]
    assert len(figures) == 4
    for figure in figures:
        assert figure["role"] == "img"
        assert figure["aria-label"]
        assert figure["aria-describedby"] in ids
    for tag, attributes in page.elements:
        for name in ("aria-labelledby", "aria-controls"):
            assert set(attributes.get(name, "").split()) <= set(ids), tag
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_the_size_stays_bounded(tmp_path):
    h = simulate.random_tree(600, max_depth=7, rng=0)
    data = simulate.random_model(h, rng=1, root=0.9).draw(700, rng=2)
    model = HierLPR(h).fit(data.scores[:200], data.truth[:200])
    sizes = []
    for n in (250, 500):
        part = slice(200, 200 + n)
        write_report(tmp_path / "r.html", model, data.scores[part], data.truth[part])
        sizes.append((tmp_path / "r.html").stat().st_size)
    assert sizes[1] < 1.1 * sizes[0] < 1_200_000


@pytest.mark.filterwarnings("ignore:.*too few to learn from")
@pytest.mark.parametrize("n_samples", [1, 2])
def test_smallest_reports(tmp_path, n_samples):
    h = Hierarchy(labels=["only"])
    model = HierLPR(h).fit([[0.1], [0.9], [0.8], [0.3]], [[0], [1], [1], [0]])
    report = write_report(
        tmp_path / "r.html", model, np.full((n_samples, 1), 0.9), np.ones((n_samples, 1))
    )
    assert report.answer.n_samples == n_samples
    write_report(tmp_path / "r.html", model, [[0.9]], [[0]], max_samples=0)
