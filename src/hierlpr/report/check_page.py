"""The page on which an expert checks the samples of an audit: one HTML file that works offline."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

from hierlpr import __version__
from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output
from hierlpr.audit import Audit
from hierlpr.report.html import asset, content_policy, island, write_page

# Pictures and sounds beside the page, or that a table of links names.
MEDIA = "img-src data: file: http: https:; media-src data: file: http: https:"
# How Label Studio shows what a table links to.
SHOWN_AS = {"Image": "jpg jpeg png gif webp", "Audio": "wav mp3 ogg flac", "Video": "mp4 webm"}


def write_check_page(
    path: AnyPath, audit: Audit, *, title: str = "Check these samples", show: Mapping[str, str]
) -> None:
    """Write the page for the samples of the plan.

    `show` has what to show of a sample: a link to a picture, sound or page, or a text.
    """
    data = {"audit": audit.fingerprint, "samples": _samples(audit, show)}
    style, script = asset("report.css") + asset("check.css"), asset("check.js")
    template = resources.files("hierlpr.report").joinpath("templates", "check.html")
    text = Template(template.read_text(encoding="utf-8")).substitute(
        style=style,
        script=script,
        policy=content_policy(style, script, media=MEDIA),
        data=island(data),
        title=html.escape(title),
        version=__version__,
    )
    write_page(path, text)


def write_tasks(folder: Path, audit: Audit, *, show: Mapping[str, str]) -> None:
    """Write the same samples as tasks for Label Studio, and the interface for its settings."""
    mark, tasks = audit.fingerprint, []
    for sample, rows in _by_sample(audit):
        data = {"audit": mark, "sample": sample, "show": show.get(sample, sample)}
        tasks.append({"data": {**data, "labels": [{"value": label} for _, label, _ in rows]}})
    endings = {text.lower().rpartition(".")[2] for text in show.values()}
    kind = next((tag for tag, known in SHOWN_AS.items() if endings & {*known.split()}), "Text")
    screen = (
        f'<View>\n  <Header value="$sample"/>\n  <{kind} name="show" value="$show"/>\n'
        '  <Header value="Tick the labels that are right, then submit."/>\n'
        '  <Choices name="right" toName="show" choice="multiple" value="$labels"/>\n</View>\n'
    )
    text = json.dumps(tasks, indent=1, ensure_ascii=False)
    for name, content in (("tasks.json", text), ("label_studio.xml", screen)):
        with atomic_output(folder / name) as part:
            part.write_text(content, encoding="utf-8")


def _by_sample(audit: Audit) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Yield each sample to check with its rows: sample, label, chance."""
    frame = audit.to_check(backend="pyarrow").to_pydict()
    for name, rows in groupby(zip(*frame.values(), strict=True), key=lambda row: str(row[0])):
        yield name, list(rows)


def _samples(audit: Audit, show: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the samples in the order to check them, and the tree of the labels of each."""
    h, out = audit.hierarchy, []
    for name, rows in _by_sample(audit):
        _, labels, chances = zip(*rows, strict=True)
        place = {label: i for i, label in enumerate(labels)}
        parents = {label: [place[x] for x in h.parents(label) if x in place] for label in labels}
        # Depth first: children stand below their first parent.
        children: dict[int, list[int]] = {}
        for label in labels:
            children.setdefault(min(parents[label], default=-1), []).append(place[label])
        order: list[tuple[int, int]] = []
        stack = [(i, 0) for i in reversed(children.get(-1, []))]
        while stack:
            i, depth = stack.pop()
            order.append((i, depth))
            stack += [(j, depth + 1) for j in reversed(children.get(i, []))]
        new = {i: k for k, (i, _) in enumerate(order)}
        out.append({
            "name": name,
            "show": show.get(name, ""),
            "labels": [
                {
                    "name": labels[i],
                    "title": h.name(labels[i]) if h.name(labels[i]) != labels[i] else "",
                    "chance": round(float(chances[i]), 4),
                    "depth": depth,
                    "parents": [new[j] for j in parents[labels[i]]],
                }
                for i, depth in order
            ],
        })  # fmt: skip
    return out
