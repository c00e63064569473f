"""``hierlpr sets``: the sure and the possible labels of new samples."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from hierlpr.cli import _options as opt
from hierlpr.cli._shell import Shell, put_json


@click.command(epilog="Example: hierlpr sets --model sets.hlpr --scores new.csv --out sets.csv")
@click.option("--model", required=True, type=click.Path(), metavar="M",
              help="Model file that hierlpr fit wrote with --sets-error.")  # fmt: skip
@click.option("--scores", required=True, type=click.Path(), metavar="S",
              help="Scores of new samples, in any format of fit; also a folder of Parquet files, "
              "or an address such as s3://bucket/scores.parquet.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(), metavar="F",
              help=".csv or .parquet with sample,label,set; without an ending a folder of Parquet "
              "files; - for stdout.")  # fmt: skip
@click.option("--deepest", is_flag=True,
              help="One row a sample instead, sample,label: its deepest sure label, empty where "
              "none is sure.")  # fmt: skip
@click.option("--possible-only", is_flag=True, help="List only what is sure or possible.")
@click.option("--with-names", is_flag=True,
              help="Add a last column, name, with the names of labels for people.")  # fmt: skip
@opt.parts
@opt.tables
@opt.other_hierarchy
@opt.lenient
@opt.json_out
@opt.quiet
def sets(
    model: str,
    scores: str,
    out: str,
    deepest: bool,
    possible_only: bool,
    with_names: bool,
    hierarchy: str | None,
    lenient: bool,
    json_out: str | None,
    quiet: bool,
    **parts: Any,
) -> None:
    """Say of every label of every sample whether it is sure, possible, or neither (no).

    All sure labels of a new sample hold, and all labels that hold are possible, each with the
    probability that hierlpr fit --sets-error asked for. Both kinds are closed upward.
    """
    shell = Shell(quiet=quiet)
    from hierlpr import workflows
    from hierlpr._base.files import refuse_overlap

    if deepest and possible_only:
        raise click.UsageError("--deepest lists one label a sample; leave out --possible-only.")
    is_stream = out == "-"
    if is_stream and json_out == "-":
        raise click.UsageError("--out and --json cannot both go to stdout.")
    out = shell.scratch("stdout", ".csv") if is_stream else out
    inputs = {"--model": model, "--scores": scores, "--hierarchy": hierarchy}
    refuse_overlap({"--out": out, "--json": json_out}, inputs, parts["work"])
    table = opt.written_tables(shell, parts)
    with shell.rates("instances") as on_progress:
        done = workflows.sets_file(
            model, table(scores), out, deepest=deepest, possible_only=possible_only,
            with_names=with_names, lenient=lenient, aliases=opt.other_names(hierarchy),
            on_progress=on_progress, **parts,
        )  # fmt: skip
    if is_stream:
        with open(out, "rb") as written:
            shutil.copyfileobj(written, sys.stdout.buffer)
    shell.read(done.report)
    if deepest and not done.rule.one_path:
        shell.warn("samples may have several paths of sure labels, of which the deepest is listed; "
                   "for a taxonomy, fit with --one-path")  # fmt: skip
    if json_out is not None:
        put_json(json_out, {"sets": "-" if is_stream else out, "rows": done.n_rows,
                            "samples": done.n_samples, "sure": done.n_sure,
                            "possible": done.n_possible, "rule": done.rule.to_dict(),
                            "statement": str(done.rule)})  # fmt: skip
    if not is_stream and json_out != "-":
        shell.result(str(done.rule))
    shell.close(
        f"wrote {out}: {done.n_rows:,} rows of {done.n_samples:,} samples, {done.n_sure:,} labels "
        f"sure and {done.n_possible:,} possible (with the sure ones)"
    )
