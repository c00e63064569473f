"""What the build of the site is made of: formulas, citations, gallery, and its own inspection."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "making"))

import bibtex  # noqa: E402
import check  # noqa: E402
import gallery  # noqa: E402
import unbroken  # noqa: E402

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def markdown():
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed (extra: docs)")
    module = pytest.importorskip("markdown")
    from tex import Scholarly

    return module.Markdown(extensions=[Scholarly(bibtex.read(ROOT / "docs" / "references.bib"))])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_and_draw(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMALL", "1")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    runpy.run_path(str(path), run_name="__main__")  # in this process: imports are dear
    plt.close("all")
    drawn = {found.name: found.read_bytes() for found in tmp_path.glob("*.png")}
    example = gallery.described(path, capsys.readouterr().out, drawn)
    assert example.printed
    assert list(drawn) == [path.stem + ".png"]
    assert drawn[path.stem + ".png"].startswith(b"\x89PNG")
    assert example.title in gallery.index_page([example])
    assert example.code in example.page


def test_every_work_has_author_title_and_year():
    entries = bibtex.read(ROOT / "docs" / "references.bib")
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    assert len(entries) == text.count("\n@") + text.startswith("@")
    for key, entry in entries.items():
        assert {"author", "year"} <= set(entry.fields), key
        assert "title" in entry.fields or "note" in entry.fields, key
        assert not set("{}\\") & set("".join(entry.fields.values())), key
    page = bibtex.page(entries)
    assert all(f'<li id="{key}">' in page for key in entries)


def test_bibtex_by_hand(tmp_path):
    path = tmp_path / "x.bib"
    path.write_text(
        "@article{a2001, author = {D{\\v z}eroski, Sa{\\v s}o and Cand{\\`e}s, E. J.},\n"
        "  title = {On {DAGs}}, pages = {1--9}, year = 2001}\n"
        '@book{b1999, author = "Ho, Christine and Ye, A and Lee, B and Wu, C", year = {1999}}\n'
    )
    entries = bibtex.read(path)
    assert entries["a2001"].cited == "Džeroski and Candès (2001)"
    assert entries["b1999"].cited == "Ho et al. (1999)"
    assert "Džeroski S., Candès E. J. (2001). On DAGs. 1\u20139." in bibtex.page(entries)
    path.write_text("@article{c, title = {never closed}")
    with pytest.raises(ValueError, match="never closed"):
        bibtex.read(path)


def test_formulas_become_mathml(markdown):
    made = markdown.convert(r"Let $H/N \ge p$ and :math:`\lambda_i <` 1:" "\n\n" r"$$\frac{a}{b}$$")
    assert made.count("<math ") == 3
    assert "<mfrac>" in made
    assert check.Page(made).text.count("\\") == 0
    made = markdown.convert("Text.\n\n.. math:: W = \\prod_i\n    (1 + G_i)\n\nMore ``code $x$``.")
    assert made.count("<math ") == 1
    assert "More" in made


def test_citations_become_links(markdown):
    made = markdown.convert("As in Wilson (1927), key ``wilson1927`` in ``docs/references.bib``.")
    assert 'href="bibliography.html#wilson1927"' in made
    assert "references.bib" not in made
    made = markdown.convert("Ho et al. (2018), key ``ho2018hierlpr``; Keys ``wilson1927``.")
    assert made.count("Ho et al.") == 1
    assert "ey" not in check.Page(made).text


def test_the_inspection_finds_what_is_wrong(tmp_path):
    (tmp_path / "search").mkdir()
    index = '{"docs": [{"title": "Install, tutorial, glossary", "text": ""}]}'
    (tmp_path / "search" / "search_index.json").write_text(index)
    (tmp_path / "search" / "search_index.js").write_text(f"var __index = {index}")
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="#top"></a><a href="b.html#in"></a><code>\\(x\\)</code>'
    )
    (tmp_path / "b.html").write_text('<p id="in">fine</p><a href="https://example.org/x">x</a>')
    assert check.problems(tmp_path) == []
    (tmp_path / "b.html").write_text(
        '<p>\\frac{1}{2}</p><a href="c.html"></a><a href="a.html#gone"></a>'
        '<script src="https://example.org/x.js"></script>'
        "<blockquote><blockquote><blockquote>1 + 1</blockquote></blockquote></blockquote>"
        '<img src="a.html"><code>fit --out <span class="word">--top</span></code>'
    )
    found = check.problems(tmp_path)
    assert len(found) == 8
    for words in (
        "b.html#in leads nowhere",
        "c.html leads",
        "a.html#gone leads",
        "loads https",
        "raw TeX",
        "drawn as a quotation",
        "a.html has no description",
        "--out may break",
    ):
        assert any(words in line for line in found), words
    (tmp_path / "search" / "search_index.json").write_text('{"docs": []}')
    (tmp_path / "search" / "search_index.js").unlink()
    assert sum(line.startswith("search:") for line in check.problems(tmp_path)) == 4


def test_words_of_code_stay_whole_and_their_text_the_same():
    code = 'fit <span class="k">a-b</span> --out m-1 &lt;x-y\n'
    page = f'<p>a-b</p><pre id="x-y"><code>{code}</code></pre>'
    made = unbroken.keep_words(page)
    assert made.startswith('<p>a-b</p><pre id="x-y"><code>fit <span class="k"><span class="word">')
    assert '<span class="word">--out</span> <span class="word">m-1</span>' in made
    assert re.sub(r"<[^>]+>", "", made) == re.sub(r"<[^>]+>", "", page)
    long = f"<pre>{'long-' * 20}</pre>"
    assert unbroken.keep_words(long) == long
    seams = unbroken.keep_words("<code>HierarchicalClassifier(make_pipeline(Vectorizer()))</code>")
    assert seams.startswith("<code>HierarchicalClassifier(<wbr>make_pipeline(<wbr>V")
    made = unbroken.keep_words("<p>10 % with --out-dir</p><code>10 %</code>")
    assert made == '<p>10&nbsp;% with <span class="word">--out-dir</span></p><code>10 %</code>'
    line = "About 1,200 more labelled samples like these may give 0.06 more"
    made = unbroken.keep_words(f"<pre><code>rank  named\n{line}\n</code></pre>")
    assert f'\n<span class="sentence">{line}</span>\n' in made
