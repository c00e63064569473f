"""Version, changelog and citation agree, and what ships is what the metadata say."""

import re
import tomllib
from pathlib import Path

import yaml

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


def commands_of_workflows():
    """Every command of the workflows, one per target where a job has several."""
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
            for step in job["steps"]:
                for target in targets:
                    yield step.get("run", "").replace("${{ matrix.target }}", target)


def test_workflows_run_what_the_makefile_offers():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = list(commands_of_workflows())
    made = {command.split()[1] for command in commands if command.startswith("make ")}
    assert made >= {"lint", "types", "docs", "test-oldest", "slow", "mutate", "paper", "dist"}
    assert made <= set(re.findall(r"^([a-z-]+):", makefile, re.M))
    installs = [command for command in commands if "pip install" in command]
    assert all(re.search(r'-e "[^"]+"', command)[0] in makefile for command in installs)
    assert "python -m pytest -n auto" in commands
    assert "$(RUN) pytest -n auto\n" in makefile


def test_every_classified_python_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.split(" :: ")[-1] for line in project["classifiers"] if ":: 3." in line]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == named


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    version = re.search(r'set version = "(.*)"', text)[1]
    assert version == hierlpr.__version__
    text = re.sub(r"\{%.*%\}", "", text).replace("{{ version }}", version)
    recipe = yaml.safe_load(text.replace("{{ PYTHON }}", "python"))
    run = [line.replace(" ", "").replace("-base", "") for line in recipe["requirements"]["run"]]
    assert run == [f"python{project['requires-python']}", *project["dependencies"]]
    assert recipe["about"]["summary"] == project["description"]
