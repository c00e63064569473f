"""The command-line reference as Markdown, made from the commands themselves.

``python docs/making/cli_page.py > docs/cli.md`` writes it anew; a test compares.
"""

from __future__ import annotations

import inspect

import click

from hierlpr.cli import main

INTRODUCTION = """# Command line

Data go to stdout or files, progress and messages to stderr. The exit code is 0 if all is done, 2
for bad input or usage (with one message that says what and where), and 1 for anything else. Files
are written whole or not at all: an interrupted run leaves the old file as it was.

Every reader stops at the first problem and names file and line. `--lenient` skips rows with
problems and labels that the hierarchy lacks, and counts them. [Files](files.md) shows every format.

`-` stands for stdin where a command reads a table (one of them), and for stdout after `rank --out`:

    zcat new.csv.gz | hierlpr rank --model model.hlpr --scores - --out - --calls-only | head

Progress and colours are for terminals only; `NO_COLOR=1` in the environment switches colours off.
For completion in the shell, put the line for yours into its start-up file:

    eval "$(_HIERLPR_COMPLETE=bash_source hierlpr)"             # ~/.bashrc
    eval "$(_HIERLPR_COMPLETE=zsh_source hierlpr)"              # ~/.zshrc
    _HIERLPR_COMPLETE=fish_source hierlpr | source              # ~/.config/fish/config.fish
"""


def cli_reference() -> str:
    """Markdown of all commands, in the order of the work."""
    parts = [INTRODUCTION]
    with click.Context(main) as ctx:
        for name in main.list_commands(ctx):
            parts.append(_section(name, main.get_command(ctx, name)))
    return "\n".join(parts)


def _section(name: str, command: click.Command) -> str:
    arguments = [p.human_readable_name.upper() for p in command.params
                 if isinstance(p, click.Argument)]  # fmt: skip
    required = [p for p in command.params if isinstance(p, click.Option) and p.required]
    usage = " ".join(
        [
            "hierlpr",
            name,
            *arguments,
            *(f"{p.opts[0]} {_metavar(p)}" for p in required),
            "[OPTIONS]",
        ]
    )
    lines = [f"## hierlpr {name}", "", '```text title="usage"', usage, "```", ""]
    lines += [inspect.cleandoc(command.help or ""), ""]
    if command.epilog:
        title, _, example = command.epilog.partition(": ")
        lines += [f"{title}:", "", "```sh", example, "```", ""]
    lines += ["| option | meaning |", "| --- | --- |"]
    for option in command.params:
        if isinstance(option, click.Option):
            lines.append(f"| {_names(option)} | {_meaning(option)} |")
    return "\n".join(lines) + "\n"


def _names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {_metavar(option)}"
    names = ", ".join(option.opts + option.secondary_opts)
    return f"`{names}{value}`"


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "NAME"
    return option.type.name.upper().split()[0]


def _meaning(option: click.Option) -> str:
    said = [option.help or ""]
    if isinstance(option.type, click.Choice):
        said.append("One of " + ", ".join(f"`{choice}`" for choice in option.type.choices) + ".")
    if option.required:
        said.append("Required.")
    elif option.show_default and not option.is_flag:
        said.append(f"Default: `{option.default}`.")
    return " ".join(part for part in said if part).replace("|", "\\|")


if __name__ == "__main__":
    click.echo(cli_reference(), nl=False)
