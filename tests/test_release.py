"""Version, changelog and citation agree, and what ships is what the metadata say."""

import re
import tomllib
from pathlib import Path

import hierlpr
import smoke

ROOT = Path(__file__).parents[1]
RELEASE = r"^## (Unreleased|(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\))$"


def test_version_changelog_and_citation_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    headings = re.findall(r"^## .*$", changelog, re.M)
    first, *others = [re.fullmatch(RELEASE, heading) for heading in headings]
    assert all(m and m[2] for m in others), headings
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == hierlpr.__version__
    day = re.search(r"^date-released: (.*)$", citation, re.M)
    if first[1] == "Unreleased":  # the version of the package is the one to come
        assert hierlpr.__version__ not in [m[2] for m in others]
        assert day is None
    else:
        assert (first[2], first[3]) == (hierlpr.__version__, day and day[1])


def test_the_oldest_python_is_the_first_classifier():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.split(" :: ")[-1] for line in project["classifiers"] if ":: 3." in line]
    assert project["requires-python"] == f">={named[0]}"


def test_the_smoke_test_runs_every_command():
    from hierlpr.cli import main

    assert sorted(smoke.COMMANDS) == sorted(main.list_commands(None))
    for command, arguments in smoke.COMMANDS.items():
        assert arguments.split()[0] == command
