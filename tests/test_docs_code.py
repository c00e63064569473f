"""Every code block of the documentation runs, and prints what the page says."""

import pytest

import docscode

PAGES = sorted((docscode.ROOT / "docs").glob("*.md"))
PAGES = [page for page in [*PAGES, docscode.ROOT / "README.md"] if "```" in page.read_text()]
DATA = {"csv", "tsv", "json", "obo", "arff", "toml", "html", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for block, got in docscode.Runner(page.name).printed(text):
        assert got is not None, f"{page.name}: nothing was run before\n{block.body}"
        assert docscode.agrees(block.body, got), (
            f"{page.name} says\n{block.body}\nbut this is printed\n{got}\n"
            f"If that is right: python tests/docscode.py docs/{page.name}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    text = page.read_text(encoding="utf-8")
    found = docscode.blocks(text)
    assert len(found) * 2 == text.count("```"), "a fence is not closed, or not understood"
    assert {block.lang for block in found} <= {"python", "sh", "shown", *DATA}
    said = {b.title for b in found if b.lang == "text" and b.body.startswith(("$ ", "hierlpr "))}
    assert said <= {"usage"}, "a command belongs into a sh block, which is run"


def test_output_that_depends_on_the_speed_of_the_machine_is_left_out():
    kept = "a.csv: 3 rows\n300 of 900 samples ...\n"
    slow = "compiling kernels, once: later\nfitting ...\nreading scores   5 %, 1 of 20 rows\n"
    assert docscode.TIMING.sub("", slow + kept) == kept
