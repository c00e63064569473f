"""Version, changelog and citation agree, and what ships is what the metadata say."""

import datetime
import re
import tomllib
from pathlib import Path

import pytest

import hierlpr
import smoke

ROOT = Path(__file__).parents[1]
RELEASE = r"^## (Unreleased|(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\))$"


def released(changelog):
    """Versions with their days, newest first, and whether work on the next one has begun."""
    headings = re.findall(r"^## .*$", changelog, re.M)
    matches = [re.fullmatch(RELEASE, heading) for heading in headings]
    assert all(matches), headings
    versions = [(m[2], m[3]) for m in matches if m[2]]
    assert [m[1] for m in matches].count("Unreleased") <= 1
    return versions, matches[0][1] == "Unreleased"


def agree(version, changelog, citation):
    """Raise an AssertionError unless the three tell one story."""
    versions, begun = released(changelog)
    number = [tuple(map(int, v.split("."))) for v, _ in versions]
    assert number == sorted(set(number), reverse=True)
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == version
    day = re.search(r"^date-released: (.*)$", citation, re.M)
    if begun:  # the version of the package is the one to come
        assert version not in dict(versions)
        assert day is None
        assert not number or tuple(map(int, version.split("."))) > number[0]
    else:
        assert versions[0][0] == version
        assert day is not None
        assert day[1] == versions[0][1]
        datetime.date.fromisoformat(day[1])


def test_version_changelog_and_citation_agree():
    agree(
        hierlpr.__version__,
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        (ROOT / "CITATION.cff").read_text(encoding="utf-8"),
    )


@pytest.mark.parametrize(
    ("version", "changelog", "citation"),
    [
        ("0.2.0", "## Unreleased\n", "version: 0.1.0\n"),
        ("0.1.0", "## Unreleased\n## 0.1.0 (2026-01-01)\n", "version: 0.1.0\n"),
        ("0.1.0", "## Unreleased\n## 0.2.0 (2026-01-01)\n", "version: 0.1.0\n"),
        ("0.2.0", "## 0.1.0 (2026-01-01)\n", "version: 0.2.0\ndate-released: 2026-01-01\n"),
        ("0.1.0", "## 0.1.0 (2026-01-01)\n", "version: 0.1.0\n"),
        ("0.1.0", "## 0.1.0 (2026-01-01)\n", "version: 0.1.0\ndate-released: 2026-01-02\n"),
        ("0.1.0", "## 0.1.0\n", "version: 0.1.0\n"),
    ],
)
def test_what_does_not_agree_is_noticed(version, changelog, citation):
    with pytest.raises(AssertionError):
        agree(version, changelog, citation)


def test_a_release_agrees():
    agree("0.1.0", "## 0.1.0 (2026-01-01)\n", "version: 0.1.0\ndate-released: 2026-01-01\n")


def test_the_oldest_python_is_the_first_classifier():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.split(" :: ")[-1] for line in project["classifiers"] if ":: 3." in line]
    assert project["requires-python"] == f">={named[0]}"


def test_the_smoke_test_runs_every_command():
    from hierlpr.cli import main

    assert sorted(smoke.COMMANDS) == sorted(main.list_commands(None))
    for command, arguments in smoke.COMMANDS.items():
        assert arguments.split()[0] == command
