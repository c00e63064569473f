"""JSON predictions: SpeciesNet, the MegaDetector format, and MapMyCells' extended results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hierlpr._utils import AnyPath
from hierlpr.exceptions import FileError
from hierlpr.io.lineages import (
    Collector,
    Float,
    Index,
    Listed,
    Predictions,
    bare_name,
    lineage,
    plain,
    quote,
)
from hierlpr.io.reading import file_error, load_json

FIELDS = ("class", "order", "family", "genus", "species")
_FIELDS = {
    5: FIELDS,
    6: ("kingdom", "phylum", "class", "order", "family", "species"),
    7: ("kingdom", "phylum", *FIELDS),
}
_IDS = ("id", "sample", "custom_id", "file", "filepath", "image", "text", "sequence")
_TYPES = {dict: "an object", list: "a list", str: "text", int: "a number"}
Parsed = tuple[str, dict[int, float]]  # sample, scores of labels
_UUID = re.compile(r"^[0-9a-f]+-[0-9a-f-]+$")


def field(item: Any, key: str, *types: type, default: Any = None) -> Any:
    """Return the value of a key; raise ValueError if it is missing or of another type."""
    value = item.get(key) if isinstance(item, dict) else None
    if value is None and isinstance(item, dict):
        value = default
    if not isinstance(value, types) or isinstance(value, bool):
        got = "nothing" if value is None else quote(repr(value))
        raise ValueError(f"{quote(key)} must be {_TYPES[types[0]]}, got {got}.")
    return value


def as_score(value: Any) -> float:
    """Return a number from 0 to 1; raise ValueError for anything else."""
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0 + 1e-6:
        raise ValueError(f"the score {quote(value)} is not a number from 0 to 1.")
    return float(value)


def read_json(path: AnyPath, raw: bytes) -> Predictions:
    """Read JSON predictions, recognised by their keys."""
    content = load_records(path, raw)
    keys = set(content) if isinstance(content, dict) else set()
    readers = {"predictions": _speciesnet, "taxonomy_tree": _mapmycells, "images": _megadetector}
    key = next((key for key in readers if key in keys and "annotations" not in keys), None)
    if key is None:
        return _answers(path, content)
    try:
        return readers[key](path, content, raw)
    except ValueError as error:
        if isinstance(error, FileError):
            raise
        raise file_error(path, "the top level", str(error)) from None


def load_records(path: AnyPath, raw: bytes) -> Any:
    """Parse JSON, or a list of records that stand on a line each (JSONL)."""
    lines = [(i, x.strip()) for i, x in enumerate(raw.splitlines(), start=1) if x.strip()]
    ends = (b"{}", b"[]")
    if not (lines and all(x[:1] + x[-1:] in ends for _, x in lines[:2])):
        return load_json(path, raw)
    if len(lines) == 1:
        content = load_json(path, raw)
        return [content] if isinstance(content, dict) and set(_IDS) & set(content) else content
    return [load_json(path, line, first_line=i) for i, line in lines]


# -- answers of language models -------------------------------------------------------------------

_NAMES = ("labels", "predictions")
_LABELS = ("label", "name", "class", "category", "prediction")
_SCORES = ("confidence", "score", "probability")


def _answers(path: AnyPath, content: Any) -> Predictions:
    """Read the answers of a language model or a Hugging Face pipeline: names with confidences.

    Records are a list, also inside an object, or stand in an object below the names of samples.
    """
    collector = Collector(path, "answers", "record {}")
    if isinstance(content, dict) and all(isinstance(x, list | dict) for x in content.values()):
        is_wrapped = len(content) == 1 and isinstance(next(iter(content.values())), list)
        content = [{"id": key, "labels": x} for key, x in content.items()]
        content = content[0]["labels"] if is_wrapped else content
    records = content if isinstance(content, list) else [content]

    def rows() -> Iterator[Listed]:
        for number, record in enumerate(records, start=1):
            try:
                about = record if isinstance(record, dict) else {}
                sample = next((about[key] for key in _IDS if key in about), number)
                yield number, str(sample), [(name, "", x) for name, x in _names_of(record)]
            except ValueError as error:
                hint = 'expected {"id": ..., "labels": {NAME: CONFIDENCE}}, or "predictions" with '
                raise collector.error(number, str(error), f"{hint}label and confidence.") from None

    collector.add_listed(rows())
    has_ids = any(isinstance(x, dict) and not set(_IDS).isdisjoint(x) for x in records)
    note = "the records have no id; samples are numbered from 1"
    return collector.finish(style={}, notes=() if has_ids else (note,))


def _names_of(record: Any) -> list[tuple[str, Any]]:
    """Return the names and confidences of a record: of its usual keys, or of the only others."""
    if isinstance(record, list):
        return [pair for item in record for pair in _names_of(item)]
    about = record if isinstance(record, dict) else {}
    lists = [key for key, x in about.items() if isinstance(x, list | dict)]
    names = next(
        (about[key] for key in (*_NAMES, *(lists if len(lists) == 1 else ())) if key in about), None
    )
    if isinstance(names, dict) and not any(isinstance(x, list | dict) for x in names.values()):
        return [(str(name), score) for name, score in names.items()]
    if isinstance(names, list) and isinstance(about.get("scores"), list):
        return [(str(x), y) for x, y in zip(names, about["scores"], strict=True)]
    if isinstance(names, list):
        return _names_of(names)
    if names is None and not set(_NAMES).isdisjoint(about):  # a sample without an answer
        return []
    texts = [key for key, x in about.items() if isinstance(x, str) and key not in _IDS]
    name, score = (
        next((about[key] for key in keys if key in about), None)
        for keys in ((*_LABELS, *texts[:1]), _SCORES)
    )
    if not isinstance(name, str) or score is None:
        raise ValueError(f"{quote(record)} has no label with a confidence.")
    return [(name, score)]


def _collect(collector: Collector, items: list[Any], parse: Callable[[Any], Parsed]) -> None:
    """Add the sample and the scores that `parse` finds in each item."""
    for number, item in enumerate(items):
        try:
            sample, scores = parse(item)
        except ValueError as error:
            raise collector.error(number, str(error)) from None
        collector.add_scores(number, sample, scores)


def _rewriter(raw: bytes, edit: Callable[..., None]) -> Callable[..., None]:
    """Return a function that edits and writes the file: ``edit(found, content, label, chance)``."""

    def rewrite(predictions: Predictions, label: Index, chance: Float, out: AnyPath) -> None:
        content = json.loads(raw)
        edit(predictions, content, label.tolist(), [round(float(x), 4) for x in chance])
        with open(out, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)

    return rewrite


# -- camera traps -------------------------------------------------------------------------------


def parse_class(text: str, kind: str = "speciesnet") -> tuple[list[tuple[str, str]], str]:
    """Return the (rank, name) pairs and the common name of a class of a camera-trap tool.

    >>> parse_class("u1;mammalia;carnivora;felidae;panthera;leo;lion")[0][-2:]
    [('genus', 'panthera'), ('species', 'leo')]
    >>> parse_class("u2;;;;;;blank"), parse_class("fox")
    (([('other', 'blank')], 'blank'), ([('', 'fox')], ''))
    """
    parts = [part.strip() for part in text.split(";")]
    common = ""
    # uuid;class;order;family;genus;species;common name
    if len(parts) == 7 and (kind == "speciesnet" or _UUID.match(parts[0])):
        common, parts = parts[-1], parts[1:-1]
    fields = _FIELDS.get(
        len(parts), [f"depth {i + 1}" if len(parts) > 1 else "" for i in range(len(parts))]
    )
    pairs = [(rank, name) for rank, name in zip(fields, parts, strict=True) if name]
    if fields is FIELDS and (pairs or common == "animal"):
        pairs.insert(0, ("kingdom", "animal"))
    return pairs or [("other", common)], common


class Classes:
    """Exclusive classes, each a path: the score of an ancestor is the sum over those below it."""

    def __init__(self, collector: Collector, common: dict[str, str] | None = None) -> None:
        self.collector, self.common = collector, common or {}
        self.labels: dict[str, list[int]] = {}

    def sum_up(self, listed: Iterable[tuple[Any, Any]]) -> dict[int, float]:
        """Return the scores of labels, given those of classes."""
        scores: dict[int, float] = {}
        for text, score in listed:
            if not isinstance(text, str):
                raise ValueError(f"the class {quote(text)} is not text.")
            for label in self.labels.get(text) or self._add(text):
                scores[label] = scores.get(label, 0.0) + as_score(score)
        return scores

    def _add(self, text: str) -> list[int]:
        pairs, common = parse_class(text, self.collector.kind)
        if not pairs[0][1]:
            raise ValueError(f"the class {quote(text)} has no name.")
        path = [x for x in self.collector.path_to(pairs) if x >= 0]
        names = {text, common, self.common.get(text, "")} - {""}
        self.collector.pairs += [(x, path[-1]) for x in sorted(names) if path]
        self.labels[text] = path
        return path

    def style(self) -> dict[str, Any]:
        """Return the fields that a written path has."""
        tops = zip(self.collector.parent, self.collector.name, strict=True)
        n_fields = max((text.count(";") for text in self.labels), default=0) + 1
        return {"fields": list(FIELDS if (-1, "animal") in tops else _FIELDS.get(n_fields, ()))}


def _speciesnet(path: AnyPath, content: Any, raw: bytes) -> Predictions:
    """Read SpeciesNet predictions: the classes listed for each image."""
    collector = Collector(path, "speciesnet", "predictions[{}]")
    classes = Classes(collector)

    def parse(image: Any) -> Parsed:
        listed = field(image, "classifications", dict, default={"classes": [], "scores": []})
        names, scores = field(listed, "classes", list), field(listed, "scores", list)
        if len(names) != len(scores):
            raise ValueError(f"{len(scores)} scores for {len(names)} classes.")
        return field(image, "filepath", str), classes.sum_up(zip(names, scores, strict=True))

    images = field(content, "predictions", list)
    _collect(collector, images, parse)
    columns = ("prediction", "prediction_score", "prediction_source")
    return collector.finish(
        style=classes.style(),
        columns=columns,
        cells=lambda: ([str(image.get(key, "")) for key in columns] for image in images),
        rewrite=_rewriter(raw, _edit_speciesnet),
    )


def _edit_speciesnet(
    predictions: Predictions, content: Any, labels: Sequence[int], chance: Sequence[float]
) -> None:
    """Replace the prediction, its score and its source."""
    lists = (image.get("classifications") or {} for image in content["predictions"])
    texts = dict.fromkeys(text for listed in lists for text in listed.get("classes", ()))
    own = {
        predictions.aliases[plain(text)]: text
        for text in texts
        if plain(text) in predictions.aliases
    }
    h = predictions.hierarchy
    for image, at, sure in zip(content["predictions"], labels, chance, strict=True):
        written = ";;;;;;unknown"
        if at >= 0:
            label = h.labels[at]
            of_rank = {predictions.ranks[h.index(x)]: bare_name(x) for x in lineage(h, label)}
            pieces = ["", *(of_rank.get(rank, "") for rank in FIELDS), h.name(label)]
            written = own.get(label) or ";".join(pieces)
        image["prediction"] = written
        image["prediction_score"] = sure if at >= 0 else 0.0
        image["prediction_source"] = "hierlpr"


def _megadetector(path: AnyPath, content: Any, _raw: bytes) -> Predictions:
    """Read the MegaDetector format: for each image its most confident classified detection."""
    categories = field(content, "classification_categories", dict, default={})
    described = field(content, "classification_category_descriptions", dict, default={})
    names = {**categories, **described}
    common = {str(names[key]): str(name) for key, name in categories.items()}
    collector = Collector(path, "megadetector", "images[{}]")
    classes = Classes(collector, common)

    def parse(image: Any) -> Parsed:
        listed = [pair for x in _classified(image)[:1] for pair in x["classifications"]]
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in listed):
            raise ValueError("a classification is not [category, confidence].")
        pairs = ((field(names, str(key), str), score) for key, score in listed)
        return field(image, "file", str), classes.sum_up(pairs)

    images = field(content, "images", list)
    _collect(collector, images, parse)
    n_others = sum(max(0, len(_classified(image)) - 1) for image in images)
    note = f"{n_others:,} further classified detections of images with several were not used"
    return collector.finish(style=classes.style(), notes=(note,) if n_others else ())


def _classified(image: Any) -> list[dict[str, Any]]:
    """Return the classified detections of an image, the most confident first."""
    detections = field(image, "detections", list, default=[])
    classified = [x for x in detections if field(x, "classifications", list, default=[])]
    return sorted(classified, key=lambda x: -as_score(x.get("conf")))


# -- MapMyCells ---------------------------------------------------------------------------------


def _mapmycells(path: AnyPath, content: Any, raw: bytes) -> Predictions:
    """Read the tree, and for each cell and level the assigned node and the runners-up."""
    collector = Collector(path, "mapmycells_json", "results[{}]")
    tree = field(content, "taxonomy_tree", dict)
    levels = [str(level) for level in field(tree, "hierarchy", list)]
    label = _add_tree(collector, tree, levels)

    def parse(cell: Any) -> Parsed:
        scores = {}
        for level in levels:
            at = field(cell, level, dict, default={})
            nodes = [at.get("assignment"), *field(at, "runner_up_assignment", list, default=[])]
            step = at.get("bootstrapping_probability")
            # The product along the path, which runners-up share up to their last step.
            whole = at.get("aggregate_probability", step)
            others = field(at, "runner_up_probability", list, default=[])
            share = as_score(whole) / as_score(step) if at and step else 1.0
            probabilities = [whole, *(x * share for x in others)]
            if len(probabilities) != len(nodes):
                raise ValueError(
                    f"{len(probabilities)} probabilities for {len(nodes)} nodes of {level}."
                )
            for node, score in zip(nodes, probabilities, strict=True) if at else ():
                if not isinstance(node, str) or (level, node) not in label:
                    raise ValueError(f"{quote(node)} is not in taxonomy_tree, {quote(level)}.")
                scores[label[level, node]] = as_score(score)
        return str(field(cell, "cell_id", str, int)), scores

    _collect(collector, field(content, "results", list), parse)
    return collector.finish(style={"names": True}, rewrite=_rewriter(raw, _edit_mapmycells))


def _add_tree(collector: Collector, tree: Any, levels: list[str]) -> dict[tuple[str, str], int]:
    """Add the nodes of a taxonomy; return the label of each (level, node)."""
    level_names = field(tree, "hierarchy_mapper", dict, default={})
    node_names = field(tree, "name_mapper", dict, default={})
    labels: dict[tuple[str, str], int] = {}
    parent: dict[str, int] = {}  # of the nodes of the present level
    for level in levels:
        below: dict[str, int] = {}
        for node in field(tree, level, dict):
            if labels and level != levels[0] and node not in parent:
                raise ValueError(f"taxonomy_tree, {level}: no node lists {quote(node)} as child.")
            label = collector.label(parent.get(node, -1), node, str(level_names.get(level, level)))
            labels[level, node] = label
            names = field(field(node_names, level, dict, default={}), node, dict, default={})
            if names.get("name"):
                collector.shown[node] = str(names["name"])
            if names.get("alias"):
                collector.pairs.append((str(names["alias"]), label))
            if level != levels[-1]:
                below.update((str(x), label) for x in field(tree[level], node, list))
        parent = below
    return labels


def _edit_mapmycells(
    predictions: Predictions, content: Any, label: Sequence[int], chance: Sequence[float]
) -> None:
    """Remove the levels below the named one."""
    h = predictions.hierarchy
    for row, (cell, at) in enumerate(zip(content["results"], label, strict=True)):
        nodes = lineage(h, h.labels[at]) if at >= 0 else []
        for i, level in enumerate(content["taxonomy_tree"]["hierarchy"]):
            node = bare_name(nodes[i]) if i < len(nodes) else None
            if node is None:
                cell.pop(level, None)
            elif (cell.get(level) or {}).get("assignment") != node:  # a runner-up
                score = float(predictions.scores[row, h.index(nodes[i])])
                cell[level] = {"assignment": node, "bootstrapping_probability": score}
