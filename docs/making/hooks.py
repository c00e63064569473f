"""What the build of the site adds to MkDocs: formulas, citations, the gallery, unbroken words."""

import re
from pathlib import Path
from typing import Any

import bibtex
import gallery
from mkdocs.structure.files import File, Files
from tex import Scholarly
from unbroken import keep_words

HERE = Path(__file__).parent
ENTRIES = bibtex.read(HERE.parent / "references.bib")
# A parameter whose name and type say it all: no dash before a description that is not there.
_NOTHING_SAID = re.compile(r'\s*\u2013\s*(?:<div class="doc-md-description">\s*</div>)?\s*</li>')
_made: dict[str, str] = {}  # pages that are written by the build itself


def on_config(config: Any) -> Any:
    """Read formulas and citations in pages and docstrings."""
    config.markdown_extensions.append(Scholarly(ENTRIES))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Run the examples, and add a page and a picture for each."""
    examples = gallery.run_all(HERE.parents[1] / "examples")
    _made["gallery.md"] = gallery.index_page(examples)
    for example in examples:
        files.append(File.generated(config, f"example-{example.name}.md", content=example.page))
        for name, content in example.pictures.items():
            files.append(File.generated(config, f"images/gallery/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in what is made at build time."""
    return markdown.replace("<!-- bibliography -->", bibtex.page(ENTRIES)).replace(
        "<!-- gallery -->", _made["gallery.md"]
    )


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Keep the words of code whole, and no column free for a table of contents without content."""
    if not any(entry.children for entry in page.toc):
        page.meta["hide"] = [*page.meta.get("hide", []), "toc"]
    html = _NOTHING_SAID.sub("</li>", html)
    if page.file.name.startswith("api"):  # docstrings name pages by their files
        html = re.sub(r"<code>docs/([\w-]+)\.md</code>", r'<a href="\1.html">\1</a>', html)
    return keep_words(html)


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """Let the page for missing pages have relative links, and one to the start."""
    if template_name != "404.html":
        return output
    start = '<h1>Page not found</h1><p><a href="index.html">Back to the start</a></p>'
    return re.sub(r'(?<=")/(?=[^/])', "", output).replace("<h1>404 - Not found</h1>", start)
