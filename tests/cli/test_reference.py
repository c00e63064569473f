"""The command-line page is made from the commands, and every command has help and an example."""

import click
import pytest

from hierlpr.cli import main
from hierlpr.cli._reference import cli_reference
from realdata import ROOT


def test_the_page_is_up_to_date():
    """Run ``python -m hierlpr.cli._reference > docs/cli.md`` after changing a command."""
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == cli_reference()


@pytest.mark.parametrize("name", main.commands)
def test_every_command_explains_itself(name):
    command = main.commands[name]
    assert command.help
    assert command.epilog.startswith(f"Example: hierlpr {name}")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
