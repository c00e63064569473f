"""The architecture page names every package and type, and modules keep to themselves."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hierlpr"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_package_is_listed():
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert sorted(name for name in packages if f"`{name}/`" not in PAGE) == []


def test_imports_go_to_packages_above():
    """Whether an import stands at the top of a module or inside a function."""
    listed = re.findall(r"`(\w+)(?:/|\.py)`", PAGE.split("## The types")[0].split("## Packages")[1])
    rows = [
        re.findall(r"`(\w+)(?:/|\.py)`", line.split("|")[1])
        for line in PAGE.splitlines()
        if line.startswith("| `")
    ]
    place = {name: i for i, names in enumerate(rows) for name in names if name in listed}
    wrong = set()
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for used in imported_packages(ast.parse(path.read_text(encoding="utf-8"))):
            if package in place and used != package and place.get(used, -1) >= place[package]:
                wrong.add(f"{path.relative_to(SOURCE)} imports {used}")
    assert sorted(wrong) == []


def imported_packages(tree):
    """Packages of hierlpr that run when a module does; not those for type checking only."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return set()
    names = []
    if isinstance(tree, ast.ImportFrom):
        names = [tree.module or ""]
        if tree.module == "hierlpr":
            names = [f"hierlpr.{alias.name}" for alias in tree.names]
    elif isinstance(tree, ast.Import):
        names = [alias.name for alias in tree.names]
    found = {name.split(".")[1] for name in names if name.startswith("hierlpr.")}
    return found.union(*(imported_packages(child) for child in ast.iter_child_nodes(tree)))


def test_listed_files_exist():
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml|j2))`", PAGE))
    assert named
    beside = ("docs/", "tests/", "experiments/")
    places = {name: (ROOT if name.startswith(beside) else SOURCE) / name for name in named}
    assert sorted(name for name, place in places.items() if not place.exists()) == []


def test_listed_types_are_defined_in_their_package_and_used_elsewhere():
    table = PAGE.split("## The types")[1].split("##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", table, flags=re.MULTILINE)
    assert rows
    code = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    for name, package in rows:
        home = {path for path in code if (SOURCE / package) in path.parents}
        assert any(re.search(rf"^class {name}\b", code[path], re.MULTILINE) for path in home), name
        assert any(re.search(rf"\b{name}\b", code[path]) for path in set(code) - home), name


def test_modules_are_not_imported_by_strings():
    """The import linter does not see modules that are imported by a string."""
    by_name = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"import_module\(|__import__\(", path.read_text(encoding="utf-8"))
    }
    # The lazy loader, the lazily loaded commands, files given as a hierarchy, the list of
    # estimators, and those in model files.
    loaded = {"_utils/__init__.py", "cli/_shell.py", "hierarchy/conversion.py"}
    assert by_name == loaded | {"lpr/estimators.py", "model/persistence.py"}


def test_only_packages_have_all():
    """In modules a leading underscore marks what is private."""
    listing = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
        and re.search(r"^__all__\b", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    assert listing == []


def test_private_names_are_used_in_their_own_module():
    of_tuples = {"_replace", "_asdict", "_fields", "_make"}
    found = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hierlpr."):
                names = [alias.name for alias in node.names]
                private = [x for x in names if re.match(r"_[a-z]", x)]
                found += [(path.name, x) for x in private if (node.module, x) not in SHARED]
            if not isinstance(node, ast.Attribute) or not re.match(r"_[a-z]", node.attr):
                continue
            of = ast.unparse(node.value)
            mine = of in ("self", "cls", "super()") or f"def {node.attr}(" in text
            if not mine and node.attr not in of_tuples:
                found.append((path.name, f"{of}.{node.attr}"))
    assert found == []


SHARED = {("hierlpr.cli", "_options"), ("hierlpr.cli", "_signals")}  # by all commands
