"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from hierlpr._utils import files
from hierlpr.cli._shell import Shell
from hierlpr.io import HierarchyFile, load_hierarchy

F = TypeVar("F", bound=Callable[..., Any])
OUTPUTS = ("--out", "--report", "--json")


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Join options into one decorator; help lists them in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def command(*examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a command whose help ends with examples, a line each, to be copied."""
    return click.command(epilog="\b\nExample:\n  " + "\n  ".join(examples))


class Output(click.Path):
    """The path of a file to write; all names of standard output become ``-``."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path."""
        path = super().convert(value, param, ctx)
        return "-" if files.stream_number(os.fsdecode(path)) == files.STDOUT else path


def path(
    name: str, metavar: str, text: str, *, required: bool = True, **kind: Any
) -> Callable[[F], F]:
    """Return an option for a path."""
    is_file = name in OUTPUTS and kind.get("file_okay", True)
    kind_of_value = Output(dir_okay=False, allow_dash=True) if is_file else click.Path(**kind)
    return click.option(name, required=required, type=kind_of_value, metavar=metavar, help=text)


class _Number(click.types.FloatParamType):
    """A real number; for a percentage or a decimal comma the message names the number."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number."""
        text = str(value).strip()
        if text.endswith("%") and text[:-1].replace(".", "", 1).isdigit():
            self.fail(f"write {float(text[:-1]) / 100:g} for {text}.", param, ctx)
        if text.count(",") == 1 and text.replace(",", "").isdigit():
            self.fail(f"write {text.replace(',', '.')} for {text}.", param, ctx)
        return super().convert(value, param, ctx)


def flag(name: str, text: str) -> Callable[[F], F]:
    """Return an option without a value."""
    return click.option(name, is_flag=True, help=text)


def number(name: str, metavar: str, text: str, default: float | None = None) -> Callable[[F], F]:
    """Return an option for a real number."""
    shown_default: dict[str, Any] = {"default": default, "show_default": default is not None}
    return click.option(name, type=_Number(), metavar=metavar, help=text, **shown_default)


def choice(
    name: str, values: Iterable[str], text: str, default: str | None = None
) -> Callable[[F], F]:
    """Return an option with a few values."""
    kind_of_value = click.Choice(list(values))
    return click.option(name, type=kind_of_value, default=default, show_default=True, help=text)


def count(name: str, text: str, default: int | None = None, *, least: int = 1) -> Callable[[F], F]:
    """Return an option for a whole number."""
    shown_default: dict[str, Any] = {"default": default, "show_default": default is not None}
    return click.option(
        name, type=click.IntRange(min=least), metavar="N", help=text, **shown_default
    )


hierarchy = path("--hierarchy", "H", "OBO, edge list, JSON, path list or Clus ARFF.")
model = path("--model", "M", "Model file that hierlpr fit wrote.")
truth = path(
    "--truth", "T", "Wide 0/1, long pairs (sample,label), CAFA pairs, GAF, or Label Studio JSON."
)
propagate_truth = flag("--propagate-truth", "Add the missing ancestors of true labels.")
missing_truth = choice(
    "--missing-truth",
    ("negative", "skip"),
    "Samples without a row in the truth: they have no label (negative; default for long tables) or "
    "are left out (skip; default for CAFA truth).",
)
with_names = flag("--with-names", "Add a column with the names of labels.")
_weights = "Table (sample, weight): how much each sample counts."
weights = path("--weights", "W", _weights, required=False)
clusters = click.option(
    "--clusters",
    metavar="COLUMN|FILE",
    help="What samples belong to (patient, donor, camera): a column of the scores or the truth, or "
    "a table (sample, cluster). Each cluster counts as one observation.",
)
seed = count("--seed", "Seed of the random numbers.", 0, least=0)
calibration_share = number(
    "--calibration-share",
    "S",
    "Share of the samples to keep for calibration; default: by their number and the promise, from "
    "a third to three quarters.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Only print warnings and errors.")
lenient = flag("--lenient", "Skip and count rows with problems and unknown labels.")
other_names_in = click.option(
    "--hierarchy",
    "other_names_in",
    type=click.Path(),
    metavar="H",
    help="The hierarchy file, if scores use alternative names of labels (OBO alt_id, replaced_by).",
)
json_out = click.option(
    "--json",
    "json_out",
    type=Output(dir_okay=False, allow_dash=True),
    metavar="OUT",
    help="Write the result as JSON to this file, or to stdout (-).",
)
_memory = (
    "Working memory. Larger files are processed in batches (rank, sets, evaluate), or a random "
    "subset of the samples is used (fit, check, report)."
)
_work = "Existing folder for temporary files; default: the system's temporary folder."
execution = _all(
    click.option("--memory", default="1GB", show_default=True, metavar="SIZE", help=_memory),
    path("--work", "DIR", _work, required=False, file_okay=False),
)
scheduler = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Use the workers of this Dask scheduler (tcp://host:8786); local: one worker per core.",
)
_relationship = "OBO relationship to use as edges besides is_a, such as part_of. May be repeated."
reading_hierarchy = _all(
    click.option(
        "--relationship", "relationships", multiple=True, metavar="NAME", help=_relationship
    ),
    click.option(
        "--prefix", metavar="TEXT", help="Keep the labels that begin with this, such as CL:"
    ),
    flag("--prefixes", "The hierarchy lists codes, such as ICD-10; prefixes are parents."),
    click.option("--path-sep", metavar="TEXT", help="Separator of a path list."),
)
sep = click.option(
    "--sep",
    metavar="CHAR",
    help="Column separator of text files, such as ';' or tab; default: comma (.csv), tab (.tsv).",
)
tables = _all(
    sep,
    choice("--decimal", (".", ","), "Decimal mark in text files.", "."),
    click.option("--sample-column", metavar="NAME", help="Column of tables with the samples."),
)
without_evidence = click.option(
    "--without-evidence",
    default="",
    metavar="CODES",
    help="Of truth in GAF files: evidence codes to leave out, such as IEA,ND.",
)
prediction = _all(execution, tables, other_names_in, lenient, json_out, quiet)
"""The options that all commands that use a model end with."""

with_truth = _all(execution, tables, without_evidence, reading_hierarchy, lenient, json_out, quiet)
"""The options that all commands that read a hierarchy and truth end with."""


def shown(path: str) -> str:
    """Return the name of an output in messages."""
    return "stdout" if path == "-" else path


def refuse_overlap() -> None:
    """Refuse outputs that are also another file of the running command."""
    run = click.get_current_context()
    names = {p.opts[0]: p.name or "" for p in run.command.params if isinstance(p.type, click.Path)}
    paths = {option: run.params[name] for option, name in names.items() if option != "--work"}
    outputs = {option: paths.pop(option) for option in OUTPUTS if option in paths}
    files.refuse_overlap(outputs, paths)


def run_workflow(
    shell: Shell, function: Callable[..., Any], *inputs: Any, unit: str = "", **options: Any
) -> Any:
    """Call a function of `workflows` on the input files; print what it read and noted."""
    refuse_overlap()
    if "other_names_in" in options:
        options["aliases"] = label_aliases(options.pop("other_names_in"))
    if "weights" in options:
        options["weights"] = shell.input_file(options["weights"])
    paths = [shell.input_file(x) if x is None or isinstance(x, str) else x for x in inputs]
    with shell.progress(unit) as on_progress:
        outcome = function(*paths, on_progress=on_progress, **options)
    for report in outcome.reports:
        shell.read(report)
    shell.notes(outcome.notes)
    return outcome


def take(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Remove some options of a command from the others and return them."""
    return {name: options.pop(name) for name in names if name in options}


def read_hierarchy_file(shell: Shell, options: dict[str, Any], hierarchy: str) -> HierarchyFile:
    """Read a hierarchy as the options say, and print what was found; the options are removed."""
    edges = options.pop("relationships")
    loaded = load_hierarchy(
        shell.input_file(hierarchy),
        relationships=tuple(dict.fromkeys(("is_a", *edges))) if edges else None,
        sep=options.get("sep"),
        **take(options, ("prefix", "prefixes", "path_sep")),
        lenient=options["lenient"],
    )
    shell.read(loaded.report)
    return loaded


def label_aliases(hierarchy: str | None) -> dict[str, str]:
    """Return the other names of labels that a hierarchy file lists."""
    return {} if hierarchy is None else dict(load_hierarchy(hierarchy).aliases)
