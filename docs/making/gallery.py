"""The gallery: every ``examples/*.py`` is run, and becomes a page with words, code and pictures.

An example is a script whose docstring begins with a title. What it prints and the figures it saves
are shown with its code. ``SMALL=1`` in the environment makes it quick, for the tests; the build of
the site runs it in full.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Example", "described", "index_page", "run", "run_all"]


@dataclass(frozen=True, slots=True)
class Example:
    """One example: its text, what it printed, and its pictures."""

    name: str
    title: str
    words: str
    code: str
    printed: str
    pictures: dict[str, bytes]

    @property
    def page(self) -> str:
        """Return the page as Markdown."""
        shown = "".join(f"![{self.title}](images/gallery/{name})\n\n" for name in self.pictures)
        printed = f'```text title="prints"\n{self.printed}```\n\n' if self.printed else ""
        return (
            f"[All examples](gallery.md)\n\n# {self.title}\n\n{self.words}\n\n{shown}{printed}"
            f'```python title="examples/{self.name.replace("-", "_")}.py"\n{self.code}\n```\n'
        )


def run_all(folder: Path) -> list[Example]:
    """Run every example of a folder: the two to begin with, then by name."""
    first = ("trusted_cutoff", "one_ranking")
    paths = sorted(
        folder.glob("*.py"),
        key=lambda path: (path.stem not in first[:1], path.stem not in first, path.stem),
    )
    return [run(path) for path in paths]


def run(path: Path) -> Example:
    """Run one example in a folder of its own; what it prints to stderr stays out of the page."""
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run(
            [sys.executable, path.resolve()],
            cwd=name, capture_output=True, text=True, encoding="utf-8",
            env={**os.environ, "MPLBACKEND": "agg"},
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{path.name} failed:\n{done.stderr}")
        pictures = {found.name: found.read_bytes() for found in sorted(Path(name).glob("*.png"))}
    return described(path, done.stdout, pictures)


def described(path: Path, printed: str, pictures: dict[str, bytes]) -> Example:
    """Return an example that was run, with the words and the code of its source."""
    source = path.read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(source))
    if not words:
        raise ValueError(f"{path} has no docstring to begin its page with.")
    title, _, rest = words.partition("\n")
    code = re.sub(r'^"""[\s\S]*?"""\n+|  # fmt: skip$', "", source, flags=re.MULTILINE).strip()
    name = path.stem.replace("_", "-")
    return Example(name, title.rstrip("."), rest.strip(), code, printed, pictures)


def index_page(examples: list[Example]) -> str:
    """Return one card per example: its first picture, its title, its first sentence."""
    cards = []
    for example in examples:
        sentence = " ".join(example.words.split("\n\n")[0].split())
        link = f"example-{example.name}.md"
        picture = next(iter(example.pictures), None)
        image = f"[![](images/gallery/{picture})]({link})\n\n    " if picture else ""
        cards.append(f"-   {image}**[{example.title}]({link})**\n\n    {sentence}\n")
    return '<div class="grid cards gallery" markdown>\n\n' + "\n".join(cards) + "\n</div>\n"
