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


def test_the_types_of_the_map_live_in_their_rooms():
    table = MAP.split("## The types")[1].split("##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", table, flags=re.MULTILINE)
    assert 10 <= len(rows) <= 15
    for name, room in rows:
        code = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / room).rglob("*.py"))
        assert f"class {name}" in code, (name, room)
