"""Options that several commands share, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hierlpr.cli._shell import Shell
    from hierlpr.io import HierarchyFile

F = TypeVar("F", bound=Callable[..., Any])
TABLES = ("sep", "decimal", "sample_column", "columns")
OUTPUTS = ("--out", "--adapt", "--report", "--json")
HIERARCHY = ("relationships", "namespaces", "direction", "path_sep", "names")


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Join options into one decorator; help lists them in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


hierarchy = click.option(
    "--hierarchy", required=True, type=click.Path(), metavar="H",
    help="OBO, edge list, JSON, path list or Clus ARFF.",
)  # fmt: skip
model = click.option(
    "--model", required=True, type=click.Path(), metavar="M",
    help="Model file that hierlpr fit wrote.",
)  # fmt: skip
truth = click.option(
    "--truth", required=True, type=click.Path(), metavar="T",
    help="Wide 0/1, long pairs (sample,label), CAFA or Clus.",
)  # fmt: skip
close_truth = click.option(
    "--close-truth", is_flag=True, help="Add the missing ancestors of true labels."
)
absent = click.option(
    "--absent", type=click.Choice(["negative", "skip"]),
    help="Scored samples that the truth lacks: without any label (default for a long table), or "
    "left out (default for CAFA truth).",
)  # fmt: skip
with_names = click.option(
    "--with-names", is_flag=True,
    help="Add a last column, name, with the names of labels for people.",
)  # fmt: skip
weights = click.option(
    "--weights", type=click.Path(), metavar="W",
    help="Table with the columns sample and weight: how much each sample counts.",
)  # fmt: skip
seed = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Same seed, same results.",
)  # fmt: skip
quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing but problems.")
lenient = click.option(
    "--lenient", is_flag=True,
    help="Pass over rows with problems and unknown labels, and count them.",
)  # fmt: skip
other_hierarchy = click.option(
    "--hierarchy", type=click.Path(), metavar="H",
    help="The hierarchy file again, if scores use its other names of labels (OBO alt_id and "
    "replaced_by).",
)  # fmt: skip
memory = click.option(
    "--memory", default="1GB", show_default=True, metavar="SIZE",
    help="Working memory. What needs more is read and worked on in parts; the result is the same.",
)  # fmt: skip
work = click.option(
    "--work", type=click.Path(file_okay=False), metavar="DIR",
    help="Where a folder for work files is made: beside the output if not given, for evaluate "
    "among the system's temporary files. The workers of a scheduler must share it.",
)  # fmt: skip
json_out = click.option(
    "--json", "json_out", type=click.Path(dir_okay=False, allow_dash=True), metavar="OUT",
    help="Write the result as JSON to this file, or to stdout if it is -.",
)  # fmt: skip


parts = _all(
    memory,
    click.option(
        "--partitions", type=click.IntRange(min=1), metavar="N",
        help="Number of parts to work on one by one; by default as --memory needs.",
    ),
    work,
    click.option(
        "--resume", is_flag=True,
        help="Continue an interrupted run from its finished parts, and keep them if this "
        "run fails.",
    ),
    click.option(
        "--scheduler", metavar="ADDRESS",
        help="Work on the parts with the workers of this Dask scheduler, such as "
        "tcp://host:8786; local starts one worker a core here. A ranking is then a folder "
        "of Parquet files.",
    ),
)  # fmt: skip
"""Add the options that say how to work in parts."""

reading_hierarchy = _all(
    click.option(
        "--relationship", "relationships", multiple=True, metavar="NAME",
        help="OBO relationship to use as edges, such as part_of; is_a alone if not given. "
        "May be repeated.",
    ),
    click.option(
        "--namespace", "namespaces", multiple=True, metavar="NAME",
        help="Keep only OBO terms of this namespace. May be repeated.",
    ),
    click.option(
        "--direction", type=click.Choice(["auto", "parent-child", "child-parent"]),
        default="auto", show_default=True,
        help="Which way the edges of an edge list are written; auto refuses a forest that "
        "stands on its head.",
    ),
    click.option("--path-sep", metavar="TEXT", help="Separator of a path list."),
    click.option(
        "--names", type=click.Path(), metavar="TABLE",
        help="Table with the columns code and name: names for people, shown beside the "
        "codes of labels. OBO files and edge lists with a column name have their own.",
    ),
)  # fmt: skip
"""Add the options that say how to read a hierarchy file."""


sep = click.option(
    "--sep", metavar="CHAR",
    help="The character between columns of text files, such as ';' or tab; by default .csv means "
    "commas and .tsv means tabs. Files without it are read as by default.",
)  # fmt: skip


tables = _all(
    sep,
    click.option(
        "--decimal", type=click.Choice([".", ","]), default=".", show_default=True,
        help="The decimal mark of numbers in text files.",
    ),
    click.option(
        "--sample-column", metavar="NAME",
        help="The column that names the samples, if it is not called sample; files "
        "without it are read as by default.",
    ),
    click.option(
        "--columns", type=click.Choice(["all", "labels"]), default="all",
        show_default=True,
        help="In a wide table take every other column as a label, so that an unknown one "
        "stops the run, or pass over columns that are no labels.",
    ),
)  # fmt: skip
"""Add the options that say how tables are written."""

at_work = _all(parts, tables, other_hierarchy, lenient, json_out, quiet)
"""Add the options that all uses of a model end with."""

with_truth = _all(parts, tables, reading_hierarchy, lenient, json_out, quiet)
"""Add the options that all commands end with that read a hierarchy and truth."""


def refuse_overlap() -> None:
    """Refuse outputs, and a work folder, that meet another file of the command that runs."""
    from hierlpr._base import files

    run = click.get_current_context()
    named = {p.opts[0]: p.name or "" for p in run.command.params if isinstance(p.type, click.Path)}
    paths = {option: run.params[name] for option, name in named.items()}
    work = paths.pop("--work", None)
    outputs = {option: paths.pop(option) for option in OUTPUTS if option in paths}
    files.refuse_overlap(outputs, paths, work)


def taken(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Take some of the options of a command away from the others."""
    return {name: options.pop(name) for name in names if name in options}


def written_tables(
    shell: Shell, options: dict[str, Any], hierarchy: str = ""
) -> Callable[[str | None], Any]:
    """Take the options of tables; give the function that joins a path, if any, with them.

    With a path list ``--sep`` is taken for it, as it once was, unless ``--path-sep`` is there.
    """
    from hierlpr.io import TablePath

    given = taken(options, TABLES)
    is_paths = hierarchy.lower().removesuffix(".gz").endswith((".paths", ".txt"))
    if given["sep"] is not None and is_paths and options["path_sep"] is None:
        shell.warn("--sep is taken for the path list; say --path-sep, since --sep is for tables")
        options["path_sep"], given["sep"] = given["sep"], None
    return lambda path: None if path is None else TablePath(shell.stdin(path), **given)


def read_hierarchy_file(
    shell: Shell, options: dict[str, Any], hierarchy: str
) -> tuple[HierarchyFile, Callable[[str | None], Any]]:
    """Read a hierarchy as the options say, with the names of a table, and say what was seen.

    Also gives the function of `written_tables`; the options of both are taken away.
    """
    from dataclasses import replace

    from hierlpr.io import TablePath, load_hierarchy, read_names

    table = written_tables(shell, options, hierarchy)
    path, lenient = table(hierarchy), options["lenient"]
    edges, namespaces, direction, path_sep, names = taken(options, HIERARCHY).values()
    loaded = load_hierarchy(
        path,
        relationships=tuple(dict.fromkeys(("is_a", *edges))) if edges else None,
        namespaces=namespaces or None,
        direction=direction,
        sep=path_sep,
        lenient=lenient,
    )
    shell.read(loaded.report)
    if names is None:
        return loaded, table
    named = TablePath(names, sep=path.sep)
    found, report = read_names(named, loaded.hierarchy, aliases=loaded.aliases, lenient=lenient)
    shell.read(report)
    return replace(loaded, hierarchy=loaded.hierarchy.with_names(found)), table


def other_names(hierarchy: str | None) -> dict[str, str]:
    """Other names of labels that a hierarchy file gives."""
    if hierarchy is None:
        return {}
    from hierlpr.io import load_hierarchy

    return dict(load_hierarchy(hierarchy).aliases)
