"""The command-line reference as Markdown, made from the commands themselves.

``python docs/making/cli_page.py > docs/cli.md`` writes it anew; a test compares.
"""

from __future__ import annotations

import inspect

import click

from hierlpr.cli import main

INTRODUCTION = """# Command line

Data go to stdout or files, progress and messages to stderr. The exit code is 0 on success, 2 for
bad input or usage (with one message that says what and where), and 1 for anything else. Files are
written whole or not at all. [Files](files.md) describes every format.

`-` is stdin where a command reads a table, and stdout after `--out` of `rank` and `sets`:

    zcat new.csv.gz | hierlpr rank --model model.hlpr --scores - --out - --calls-only | head

Progress bars and colours appear in terminals only; `NO_COLOR=1` switches colours off.
"""
SHARED = """## Shared options

Options with the same meaning in several commands.
"""
MANY = 3  # commands: an option with the same meaning in as many is described once


def cli_reference() -> str:
    """Return the Markdown of all commands, in the order of the work, and of what they share."""
    with click.Context(main) as ctx:
        commands = {name: main.get_command(ctx, name) for name in main.list_commands(ctx)}
    rows = [_row(option) for command in commands.values() for option in _options(command)]
    shared = [
        row for row in dict.fromkeys(rows) if rows.count(row) >= MANY and "Required." not in row
    ]
    parts = [_section(name, command, shared) for name, command in commands.items()]
    return "\n".join([INTRODUCTION, *parts, "\n".join([SHARED, *shared]) + "\n"])


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


def _section(name: str, command: click.Command, shared: list[str]) -> str:
    options = _options(command)
    lines = [f"## hierlpr {name}", ""]
    lines += [inspect.cleandoc(command.help or ""), ""]
    examples = (command.epilog or "").splitlines()[2:]  # after the line "Example:"
    lines += ["```sh", *map(str.strip, examples), "```", ""]
    lines += [_row(option) for option in options if _row(option) not in shared]
    also = [f"`{option.opts[-1]}`" for option in options if _row(option) in shared]
    if also:
        lines += ["", f"[Shared options](#shared-options): {', '.join(also)}."]
    return "\n".join(lines) + "\n"


def _row(option: click.Option) -> str:
    return f"- {_names(option)}: {_meaning(option)}"


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
    elif option.show_default and not option.is_flag and option.default is not None:
        said.append(f"Default: `{option.default}`.")
    return " ".join(part for part in said if part)


if __name__ == "__main__":
    click.echo(cli_reference(), nl=False)
