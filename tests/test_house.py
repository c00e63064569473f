"""The house as its map says: file names that occur once, and a page that names every room."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hierlpr"
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_a_file_name_occurs_once():
    names = Counter(path.name for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_every_room_is_on_the_map():
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert sorted(room for room in rooms if f"`{room}/`" not in MAP) == []


def test_what_the_map_names_is_there():
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml|j2))`", MAP))
    assert named
    beside = ("docs/", "tests/", "experiments/")
    places = {name: (ROOT if name.startswith(beside) else SOURCE) / name for name in named}
    assert sorted(name for name, place in places.items() if not place.exists()) == []


def test_the_types_of_the_map_live_in_their_rooms_and_leave_them():
    table = MAP.split("## The types")[1].split("##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", table, flags=re.MULTILINE)
    assert 10 <= len(rows) <= 15
    code = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    for name, room in rows:
        home = {path for path in code if (SOURCE / room) in path.parents}
        assert any(re.search(rf"^class {name}\b", code[path], re.MULTILINE) for path in home), name
        assert any(re.search(rf"\b{name}\b", code[path]) for path in set(code) - home), name


def test_nothing_is_imported_by_name_past_the_linter():
    """A module named in a text is an import that the direction of imports is not checked for."""
    by_name = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"import_module\(|__import__\(", path.read_text(encoding="utf-8"))
    }
    # The loader of a package's own names, lists of estimators and of classes that a file may hold,
    # and the kernels that were compiled beforehand.
    known = {"_base/__init__.py", "lpr/fitting.py", "model/classifier_file.py"}
    assert by_name == known | {"_kernels/_build.py", "_kernels/_jit.py"}


def test_names_are_listed_by_packages_alone():
    """Elsewhere the underscore says what stays in a module."""
    listing = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
        and re.search(r"^__all__\b", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    assert listing == []


def test_what_is_private_is_used_by_its_own_class_or_module():
    of_tuples = {"_replace", "_asdict", "_fields", "_make"}
    found = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hierlpr."):
                names = [alias.name for alias in node.names]
                private = [x for x in names if re.match(r"_[a-z]", x)]
                found += [(path.name, x) for x in private if (node.module, x) != OPTIONS]
            if not isinstance(node, ast.Attribute) or not re.match(r"_[a-z]", node.attr):
                continue
            of = ast.unparse(node.value)
            mine = of in ("self", "cls", "super()") or f"def {node.attr}(" in text
            if not mine and node.attr not in of_tuples:
                found.append((path.name, f"{of}.{node.attr}"))
    assert found == []


OPTIONS = ("hierlpr.cli", "_options")  # the module that all commands share
