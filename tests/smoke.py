"""Every command once, as an installed package runs it: ``python smoke.py`` in any environment.

`make dist` runs it with a wheel in an environment of its own. It needs nothing but the package: no
checkout, no pytest. A command that has no line here fails it.
"""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import metadata
from importlib.metadata import version as version_of
from pathlib import Path

FILES = "--hierarchy d/hierarchy.csv --scores d/scores.csv --truth d/truth.csv"
TEST = "--scores d/test_scores.csv --truth d/test_truth.csv"
COMMANDS = {
    "demo": "demo --out demo",
    "simulate": "simulate --setting dag --labels 12 --samples 300 --out d",
    "inspect": "inspect d/hierarchy.csv --json",
    "fit": f"fit {FILES} --precision 0.7 --error 0.3 --out m.hlpr",
    "rank": "rank --model m.hlpr --scores d/test_scores.csv --out r.csv",
    "sets": "sets --model m.hlpr --scores d/test_scores.csv --out s.csv",
    "audit": "audit --model m.hlpr --scores d/test_scores.csv --precision 0.7 --out audited",
    "check": "check --model m.hlpr --scores d/test_scores.csv",
    "evaluate": "evaluate --hierarchy d/hierarchy.csv --ranking r.csv --truth d/test_truth.csv",
    "report": f"report --model m.hlpr {TEST} --out r.html",
    "discover": "discover --hierarchy d/hierarchy.csv --p-values p.csv --out f.csv",
    "assign": "assign --predictions a.sintax --truth a.tsv --out a.hlpr",
    "reproduce": "reproduce table2 --replications 2 --trees 2 --jobs 1 --out paper",
}  # fmt: skip
MADE = ("demo/report.html", "m.hlpr", "r.csv", "s.csv", "r.html", "f.csv", "a.hlpr",
        "audited/check.csv", "paper/table2.csv")  # fmt: skip


def main() -> None:
    """Run every command of the installed package in a folder of its own."""
    version = check_installation()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        help_text = run(folder, "--help")
        offered = re.findall(r"^  (\w+) ", help_text.split("Commands:")[1].split("\n\n")[0], re.M)
        if sorted(offered) != sorted(COMMANDS):
            raise SystemExit(f"The commands are {offered}, the smoke test has {list(COMMANDS)}.")
        for command, arguments in COMMANDS.items():
            if command == "discover":
                labels = re.split(r"[,\n]", (folder / "d/hierarchy.csv").read_text())[2:]
                rows = [f"{label},{0.9 / 2**k}" for k, label in enumerate(sorted({*labels} - {""}))]
                (folder / "p.csv").write_text("\n".join(["label,p", *rows, ""]))
            if command == "assign":
                named = [(f"q{i}", "ab"[i % 2], i % 10 / 10) for i in range(400)]
                calls = [f"{q}\td:A({p:.2f}),p:{x}({p:.2f})\t+\td:A" for q, x, p in named]
                known = [f"{q}\tA;{x if p > 0.3 else 'c'}" for q, x, p in named]
                (folder / "a.sintax").write_text("\n".join([*calls, ""]))
                (folder / "a.tsv").write_text("\n".join(["sample\ttaxon", *known, ""]))
            run(folder, *arguments.split())
            say(f"  hierlpr {arguments}")
        for made in MADE:
            if (folder / made).stat().st_size == 0:
                raise SystemExit(f"{made} is empty.")
    beside = ", ".join(f"{name} {version_of(name)}" for name in ("numpy", "numba", "scikit-learn"))
    say(f"hierlpr {version} with Python {sys.version.split()[0]}, {beside}: every command ran.")


def check_installation() -> str:
    """The package comes from this environment, and its page on an index has no dead link."""
    import hierlpr

    if not Path(hierlpr.__file__).is_relative_to(sys.prefix):
        raise SystemExit(f"{hierlpr.__file__} is not installed in {sys.prefix}.")
    info = metadata("hierlpr")
    if info["Version"] != hierlpr.__version__:
        raise SystemExit(f"Metadata say {info['Version']}, the package {hierlpr.__version__}.")
    page = str(info.get_payload())
    relative = [to for to in re.findall(r"\]\(([^)\s]+)\)", page) if "://" not in to]
    if relative or "hierlpr" not in page:
        raise SystemExit(f"The description has links that lead nowhere on an index: {relative}")
    return hierlpr.__version__


def run(folder: Path, *arguments: str) -> str:
    """Run one command, and stop with its words if it fails."""
    script = Path(sys.executable).with_name("hierlpr")
    done = subprocess.run([script, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"hierlpr {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
