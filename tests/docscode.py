"""The code of the documentation, run: every block of a page in its order, in one folder.

``python`` blocks share one namespace. ``sh`` blocks run line by line. A ``text`` block titled
"prints" right after either holds what it prints; ``...`` stands for anything. A titled ``csv`` or
other block is a file, and is written. ``python tests/docscode.py PAGE ...`` brings what the pages
say is printed up to date.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click.testing

import docsdata
from hierlpr.exceptions import HierlprWarning

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r'^(?P<lead> *)```(?P<lang>[\w+-]*)(?: title="(?P<title>[^"]*)")? *\n'
    r"(?P<body>(?:.*\n)*?)(?P=lead)``` *$",
    re.M,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Lines that depend on the speed of the machine: progress after ten seconds, kernels compiled once.
TIMING = re.compile(r"^(?:[a-z ]+ (?:\.\.\.| *\d+ %, .* of .*)|compiling .*, once.*)\n", re.M)
# Commands that are shown and not run, each with its reason.
NOT_RUN = {
    "pip ": "installs", "python -m pip": "installs", "python3 -m venv": "installs",
    ". ": "enters an environment", "make ": "has its own test", "git ": "fetches",
    "open ": "opens a browser", "mkdocs": "builds the site", "uvicorn": "serves",
    "export ": "sets the environment", "hierlpr demo": "has its own test, and takes seconds",
    "hierlpr reproduce": "has its own test, and takes minutes",
    "hierlpr inspect --predictions asv.sintax": "the same as the next",
    "hierlpr assign --predictions asv.sintax": "is run on other files by how-to-amplicons.md",
    "hierlpr assign --model model.hlpr --predictions new.sintax": "the same",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    lang: str
    title: str
    body: str
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page; a comment keeps a block from being run."""
    found = []
    for m in FENCE.finditer(text):
        lead = len(m["lead"])
        body = "".join(line[lead:] for line in m["body"].splitlines(keepends=True))
        lang = m["lang"]
        if re.search(r"<!-- not run: .+ -->\s*$", text[: m.start()]):
            lang = "shown"
        found.append(Block(lang, m["title"] or "", body, m.start("body"), m.end("body")))
    return found


class Runner:
    """Runs the blocks of one page in the current folder."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names = docsdata.names_for(page)
        docsdata.files_for(page)

    def printed(self, text: str) -> Iterator[tuple[Block, str | None]]:
        """Run the blocks; yield each that tells what is printed with what was."""
        last: str | None = None
        for block in blocks(text):
            if block.lang == "python":
                last = self.python(block)
            elif block.lang == "sh":
                last = self.shell(block)
            elif block.title == "prints":
                yield block, last
            elif block.title and block.lang not in ("text", "shown"):
                Path(block.title).write_text(block.body, encoding="utf-8")

    def python(self, block: Block) -> str:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), warnings.catch_warnings():
                warnings.simplefilter("ignore", HierlprWarning)  # a reader sees them, and goes on
                exec(compile(block.body, self.page, "exec"), self.names)
        except Exception as error:
            told = "".join(traceback.format_exception(error)[-3:])
            raise AssertionError(f"{self.page}:\n{block.body}\n{told}") from error
        return out.getvalue()

    def shell(self, block: Block) -> str:
        out = ""
        for line in block.body.replace("\\\n", " ").splitlines():
            command = line.partition("  #")[0].strip()
            elsewhere = "--scheduler" in command or "--work /" in command  # no such cluster or disk
            if command and not elsewhere and not command.startswith(("#", *NOT_RUN)):
                out += self.command(command)
        return out

    def command(self, line: str) -> str:
        words = shlex.split(line)
        if words[0] != "hierlpr":
            line = re.sub("^python ", f"{shlex.quote(sys.executable)} ", line)
            done = subprocess.run(line, shell=True, capture_output=True, text=True)
            assert done.returncode == 0, (self.page, line, done.stderr)
            return done.stdout
        from hierlpr.cli import main

        result = click.testing.CliRunner().invoke(main, words[1:], prog_name="hierlpr")
        assert result.exit_code == 0, (self.page, line, result.output)
        return TIMING.sub("", result.output)


def agrees(want: str, got: str) -> bool:
    """Compare texts, of long numbers six digits (the last ones differ), and no sizes of files."""
    want, got = (
        re.sub(r"\d+\.\d{7,}", lambda m: f"{float(m[0]):.6g}", re.sub(r"\d+ kB", "kB", text))
        for text in (want, got)
    )
    return doctest.OutputChecker().check_output(want, got, FLAGS)


def update(path: Path) -> int:
    """Write into the page what its blocks print, where that differs; return how many did."""
    text = path.read_text(encoding="utf-8")
    changes = [
        (block, got)
        for block, got in Runner(path.name).printed(text)
        if got is not None and not agrees(block.body, got)
    ]
    for block, got in reversed(changes):
        stable = re.sub(r"\(\d+(\.\d+)? s\)", "(... s)", got.rstrip("\n"))  # times differ
        text = text[: block.start] + stable + "\n" + text[block.end :]
    path.write_text(text, encoding="utf-8")
    return len(changes)


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            sys.stdout.write(f"{page.name}: {update(page)} outputs changed\n")
            os.chdir(ROOT)
