"""The house as its map says: file names that occur once, and a page that names every room."""

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
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", MAP))
    assert named
    assert sorted(name for name in named if not (SOURCE / name).exists()) == []


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
    known = {"_base/lazy.py", "lpr/fitting.py", "model/classifier_file.py"}
    assert by_name == known | {"_kernels/_build.py", "_kernels/_jit.py"}
