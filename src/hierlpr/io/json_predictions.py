"""JSON predictions: SpeciesNet, the MegaDetector format, and MapMyCells' extended results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr.io.lineages import (
    Predictions,
    check_samples,
    from_paths,
    merge_aliases,
    quote,
    refuse,
)

MOST_BYTES = 1 << 30
FIELDS = ("class", "order", "family", "genus", "species")
_FIELDS = {
    5: FIELDS,
    6: ("kingdom", "phylum", "class", "order", "family", "species"),
    7: ("kingdom", "phylum", *FIELDS),
}
_TYPES = {dict: "an object", list: "a list", str: "text", int: "a number"}
Node = tuple[str, str]  # level and id
_UUID = re.compile(r"^[0-9a-f]+-[0-9a-f-]+$")


class Place:
    """A value in a JSON file and where it is, such as ``predictions[3].filepath``."""

    def __init__(self, path: AnyPath, value: Any, where: str = "") -> None:
        self.path, self.value, self.where = path, value, where

    def get(self, key: str | int, *types: type, default: Any = None) -> Place:
        """Return the value of a key or an item; raise for other types and missing keys."""
        if isinstance(key, int):
            where, value = f"{self.where}[{key}]", self.value[key]
        else:
            where = f"{self.where}.{escape(key)}".strip(".")
            value = self.value.get(key)
            value = default if value is None else value
        if value is None:
            raise refuse(self.path, where, "this is missing or null.")
        if not isinstance(value, types) or isinstance(value, bool):
            text = f"expected {_TYPES[types[0]]}, got {quote(repr(value))}."
            raise refuse(self.path, where, text)
        return Place(self.path, value, where)

    def items(self, *types: type) -> list[Place]:
        """Return the items of a list, each of one of the types."""
        return [self.get(i, *types) for i in range(len(self.value))]

    def score(self, key: str | int) -> float:
        """Return a number from 0 to 1."""
        found = self.get(key, int, float)
        if not 0.0 <= found.value <= 1.0 + 1e-6:
            text = f"the score {quote(found.value)} is not from 0 to 1."
            raise refuse(self.path, found.where, text)
        return min(float(found.value), 1.0)


def escape(key: str) -> str:
    """Return a key of a JSON object as part of a place."""
    return quote(key)[1:-1]


def load_json(path: AnyPath, raw: bytes) -> Any:
    """Parse a JSON file; raise if it is damaged, too large or nested too deeply."""
    if len(raw) > MOST_BYTES:
        raise refuse(path, "", f"the file is larger than {MOST_BYTES >> 30} GB.", "split it.")
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise refuse(path, place, f"not valid JSON: {error.msg}.", "was it cut off?") from None
    except (RecursionError, ValueError) as error:
        raise refuse(path, "", f"the JSON cannot be read ({quote(error)}).") from None


def read_speciesnet(path: AnyPath, content: Any) -> Predictions:
    """Read SpeciesNet predictions: the classes listed for each image, summed up to ancestors."""
    images = Place(path, content).get("predictions", list).items(dict)
    entries = []
    for row, image in enumerate(images):
        listed = image.get("classifications", dict, default={"classes": [], "scores": []})
        classes, scores = listed.get("classes", list), listed.get("scores", list)
        if len(classes.value) != len(scores.value):
            text = f"{len(scores.value)} scores for {len(classes.value)} classes."
            raise refuse(path, scores.where, text)
        entries += [(row, x, scores.score(i)) for i, x in enumerate(classes.items(str))]
    names = [image.get("filepath", str).value for image in images]
    samples = check_samples(path, names, lambda row: f"predictions[{row}]")
    own = ("prediction", "prediction_score", "prediction_source")
    columns = {key: [str(image.value.get(key, "")) for image in images] for key in own}
    return _from_classes(
        path, "speciesnet", samples, entries, columns=pa.table(columns), content=content
    )


def read_megadetector(path: AnyPath, content: Any) -> Predictions:
    """Read the MegaDetector format: for each image its most confident classified detection."""
    top = Place(path, content)
    categories = top.get("classification_categories", dict, default={})
    described = top.get("classification_category_descriptions", dict, default={})
    images = top.get("images", list).items(dict)
    entries, used, n_others = [], [], 0
    for row, image in enumerate(images):
        found = image.get("detections", list, default=[]).items(dict)
        classified = [x for x in found if x.value.get("classifications")]
        classified.sort(key=lambda x: -x.score("conf"))
        used.append(classified[0].value if classified else None)
        n_others += max(0, len(classified) - 1)
        for pair in classified[0].get("classifications", list).items(list) if classified else []:
            if len(pair.value) != 2:
                raise refuse(path, pair.where, "expected [category, confidence].")
            category = str(pair.value[0])
            source = described if category in described.value else categories
            entries.append((row, source.get(category, str), pair.score(1)))
    names = [image.get("file", str).value for image in images]
    samples = check_samples(path, names, lambda row: f"images[{row}]")
    common = {described.value.get(x, name): str(name) for x, name in categories.value.items()}
    columns = {"detection_conf": ["" if x is None else f"{x['conf']:g}" for x in used]}
    note = f"{n_others:,} further classified detections of images with several were not used"
    return _from_classes(
        path, "megadetector", samples, entries, common, columns=pa.table(columns),
        content=(content, used), notes=(note,) if n_others else (),
    )  # fmt: skip


def parse_class(text: str, kind: str = "speciesnet") -> tuple[list[tuple[str, str]], str]:
    """Return the (rank, name) pairs and the common name of a class of a camera-trap tool.

    >>> parse_class("u1;mammalia;carnivora;felidae;panthera;leo;lion")[0][-2:]
    [('genus', 'panthera'), ('species', 'leo')]
    >>> parse_class("u2;;;;;;blank"), parse_class("fox")
    (([('', 'blank')], 'blank'), ([('', 'fox')], ''))
    """
    parts = [part.strip() for part in text.split(";")]
    common = ""
    # uuid;class;order;family;genus;species;common name
    if len(parts) == 7 and (kind == "speciesnet" or _UUID.match(parts[0])):
        common, parts = parts[-1], parts[1:-1]
    fields = _FIELDS.get(
        len(parts), [f"level {i + 1}" if len(parts) > 1 else "" for i in range(len(parts))]
    )
    pairs = [(rank, name) for rank, name in zip(fields, parts, strict=True) if name]
    if fields is FIELDS and (pairs or common == "animal"):
        pairs.insert(0, ("kingdom", "animal"))
    return pairs or [("", common)], common


def _from_classes(
    path: AnyPath,
    kind: str,
    samples: tuple[str, ...],
    entries: Sequence[tuple[int, Place, float]],
    common: dict[str, str] | None = None,
    **others: Any,
) -> Predictions:
    """Build predictions from exclusive classes: an ancestor has the sum of the classes below."""
    if not entries:
        raise refuse(path, "", "no image has a classification.", "was the classifier run?")
    code: dict[str, int] = {}
    for _, place, _ in entries:
        code.setdefault(place.value, len(code))
    parsed = [parse_class(text, kind) for text in code]
    for _, place, _ in entries:
        if not parsed[code[place.value]][0][0][1]:
            raise refuse(path, place.where, f"the class {quote(place.value)} has no name.")
    row, column, score = zip(
        *((row, code[x.value], score) for row, x, score in entries), strict=True
    )
    found = paths_of_classes(path, kind, list(code), [pairs for pairs, _ in parsed])
    listed = sparse.csr_array((score, (row, column)), shape=(len(samples), len(code)))
    summed = sparse.csr_array(listed @ found.scores)
    summed.sort_indices()
    np.minimum(summed.data, 1.0, out=summed.data)
    aliases = []
    for (text, _), (_, name), i in zip(code.items(), parsed, found.deepest(), strict=True):
        called = {text, name, (common or {}).get(text, "")} - {""}
        aliases += [(x, found.hierarchy.labels[i]) for x in called if i >= 0]
    n_fields = max(text.count(";") for text in code) + 1
    fields = FIELDS if "animal" in found.hierarchy.roots else _FIELDS.get(n_fields, ())
    style = {**found.style, "fields": list(fields)}
    return replace(
        found,
        samples=samples,
        scores=summed,
        style=style,
        place=None,
        aliases=merge_aliases(found.aliases, aliases),
        **others,
    )


def paths_of_classes(
    path: AnyPath,
    kind: str,
    classes: Sequence[str],
    paths: Sequence[Sequence[tuple[str, str]]],
    shown: dict[str, str] | None = None,
) -> Predictions:
    """Build the hierarchy of classes given as (rank, name) pairs; each class is one sample."""
    row = np.repeat(np.arange(len(paths)), [len(pairs) for pairs in paths])
    place = np.concatenate([np.arange(len(pairs)) for pairs in paths])
    flat = [pair for pairs in paths for pair in pairs]
    names = pa.array([name for _, name in flat], pa.large_string())
    return from_paths(
        path, kind, tuple(classes), row, place, names, np.ones(row.size), lambda i: flat[i][0],
        style={}, shown=shown,
    )  # fmt: skip


# -- MapMyCells ---------------------------------------------------------------------------------


def read_mapmycells_json(path: AnyPath, content: Any) -> Predictions:
    """Read the tree, and for each cell and level the assigned node and the runners-up."""
    top = Place(path, content)
    tree = top.get("taxonomy_tree", dict)
    levels = [x.value for x in tree.get("hierarchy", list).items(str)]
    paths, shown, aliases = _read_tree(tree, levels)
    number = {node: i for i, node in enumerate(paths)}
    names = [f"{level}/{node}" for level, node in paths]
    found = paths_of_classes(path, "mapmycells_json", names, list(paths.values()), shown)
    label = found.deepest()
    cells = top.get("results", list).items(dict)
    entries: list[tuple[int, int, float]] = []
    for row, cell in enumerate(cells):
        for level in levels:
            for node, score in _candidates(cell, level):
                if (level, node.value) not in number:
                    text = f"{quote(node.value)} is not in taxonomy_tree.{escape(level)}."
                    raise refuse(path, node.where, text)
                entries.append((row, int(label[number[level, node.value]]), score))
    ids = [str(cell.get("cell_id", str, int).value) for cell in cells]
    samples = check_samples(path, ids, lambda row: f"results[{row}]")
    rows, labels, scores = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(samples), found.hierarchy.n_labels)
    matrix = sparse.csr_array((np.array(scores, dtype=float), (rows, labels)), shape=shape)
    matrix.sort_indices()
    pairs = [(name, found.hierarchy.labels[label[number[node]]]) for node, name in aliases.items()]
    return replace(
        found, samples=samples, scores=matrix, place=None, content=content,
        style={**found.style, "names": True}, aliases=merge_aliases(found.aliases, pairs),
    )  # fmt: skip


def _read_tree(
    tree: Place, levels: list[str]
) -> tuple[dict[Node, list[Node]], dict[str, str], dict[Node, str]]:
    """Return the path of (level name, node) pairs to each node, names of nodes, and aliases."""
    level_names = tree.get("hierarchy_mapper", dict, default={}).value
    node_names = tree.get("name_mapper", dict, default={}).value
    paths: dict[Node, list[Node]] = {}
    above: dict[Node, list[Node]] = {}
    shown, aliases = {}, {}
    for depth, level in enumerate(levels):
        nodes = tree.get(level, dict)
        for node in nodes.value:
            if depth and (level, node) not in above:
                raise refuse(
                    tree.path, f"{nodes.where}.{escape(node)}", "no node lists it as child."
                )
            here = [*above.get((level, node), []), (str(level_names.get(level, level)), node)]
            paths[level, node] = here
            called = (node_names.get(level) or {}).get(node) or {}
            if called.get("name"):
                shown[node] = str(called["name"])
            if called.get("alias"):
                aliases[level, node] = str(called["alias"])
            if depth + 1 < len(levels):
                for child in nodes.get(node, list).items(str):
                    above[levels[depth + 1], child.value] = here
    return paths, shown, aliases


def _candidates(cell: Place, level: str) -> list[tuple[Place, float]]:
    """Return the nodes of a level that are listed for a cell, with their probabilities."""
    if level not in cell.value:
        return []
    at = cell.get(level, dict)
    others = at.get("runner_up_assignment", list, default=[]).items(str)
    scores = at.get("runner_up_probability", list, default=[])
    if len(scores.value) != len(others):
        text = f"{len(scores.value)} probabilities for {len(others)} runners-up."
        raise refuse(cell.path, at.where, text)
    first = (at.get("assignment", str), at.score("bootstrapping_probability"))
    return [first, *((node, scores.score(i)) for i, node in enumerate(others))]
