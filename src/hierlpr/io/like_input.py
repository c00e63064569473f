"""Write predictions back in the format they came in, with every path cut where it was named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output
from hierlpr.exceptions import DataError
from hierlpr.io.anndata import write_obs
from hierlpr.io.json_predictions import FIELDS
from hierlpr.io.lineages import Index, Predictions, bare_name, lineage, written_paths
from hierlpr.io.taxonomy import entry_places

Chance = Sequence[float] | NDArray[np.float64]


def write_like_input(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    """Write the tool's own format; `label` numbers ``hierarchy.labels`` per sample, -1 for none."""
    with atomic_output(path, compress=True) as part:
        _WRITERS[found.format](found, np.asarray(label, dtype=np.int64), chance, part)


def _n_kept(found: Predictions, label: Index) -> Index:
    """Return how many pieces of each sample's path, or how many levels, stay."""
    if found.place is None:
        raise DataError(
            f"{found.path}: its paths were replaced by another hierarchy and cannot be cut.\n"
            "Hint: leave --hierarchy out, or --like-input."
        )
    row = np.repeat(np.arange(label.size), np.diff(found.scores.indptr))
    at = np.flatnonzero(found.scores.indices == label[row])
    kept = np.zeros(label.size, dtype=np.int64)
    kept[row[at]] = found.place[at] + 1
    return kept


def _cut(pieces: pa.Array, kept: Index, separator: str) -> pa.Array:
    """Join the first pieces of each path."""
    row, place = entry_places(pieces)
    ptr = np.append(0, np.cumsum(kept)).astype(np.int32)
    lists = pa.ListArray.from_arrays(ptr, pieces.flatten().filter(pa.array(place < kept[row])))
    return pc.binary_join(lists, pa.scalar(separator, pieces.type.value_type))


def _write_lines(
    path: AnyPath, columns: Sequence[pa.Array], header: str = "", delimiter: str = "\t"
) -> None:
    texts = [column.cast(pa.large_string()) for column in columns]
    lines = pc.binary_join_element_wise(*texts, pa.scalar(delimiter, pa.large_string()))
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(header)
        for start in range(0, len(lines), 1 << 16):
            stream.writelines(f"{x}\n" for x in lines.slice(start, 1 << 16).to_pylist())


def _write_sintax(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    content = found.content
    cut = _cut(content["pieces"], _n_kept(found, label), ",")
    names = pc.replace_substring_regex(cut, r"\([^()]*\)(,|$)", r"\1")
    _write_lines(path, [content["sample"], cut, content["rest"], names])


def _write_mothur(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    """Fill the ranks below with ``NAME_unclassified(CONFIDENCE)``, as mothur does."""
    content = found.content
    lines = []
    given = zip(content["rest"].to_pylist(), content["pieces"].to_pylist(), strict=True)
    for kept, (rest, pieces) in zip(_n_kept(found, label), given, strict=True):
        name, _, confidence = (pieces[kept - 1] if kept else "unknown(100)").rpartition("(")
        fill = [f"{name}_unclassified({confidence}"] * (len(pieces) - max(kept, 1))
        stay = pieces[:kept] if kept else ["unknown(100)"]
        lines.append(rest + ";".join([*stay, *fill]) + ";")
    _write_lines(path, [content["sample"], pa.array(lines)], content["header"])


def _write_rdp(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    content = found.content
    cut = _cut(content["cells"], _n_kept(found, label) * 3, "\t")
    _write_lines(path, [content["sample"], content["rest"], cut])


def _write_qiime2(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    table, taxon = found.content["table"], found.content["taxon"]
    cut = pc.utf8_trim_whitespace(_cut(found.content["pieces"], _n_kept(found, label), ";"))
    cut = pc.if_else(pc.equal(cut, ""), "Unassigned", cut)
    table = table.set_column(table.column_names.index(taxon), taxon, cut)
    if (score := found.content["per_rank"]) is not None:
        kept = np.maximum(_n_kept(found, label), 1)
        values = _cut(pc.split_pattern(table[score].combine_chunks(), ";"), kept, ";")
        table = table.set_column(table.column_names.index(score), score, values)
    columns = [column.combine_chunks() for column in table.itercolumns()]
    _write_lines(path, columns, "\t".join(table.column_names) + "\n")


def _write_levels(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    """Blank what a table says of the levels below the named one."""
    content, kept = found.content, _n_kept(found, label)
    table = content["table"]
    for level, names in enumerate(content["levels"]):
        for name in names:
            values = pc.if_else(pa.array(kept > level), table[name], content["missing"])
            table = table.set_column(table.column_names.index(name), name, values)
    comments = "".join(f"{line.decode()}\n" for line in content.get("comments", ()))
    write_text_table(path, table, ",", comments)


def write_text_table(path: AnyPath, table: pa.Table, delimiter: str, comments: str = "") -> None:
    """Write a table as text with a header; cells are quoted where they need it."""
    columns = [_quoted(x.cast(pa.large_string()).combine_chunks()) for x in table.itercolumns()]
    header = delimiter.join(_quoted(pa.array(table.column_names)).to_pylist())
    _write_lines(path, columns, f"{comments}{header}\n", delimiter)


def _quoted(texts: pa.Array) -> pa.Array:
    """Quote the cells of a CSV file that need it."""
    texts = pc.fill_null(texts, "")
    needs = pc.match_substring_regex(texts, '[",\t\r\n]')
    if not pc.any(needs).as_py():
        return texts
    inside = pc.replace_substring(texts, '"', '""')
    whole = pc.replace_substring_regex(inside, "(?s)^(.*)$", r'"\1"')
    return pc.if_else(needs, whole, texts)


def _write_speciesnet(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    """Replace the prediction, its score and its source."""
    content = copy.deepcopy(found.content)
    lists = (image.get("classifications", {}) for image in content["predictions"])
    texts = {text for listed in lists for text in listed.get("classes", ())}
    own = {found.aliases[text.lower()]: text for text in texts}
    classes = [own.get(x) or _speciesnet_class(found, x) for x in found.hierarchy.labels]
    for image, at, sure in zip(content["predictions"], label, chance, strict=True):
        image["prediction"] = classes[at] if at >= 0 else ";;;;;;unknown"
        image["prediction_score"] = round(float(sure), 4) if at >= 0 else 0.0
        image["prediction_source"] = "hierlpr"
    _write_json(content, path)


def _speciesnet_class(found: Predictions, label: str) -> str:
    """Return a label that is no class of the file as ``;class;order;family;genus;species;name``."""
    hierarchy = found.hierarchy
    of_rank = {found.ranks[hierarchy.index(x)]: bare_name(x) for x in lineage(hierarchy, label)}
    return ";".join(["", *(of_rank.get(rank, "") for rank in FIELDS), hierarchy.name(label)])


def _write_megadetector(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    """Give the classified detection of each image one classification: the name and its chance."""
    content, used = copy.deepcopy(found.content)
    categories = content.setdefault("classification_categories", {})
    described = content.get("classification_category_descriptions", {})
    hierarchy = found.hierarchy
    paths = written_paths(hierarchy, found.ranks, found.style)
    number: dict[str, str] = {}
    for key in categories:
        known = found.aliases.get(str(described.get(key, categories[key])).lower())
        number.setdefault(str(known), key)
    for detection, at, sure in zip(used, label, chance, strict=True):
        if detection is None:
            continue
        name = hierarchy.labels[at]
        if at >= 0 and name not in number:
            number[name] = str(1 + max((int(x) for x in categories if x.isdecimal()), default=-1))
            categories[number[name]] = hierarchy.name(name)
            if described:
                is_speciesnet = "animal" in hierarchy.roots
                described[number[name]] = (
                    _speciesnet_class(found, name) if is_speciesnet else paths[at]
                )
        pair = [number.get(name), round(float(sure), 4)]
        detection["classifications"] = [pair] if at >= 0 else []
    _write_json(content, path)


def _write_mapmycells_json(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    """Remove the levels below the named one."""
    content = copy.deepcopy(found.content)
    levels = content["taxonomy_tree"]["hierarchy"]
    for cell, at in zip(content["results"], label, strict=True):
        nodes = lineage(found.hierarchy, found.hierarchy.labels[at]) if at >= 0 else []
        for i, level in enumerate(levels):
            node = bare_name(nodes[i]) if i < len(nodes) else None
            if node is None:
                cell.pop(level, None)
            elif cell.get(level, {}).get("assignment") != node:
                cell[level] = {"assignment": node, "directly_assigned": False}
    _write_json(content, path)


def _write_json(content: Any, path: AnyPath) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=1)


def _write_anndata(found: Predictions, label: Index, chance: Chance, path: AnyPath) -> None:
    hierarchy = found.hierarchy
    names = [hierarchy.name(hierarchy.labels[i]) if i >= 0 else "" for i in label]
    ranks = [found.ranks[i] if i >= 0 else "" for i in label]
    write_obs(found.content.copy(), names, ranks, chance).write_h5ad(path)


_WRITERS: dict[str, Callable[[Predictions, Index, Chance, AnyPath], None]] = {
    "sintax": _write_sintax,
    "mothur": _write_mothur,
    "rdp": _write_rdp,
    "qiime2": _write_qiime2,
    "dada2": _write_levels,
    "mapmycells": _write_levels,
    "speciesnet": _write_speciesnet,
    "megadetector": _write_megadetector,
    "mapmycells_json": _write_mapmycells_json,
    "anndata": _write_anndata,
}
